"""Resource paths, and the identity of objects."""

from __future__ import annotations

import pytest

from sliceworks.base.errors import BadRequest, UsageError
from sliceworks.kube.resources import (
    DEPLOYMENT,
    GVK,
    NODE,
    POD,
    Key,
    controller_of,
    find_builtin,
    gvk_of,
    key_of,
    owner_reference,
    parse_api_version,
)


def test_paths() -> None:
    assert POD.path() == "/api/v1/pods"
    assert POD.path("ml") == "/api/v1/namespaces/ml/pods"
    assert POD.path("ml", "a", "log") == "/api/v1/namespaces/ml/pods/a/log"
    assert DEPLOYMENT.path("ml", "a") == "/apis/apps/v1/namespaces/ml/deployments/a"
    assert NODE.path("ignored", "n") == "/api/v1/nodes/n"


def test_names_are_escaped_in_paths() -> None:
    assert NODE.path(name="system:node") == "/api/v1/nodes/system:node"
    assert NODE.path(name="a/b c?") == "/api/v1/nodes/a%2Fb%20c%3F"
    for unusable in ("", ".", ".."):
        with pytest.raises(UsageError):
            NODE.path(name=unusable)


def test_namespaced_object_needs_a_namespace() -> None:
    with pytest.raises(UsageError, match="Pod a: namespace is required"):
        POD.path(name="a")


def test_group_version_and_kind() -> None:
    assert parse_api_version("v1") == ("", "v1")
    assert parse_api_version("apps/v1") == ("apps", "v1")
    for wrong in ("", "a/b/c", "apps/"):
        with pytest.raises(BadRequest, match="unexpected GroupVersion string"):
            parse_api_version(wrong)
    gvk = gvk_of({"apiVersion": "apps/v1", "kind": "Deployment"})
    assert gvk == GVK("apps", "v1", "Deployment")
    assert str(gvk) == "apps/v1, Kind=Deployment"
    assert gvk.api_version == "apps/v1"
    assert find_builtin(gvk) is DEPLOYMENT
    assert find_builtin(GVK("example.com", "v1", "Deployment")) is None
    assert DEPLOYMENT.qualified == "deployments.apps"


def test_objects_need_api_version_and_kind() -> None:
    with pytest.raises(UsageError, match=r"^Pod a: apiVersion is required$"):
        gvk_of({"kind": "Pod", "metadata": {"name": "a"}})
    with pytest.raises(UsageError, match=r"^object a: kind is required$"):
        gvk_of({"apiVersion": "v1", "metadata": {"name": "a"}})


def test_keys_and_owners() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs", "namespace": "ml", "uid": "1"}}
    assert key_of(owner) == Key("ml", "rs")
    assert str(Key("ml", "rs")) == "ml/rs"
    assert str(Key("", "node")) == "node"
    reference = owner_reference(owner)
    assert reference["controller"] is True
    assert controller_of({"metadata": {"ownerReferences": [owner_reference(owner, controller=False), reference]}}) == reference
    assert controller_of({"metadata": {}}) is None
