"""agnhost, the test program of Kubernetes' suites, as an image of a twin that runs processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.real.build import build, module_folder
from tests.real.programs import PROGRAMS

from sliceworks.base import yaml_documents

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.59"


def write_image_map(folder: Path) -> Path:
    """An ImageMap of the suites' images: agnhost and pause, and for busybox the shell and tools of this machine."""
    program = PROGRAMS["agnhost"]
    agnhost = str(build(program))
    porter = module_folder(program, "k8s.io/kubernetes") / "test" / "images" / "agnhost" / "porter"
    files = {"/agnhost": agnhost, "/agnhost-2": agnhost, "/localhost.crt": str(porter / "localhost.crt")}
    files["/localhost.key"] = str(porter / "localhost.key")
    images = [
        {"image": "registry.k8s.io/e2e-test-images/agnhost", "files": files, "entrypoint": ["/agnhost"], "cmd": ["pause"]},
        {"image": "registry.k8s.io/pause", "files": {"/pause": agnhost}, "entrypoint": ["/pause", "pause"]},
        {"image": "registry.k8s.io/e2e-test-images/busybox", "cmd": ["sh"]},
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
