"""Images that run as programs of this machine."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.process_pods import ended, mounts_wanted, pod, ready, running, state, until

from sliceworks.base.errors import InvalidDocument
from sliceworks.kube.requests import PatchType
from sliceworks.kube.resources import POD
from sliceworks.platform import image_map
from sliceworks.twin.nodes.runtime.image import Image, ImageMap

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.client import Client

Object = dict[str, Any]
MAP = """
apiVersion: sliceworks.dev/v1alpha1
kind: ImageMap
metadata: {name: tools}
spec:
  images:
  - image: example.com/echo
    files: {/echo: ./echo.sh}
    entrypoint: [/echo, one]
    cmd: [two]
    env: {GREETING: hello}
  - image: busybox:1.*
  - {image: "example.com/unknown:none", missing: true}
"""
CHANGE = {"op": "replace", "path": "/spec/containers/0/image"}
ECHO = '#!/bin/sh\necho "$GREETING $*"\necho done > /dev/termination-log\n'


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("nginx", ["nginx", "nginx:1.2", "docker.io/library/nginx@sha256:ab", "library/nginx"], ["example.com/nginx", "nginx-new"]),
        ("nginx:1.*", ["nginx:1.14-4", "docker.io/nginx:1.2@sha256:ab"], ["nginx", "nginx:2.0", "nginx@sha256:ab"]),
        ("nginx:latest", ["nginx", "nginx:latest"], ["nginx:1.2"]),
        ("example.com:5000/a/*", ["example.com:5000/a/b:1", "example.com:5000/a/b/c"], ["example.com/a/b", "a/b"]),
        ("a/b@sha256:ab*", ["a/b@sha256:abc", "a/b:1@sha256:abc"], ["a/b", "a/b@sha256:cd"]),
        ("*/agnhost", ["registry.k8s.io/e2e-test-images/agnhost:2.59"], ["agnhost-2", "registry.k8s.io/agnhosts"]),
        ("*", ["nginx", "example.com/a@sha256:ab"], []),
        ("a.io/x*yy*y", ["a.io/xyyy", "a.io/xabyycy"], ["a.io/xyy", "a.io/xyay", "a.io/xyyyz"]),
    ],
)
def test_patterns_match_images(pattern: str, matching: list[str], others: list[str]) -> None:
    images = ImageMap([(pattern, Image())])
    assert [item for item in matching if images.find(item) is None] == []
    assert [item for item in others if images.find(item) is not None] == []


def test_long_names_are_matched_in_linear_time() -> None:
    """A pattern with many `*`, and a name that nearly matches it in many ways."""
    name = f"example.com/{'a' * 3000}"
    assert ImageMap([(f"*{'a*' * 30}b", Image())]).find(name) is None
    assert ImageMap([(f"*{'a*' * 30}b", Image())]).find(f"{name}b") == Image()


def test_first_matching_entry_applies() -> None:
    images = ImageMap([("nginx:1.2", Image(cmd=("a",))), ("nginx", Image(cmd=("b",)))])
    assert [images.find(name) for name in ("nginx:1.2", "nginx")] == [Image(cmd=("a",)), Image(cmd=("b",))]


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({}, ["/echo", "one", "two"]),
        ({"args": ["three"]}, ["/echo", "one", "three"]),
        ({"command": ["sh"]}, ["sh"]),
        ({"command": ["sh"], "args": ["-c"]}, ["sh", "-c"]),
    ],
)
def test_command_and_args_override_the_image(container: Object, words: list[str]) -> None:
    assert Image(("/echo", "one"), ("two",)).words(container) == words


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("entrypoint:", "entrypont:", r"map.yaml:8: unknown field spec.images\[0\].entrypont; .*entrypoint"),
        ("./echo.sh", "./none.sh", r"map.yaml:7: spec.images\[0\].files./echo: file ./none.sh not found"),
        ("/echo: ./", "echo: ./", r"map.yaml:7: spec.images\[0\].files.echo.*: must be an absolute path in the container"),
        ("busybox:1.*", "example.com/echo", r"map.yaml:11: spec.images\[1\].image: duplicate image: example.com/echo"),
        ("busybox:1.*", "Busybox", r"map.yaml:11: spec.images\[1\].image: must be an image"),
        ("kind: ImageMap", "kind: Scenario", "map.yaml:[0-9]+: "),
    ],
)
def test_errors_name_the_field(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "echo.sh").write_text(ECHO)
    file = tmp_path / "map.yaml"
    file.write_text(MAP.replace(old, new).lstrip("\n"))
    with pytest.raises(InvalidDocument) as error:
        image_map.load(file)
    assert re.search(message, str(error.value))


@pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone")
@mounts_wanted
def test_pods_with_mapped_images_run(tmp_path: Path) -> None:
    (tmp_path / "echo.sh").write_text(ECHO)
    (tmp_path / "echo.sh").chmod(0o755)
    (tmp_path / "map.yaml").write_text(MAP)

    async def main(client: Client) -> None:
        await client.create(pod("default", image="example.com/echo:3"))
        env = [{"name": "GREETING", "value": "bye"}]
        await client.create(pod("args", image="example.com/echo:3", args=["$(GREETING)"], env=env))
        named = pod("named", image="example.com/echo:3", args=["peer.team 0.0.0.0"])
        named["spec"] |= {"hostname": "own", "subdomain": "team"}
        await client.create(named)
        await client.create(pod("command", "sh", "-c", "echo $GREETING; exit 4", image="busybox:1.37"))
        logs = {}
        for name in ("default", "args", "named", "command"):
            status = await until(client, name, ended)
            logs[name] = await client.logs(name, "default")
            if name == "default":
                assert state(status)["terminated"]["message"] == "done\n"
        assert re.fullmatch(r"hello one peer.team 127[.0-9]+\n", logs.pop("named"))
        assert logs == {"default": "hello one two\n", "args": "bye one bye\n", "command": "\n"}

        await client.create(pod("none", image="example.com/unknown:none"))
        status = await until(client, "none", lambda status: "waiting" in state(status))
        assert state(status)["waiting"]["reason"] == "ImagePullBackOff"
        await client.create(pod("other", "sh", "-c", "exit 4", image="example.com/unknown"))
        await client.create(pod("no-command", image="busybox:1.37"))
        for name in ("other", "no-command"):
            status = await until(client, name, lambda status: "running" in state(status))
            assert status["podIP"].startswith("10.")

    running(main, tmp_path / "pods", images=image_map.load(tmp_path / "map.yaml"))


@mounts_wanted
def test_probes_see_the_files_of_the_running_container(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("small\n")
    images = ImageMap([("example.com/files", Image(files={"/file-of-a-test": tmp_path / "file"}))])
    gone = {"exec": {"command": ["test", "!", "-e", "/file-of-a-test"]}, "periodSeconds": 1, "timeoutSeconds": 60}

    async def main(client: Client) -> None:
        script = "cat /file-of-a-test; rm /file-of-a-test; sleep 600"
        await client.create(pod("p", "sh", "-c", script, image="example.com/files", readinessProbe=gone))
        await until(client, "p", ready)
        assert await client.logs("p", "default") == "small\n"
        assert (tmp_path / "file").exists()

    running(main, tmp_path / "pods", images=images)


@mounts_wanted
def test_a_pod_runs_on_after_a_change_of_its_image(tmp_path: Path) -> None:
    (tmp_path / "echo.sh").write_text(ECHO)
    (tmp_path / "map.yaml").write_text(MAP)

    async def main(client: Client) -> None:
        await client.create(pod("a", "sleep", "1000", image="busybox:1.37", grace=0))
        await until(client, "a", ready)
        changed = await client.patch(POD, "a", [{**CHANGE, "value": "example.com/unknown"}], kind=PatchType.JSON)
        generation = changed["metadata"]["generation"]
        status = await until(client, "a", lambda status: status.get("observedGeneration") == generation)
        assert status["podIP"].startswith("127.")

    running(main, tmp_path / "pods", images=image_map.load(tmp_path / "map.yaml"))
