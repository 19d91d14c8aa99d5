"""agnhost, the test program of Kubernetes' suites, as an image of a twin that runs processes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.real import debian
from tests.real.build import build, module_folder
from tests.real.programs import PROGRAMS

from sliceworks.base import yaml_documents

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.59"


_REGISTRY = "registry.k8s.io/e2e-test-images"
_MISSING = ("webserver:404", "foo:non-existent", "gcr.io/google_samples/gb-redisslave:nonexistent", "invalid.registry.k8s.io/*")
"""Images with which the suite tests what happens if there is none."""


def write_image_map(folder: Path) -> Path:
    """An ImageMap of the suites' images: their programs, and for others a shell and the tools of this machine."""
    program = PROGRAMS["agnhost"]
    agnhost = str(build(program))
    sources = module_folder(program, "k8s.io/kubernetes") / "test" / "images"
    porter, page = sources / "agnhost" / "porter", sources / "nautilus" / "html"
    tools = {
        "/usr/bin/nc": _netcat(),
        **{f"/usr/bin/{name}": _dns_client(name, folder) for name in ("dig", "nslookup")},
    }
    files = {"/agnhost": agnhost, "/agnhost-2": agnhost, "/localhost.crt": str(porter / "localhost.crt")}
    files["/localhost.key"] = str(porter / "localhost.key")
    certificate = {"CERT_FILE": "/localhost.crt", "KEY_FILE": "/localhost.key"}
    content = {f"/{name}": str(page / name) for name in ("nautilus.jpg", "data.json")}
    images = [
        {"image": f"{_REGISTRY}/agnhost", "files": files | tools, "env": certificate, "entrypoint": ["/agnhost"], "cmd": ["pause"]},
        {"image": "registry.k8s.io/pause", "files": {"/pause": agnhost}, "entrypoint": ["/pause", "pause"]},
        {"image": f"{_REGISTRY}/nautilus", "files": files | content, "entrypoint": ["/agnhost"], "cmd": ["test-webserver"]},
        {"image": f"{_REGISTRY}/busybox", "files": _shells(), "cmd": ["sh"]},
        {"image": f"{_REGISTRY}/nonewprivs", "files": {"/usr/local/bin/nnp": _setuid_program(folder)}, "cmd": ["nnp"]},
        {"image": f"{_REGISTRY}/jessie-dnsutils", "files": tools, "cmd": ["sh"]},
        _program("sample-apiserver", f"{_REGISTRY}/sample-apiserver", "/sample-apiserver"),
        _program("etcd", "registry.k8s.io/etcd", "/usr/local/bin/etcd"),
        *({"image": image, "missing": True} for image in _MISSING),
    ]
    document = {
        "apiVersion": "sliceworks.dev/v1alpha1",
        "kind": "ImageMap",
        "metadata": {"name": "suite"},
        "spec": {"images": images},
    }
    file = folder / "images.yaml"
    file.write_text(yaml_documents.dump(document))
    return file


def _program(name: str, image: str, path: str) -> dict[str, object]:
    """The image of one program."""
    return {"image": image, "files": {path: str(build(PROGRAMS[name]))}, "entrypoint": [path]}


def _setuid_program(folder: Path) -> str:
    """The program that prints its user; it is root's unless a container may not gain privileges."""
    program = replace(PROGRAMS["agnhost"], name="nonewprivs", pinned_package="k8s.io/kubernetes/test/images/nonewprivs")
    copy = folder / "nnp"
    shutil.copyfile(build(program), copy)
    copy.chmod(0o4755)
    return str(copy)


def _shells() -> dict[str, str]:
    """/bin/sh has the error messages that the specs expect; as `sh` it is bash, since some versions of busybox drop variables
    whose names are not identifiers, which the busybox of the image keeps.
    """
    busybox = shutil.which("busybox") or str(next(debian.unpacked("busybox").rglob("bin/busybox")))
    return {"/bin/sh": busybox} | ({"/usr/local/bin/sh": bash} if (bash := shutil.which("bash")) else {})


def _netcat() -> str:
    return shutil.which("nc") or str(debian.unpacked("netcat-openbsd") / "bin" / "nc.openbsd")


def _dns_client(name: str, folder: Path) -> str:
    """dig or nslookup; one that is not installed finds its libraries through a script."""
    if installed := shutil.which(name):
        return installed
    root = debian.unpacked("bind9-dnsutils", dependencies=True)
    libraries = ":".join(str(path) for path in sorted((root / "usr" / "lib").glob("*-linux-*")))
    script = folder / name
    script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {root}/usr/bin/{name} "$@"\n')
    script.chmod(0o755)
    return str(script)
