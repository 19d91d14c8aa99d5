"""Claims and PersistentVolumes: matching, binding, provisioning, reclaiming, expansion, and what the scheduler makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import eventually
from tests.support.scheduling import NO_VICTIMS, UNHELPFUL, ZONE
from tests.support.volumes import VolumeHarness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.http import Api
    from tests.support.scheduling import SchedulerHarness

CLUSTER = "scheduling"
Obj = dict[str, Any]
CONTROLLER = "persistentvolume-controller"


@pytest.fixture
def volumes(api: Api, ns: str) -> Iterator[VolumeHarness]:
    harness = VolumeHarness(api, ns)
    yield harness
    harness.clear()


def data(claim: str = "data") -> list[Obj]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


def test_claim_gets_the_smallest_volume_that_satisfies_it(volumes: VolumeHarness) -> None:
    selector = {"matchLabels": {"test": volumes.ns}}
    volumes.create_volume("small", "1Gi")
    volumes.create_volume("large", "10Gi")
    middle = volumes.create_volume("middle", "5Gi")
    volumes.create_volume("shared", "3Gi", accessModes=["ReadWriteMany"])
    volumes.create_volume("block", "3Gi", volumeMode="Block")
    volumes.create_volume("classed", "3Gi", storageClassName="other")
    for name in ("small", "large", "middle"):
        volumes.until_phase(name, "Available")
    created = volumes.create_claim(size="2Gi", selector=selector)
    claim = volumes.until_bound()
    assert claim["spec"]["volumeName"] == middle
    assert claim["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}}
    assert claim["metadata"]["annotations"] == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    volume = volumes.volume("middle")
    assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    reference = volume["spec"]["claimRef"]
    assert reference.pop("resourceVersion")
    expected = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data", "namespace": volumes.ns}
    assert reference == {**expected, "uid": created["metadata"]["uid"]}
    assert set(volume["status"]) == {"phase", "lastPhaseTransitionTime"}
    assert volumes.volume("large")["status"]["phase"] == "Available"


def test_claim_without_volume_is_bound_to_a_later_one(volumes: VolumeHarness) -> None:
    volumes.create_claim(selector={"matchLabels": {"test": volumes.ns}})
    message = "no persistent volumes available for this claim and no storage class is set"
    assert volumes.event("FailedBinding") == ("Normal", message, CONTROLLER)
    assert volumes.claim()["status"] == {"phase": "Pending"}
    volumes.create_volume("late")
    assert volumes.until_bound()["spec"]["volumeName"] == volumes.name("late")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"capacity": {"storage": "1Mi"}}, "requested PV is too small"),
        ({"storageClassName": "other"}, "storageClassName does not match"),
        ({"volumeMode": "Block"}, "incompatible volumeMode"),
        ({"accessModes": ["ReadOnlyMany"]}, "incompatible accessMode"),
    ],
    ids=["size", "class", "mode", "access"],
)
def test_named_volume_that_does_not_satisfy(volumes: VolumeHarness, spec: Obj, reason: str) -> None:
    name = volumes.create_volume("one", **spec)
    volumes.until_phase("one", "Available")
    volumes.create_claim(volumeName=name)
    message = f'Cannot bind to requested volume "NS-one": {reason}'
    assert volumes.event("VolumeMismatch") == ("Warning", message, CONTROLLER)
    assert volumes.claim()["status"]["phase"] == "Pending"


def test_named_volume_of_another_claim(volumes: VolumeHarness) -> None:
    name = volumes.create_volume("one")
    volumes.create_claim("first", volumeName=name)
    volumes.until_bound("first")
    volumes.create_claim(volumeName=name)
    message = 'volume "NS-one" already bound to a different claim.'
    assert volumes.event("FailedBinding") == ("Warning", message, CONTROLLER)


def test_reserved_volume_is_bound_to_its_claim_only(volumes: VolumeHarness) -> None:
    reserved = {"namespace": volumes.ns, "name": "data"}
    volumes.create_volume("reserved", labels={"of": volumes.ns}, claimRef=reserved)
    volumes.until_phase("reserved", "Available")
    volumes.create_claim("other", selector={"matchLabels": {"of": volumes.ns}})
    volumes.event("FailedBinding", "other")
    volumes.create_claim()
    claim = volumes.until_bound()
    assert claim["spec"]["volumeName"] == volumes.name("reserved")
    volume = volumes.volume("reserved")
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert "annotations" not in volume["metadata"]


def test_retained_volume_is_released(volumes: VolumeHarness) -> None:
    volumes.create_volume("kept", claimRef={"namespace": volumes.ns, "name": "data"})
    volumes.create_claim()
    volumes.until_bound()
    volumes.delete_claim()
    volumes.until_phase("kept", "Released")
    volumes.create_claim()
    assert volumes.until_claim(lambda obj: obj["status"].get("phase") == "Pending", "no volume")["spec"].get("volumeName") is None
    volumes.delete_volume("kept")
    eventually(lambda: not volumes.has_volume("kept"), what="the volume is deleted")


def test_volume_that_no_plugin_can_delete_fails(volumes: VolumeHarness) -> None:
    reserved = {"namespace": volumes.ns, "name": "data"}
    volumes.create_volume("gone", persistentVolumeReclaimPolicy="Delete", claimRef=reserved)
    volumes.create_claim()
    volumes.until_bound()
    volumes.delete_claim()
    message = 'error getting deleter volume plugin for volume "NS-gone": no deletable volume plugin matched'
    assert volumes.until_phase("gone", "Failed")["status"]["message"].replace(volumes.ns, "NS") == message
    assert volumes.event("VolumeFailedDelete", "gone", "PersistentVolume") == ("Warning", message, CONTROLLER)


def test_volume_of_a_driver_waits_for_it(volumes: VolumeHarness) -> None:
    source = {"driver": "disk.example.com", "volumeHandle": "one"}
    reserved = {"namespace": volumes.ns, "name": "data"}
    volumes.create_volume("disk", csi=source, persistentVolumeReclaimPolicy="Delete", claimRef=reserved)
    volumes.create_claim()
    volumes.until_bound()
    volumes.delete_claim()
    assert "message" not in volumes.until_phase("disk", "Released")["status"]


def test_bound_volume_is_protected_and_claim_that_loses_it_is_lost(volumes: VolumeHarness) -> None:
    volumes.create_volume("one", claimRef={"namespace": volumes.ns, "name": "data"})
    volumes.create_claim()
    volumes.until_bound()
    volumes.delete_volume("one")
    volume = volumes.volume("one")
    assert volume["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert volume["metadata"]["deletionTimestamp"]
    volumes.api.patch(f"/api/v1/persistentvolumes/{volumes.name('one')}", {"metadata": {"finalizers": None}}).ok()
    claim = volumes.until_claim(lambda obj: obj["status"]["phase"] == "Lost", "the claim is lost")
    assert claim["status"] == {"phase": "Lost"}
    message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    assert volumes.event("ClaimLost") == ("Warning", message, CONTROLLER)


def test_claim_of_a_missing_class(volumes: VolumeHarness) -> None:
    volumes.create_claim(storageClassName=volumes.name("missing"))
    message = 'storageclass.storage.k8s.io "NS-missing" not found'
    assert volumes.event("ProvisioningFailed") == ("Warning", message, CONTROLLER)


def test_claim_of_a_class_without_provisioner(volumes: VolumeHarness) -> None:
    volumes.create_claim(storageClassName=volumes.create_class("static", provisioner="kubernetes.io/no-provisioner"))
    message = "no volume plugin matched name: kubernetes.io/no-provisioner"
    assert volumes.event("ProvisioningFailed") == ("Warning", message, CONTROLLER)


def provision(volumes: VolumeHarness, claim: Obj, name: str, **spec: Any) -> None:
    """Create a volume as an external provisioner does."""
    metadata = claim["metadata"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": metadata["name"], "namespace": metadata["namespace"]}
    source = {"driver": "disk.example.com", "volumeHandle": name}
    volumes.create_volume(
        name,
        csi=source,
        claimRef={**reference, "uid": metadata["uid"]},
        storageClassName=claim["spec"]["storageClassName"],
        persistentVolumeReclaimPolicy="Delete",
        **spec,
    )


PROVISIONER = "volume.kubernetes.io/storage-provisioner"


def test_external_provisioner_is_named_and_its_volume_bound(volumes: VolumeHarness) -> None:
    volumes.create_claim(storageClassName=volumes.create_class("disks"))
    message = (
        "Waiting for a volume to be created either by the external provisioner 'disk.example.com' or manually by the system "
        "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    )
    assert volumes.event("ExternalProvisioning") == ("Normal", message, CONTROLLER)
    claim = volumes.until_claim(lambda obj: PROVISIONER in obj["metadata"].get("annotations", {}), "the provisioner is named")
    expected = {PROVISIONER: "disk.example.com", "volume.beta.kubernetes.io/storage-provisioner": "disk.example.com"}
    assert claim["metadata"]["annotations"] == expected
    provision(volumes, claim, "made")
    assert volumes.until_bound()["spec"]["volumeName"] == volumes.name("made")


def test_in_tree_provisioner_is_named_by_its_driver(volumes: VolumeHarness) -> None:
    volumes.create_claim(storageClassName=volumes.create_class("disks", provisioner="kubernetes.io/gce-pd"))
    claim = volumes.until_claim(lambda obj: PROVISIONER in obj["metadata"].get("annotations", {}), "the provisioner is named")
    driver = "pd.csi.storage.gke.io"
    assert claim["metadata"]["annotations"] == {PROVISIONER: driver, "volume.beta.kubernetes.io/storage-provisioner": driver}


def test_expansion_waits_for_the_driver(volumes: VolumeHarness) -> None:
    name = volumes.create_class("disks", allowVolumeExpansion=True)
    provision(volumes, volumes.create_claim(storageClassName=name), "disk")
    volumes.until_bound()
    volumes.change_claim({"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    message = "waiting for an external controller to expand this PVC"
    assert volumes.event("ExternalExpanding") == ("Normal", message, "volume_expand")
    assert volumes.claim()["status"]["capacity"] == {"storage": "1Gi"}


def test_default_class_that_is_newer_than_the_claim(volumes: VolumeHarness) -> None:
    volumes.create_claim(storageClassName=None)
    volumes.event("FailedBinding")
    name = volumes.create_class("late")
    path = f"/apis/storage.k8s.io/v1/storageclasses/{name}"
    volumes.api.patch(path, {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}).ok()
    volumes.until_claim(lambda obj: obj["spec"].get("storageClassName") == name, "the claim has the class")


# Pods.


def test_pod_waits_for_an_unbound_claim(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    scheduler.node("a")
    volumes.create_claim(selector={"matchLabels": {"test": volumes.ns}})
    volumes.event("FailedBinding")
    scheduler.pod("one", volumes=data())
    scheduler.refused_with("one", "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found")
    volumes.create_volume("late")
    assert scheduler.where("one") == "a"


def test_pod_runs_where_its_volume_is(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    scheduler.node("a", labels={ZONE: "east"})
    volumes.create_volume("disk", zone="west", claimRef={"namespace": volumes.ns, "name": "data"})
    volumes.create_claim()
    volumes.until_bound()
    scheduler.pod("one", volumes=data())
    reason = "1 node(s) didn't match PersistentVolume's node affinity"
    scheduler.refused_with("one", f"0/1 nodes are available: {reason}. {UNHELPFUL.format(1)}")
    scheduler.node("b", labels={ZONE: "west"})
    assert scheduler.where("one") == "b"


def test_pod_runs_in_the_zone_of_its_volume(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    scheduler.node("a", labels={ZONE: "east"})
    volumes.create_volume("disk", labels={ZONE: "north__west"}, claimRef={"namespace": volumes.ns, "name": "data"})
    volumes.create_claim()
    volumes.until_bound()
    scheduler.pod("one", volumes=data())
    reason = "1 node(s) had no available volume zone"
    scheduler.refused_with("one", f"0/1 nodes are available: {reason}. {UNHELPFUL.format(1)}")
    scheduler.node("b", labels={ZONE: "west"})
    assert scheduler.where("one") == "b"


def test_claim_for_one_pod_is_used_by_one(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    for name in ("a", "b"):
        scheduler.node(name)
    modes = ["ReadWriteOncePod"]
    volumes.create_volume("disk", accessModes=modes, claimRef={"namespace": volumes.ns, "name": "data"})
    volumes.create_claim(accessModes=modes)
    volumes.until_bound()
    scheduler.pod("one", volumes=data())
    scheduler.where("one")
    scheduler.pod("two", volumes=data())
    reason = "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    scheduler.refused_with("two", f"0/2 nodes are available: {reason}. {NO_VICTIMS.format(2)}")
    scheduler.delete("one")
    assert scheduler.where("two")


def test_pod_preempts_the_user_of_its_claim(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    scheduler.priority("high", 1000)
    for name in ("a", "b"):
        scheduler.node(name)
    modes = ["ReadWriteOncePod"]
    volumes.create_volume("disk", accessModes=modes, claimRef={"namespace": volumes.ns, "name": "data"})
    volumes.create_claim(accessModes=modes)
    volumes.until_bound()
    scheduler.pod("one", volumes=data())
    node = scheduler.where("one")
    scheduler.pod("two", volumes=data(), priorityClassName="high")
    assert scheduler.where("two") == node
    assert scheduler.event("one", "Preempted")


def test_pod_of_a_lost_claim(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    scheduler.node("a")
    name = volumes.create_volume("disk", claimRef={"namespace": volumes.ns, "name": "data"})
    volumes.create_claim()
    volumes.until_bound()
    volumes.delete_volume("disk")
    volumes.api.patch(f"/api/v1/persistentvolumes/{name}", {"metadata": {"finalizers": None}}).ok()
    volumes.until_claim(lambda obj: obj["status"]["phase"] == "Lost", "the claim is lost")
    scheduler.pod("one", volumes=data())
    problem = f'persistentvolumeclaim "data" bound to non-existent persistentvolume "{name}"'
    scheduler.refused_with("one", f"0/1 nodes are available: {problem}. not found")


def test_claim_waits_for_its_first_consumer(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    for name, zone in (("a", "east"), ("b", "west")):
        scheduler.node(name, labels={ZONE: zone})
    static = volumes.create_class("local", provisioner="kubernetes.io/no-provisioner", delayed=True)
    volumes.create_claim(storageClassName=static)
    message = "waiting for first consumer to be created before binding"
    assert volumes.event("WaitForFirstConsumer") == ("Normal", message, CONTROLLER)
    scheduler.pod("one", volumes=data())
    reason = "2 node(s) didn't find available persistent volumes to bind"
    scheduler.refused_with("one", f"0/2 nodes are available: {reason}. {UNHELPFUL.format(2)}")
    volumes.create_volume("disk", zone="west", storageClassName=static, local={"path": "/disk"})
    assert scheduler.where("one") == "b"
    claim = volumes.until_bound()
    assert claim["spec"]["volumeName"] == volumes.name("disk")
    assert "volume.kubernetes.io/selected-node" not in claim["metadata"]["annotations"]
    assert volumes.volume("disk")["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}


def test_node_is_selected_before_the_volume_is_provisioned(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    for name, zone in (("a", "east"), ("b", "west")):
        scheduler.node(name, labels={ZONE: zone})
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["west"]}]}]
    name = volumes.create_class("disks", delayed=True, allowedTopologies=allowed)
    volumes.create_claim(storageClassName=name)
    scheduler.pod("one", volumes=data())
    claim = volumes.until_claim(lambda obj: PROVISIONER in obj["metadata"].get("annotations", {}), "the provisioner is named")
    assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "b"
    assert "nodeName" not in scheduler.get("one")["spec"]
    scheduler.pod("two", volumes=data())
    provision(volumes, claim, "disk", zone="west")
    assert (scheduler.where("one"), scheduler.where("two")) == ("b", "b")


def test_used_claim_is_protected(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    scheduler.node("a")
    volumes.create_volume("disk", claimRef={"namespace": volumes.ns, "name": "data"})
    volumes.create_claim()
    volumes.until_bound()
    scheduler.pod("one", volumes=data())
    scheduler.where("one")
    volumes.delete_claim()
    scheduler.pod("two", volumes=data())
    scheduler.refused_with("two", '0/1 nodes are available: persistentvolumeclaim "data" is being deleted. not found')
    assert volumes.claim()["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    scheduler.delete("two")
    scheduler.delete("one")
    volumes.until_phase("disk", "Released")


def test_ephemeral_volume_has_a_claim_of_its_pod(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    scheduler.node("a")
    volumes.create_volume("disk", labels={"of": volumes.ns})
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
        "selector": {"matchLabels": {"of": volumes.ns}},
    }
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    pod = scheduler.pod("one", volumes=[{"name": "cache", "ephemeral": {"volumeClaimTemplate": template}}])
    assert scheduler.where("one") == "a"
    claim = volumes.until_bound("one-cache")
    assert claim["metadata"]["labels"] == {"app": "web"}
    (owner,) = claim["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "one",
        "uid": pod["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    scheduler.delete("one")
    volumes.until_phase("disk", "Released")


def test_ephemeral_volume_with_a_foreign_claim(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    scheduler.node("a")
    volumes.create_claim("one-cache")
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    scheduler.pod("one", volumes=[{"name": "cache", "ephemeral": {"volumeClaimTemplate": template}}])
    problem = f"PVC {volumes.ns}/one-cache was not created for pod {volumes.ns}/one (pod is not owner)"
    scheduler.refused_with("one", f"0/1 nodes are available: {problem}. not found")
    event = scheduler.event("one", "FailedBinding")
    assert (event["type"], event["message"]) == ("Warning", f"ephemeral volume cache: {problem}")


def test_claim_of_an_ephemeral_volume_waits_for_its_pod(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    scheduler.node("a", labels={ZONE: "east"})
    name = volumes.create_class("disks", delayed=True)
    resources = {"requests": {"storage": "1Gi"}}
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": name, "resources": resources}}
    ephemeral = [{"name": "cache", "ephemeral": {"volumeClaimTemplate": template}}]
    scheduler.pod("one", volumes=ephemeral, nodeSelector={ZONE: "west"})
    message = "waiting for pod one to be scheduled"
    assert volumes.event("WaitForPodScheduled", "one-cache") == ("Normal", message, CONTROLLER)


def test_volume_of_a_claim_without_name_stays_pending(volumes: VolumeHarness) -> None:
    volumes.create_volume("lost", claimRef={"uid": "unknown"})
    volumes.create_volume("nowhere", claimRef={"name": "data", "uid": "unknown"})
    volumes.until_phase("nowhere", "Released")
    assert volumes.volume("lost")["status"]["phase"] == "Pending"


def test_pods_do_not_get_the_same_volume(scheduler: SchedulerHarness, volumes: VolumeHarness) -> None:
    static = volumes.create_class("local", provisioner="kubernetes.io/no-provisioner", delayed=True)
    volumes.create_volume("disk", zone="east", storageClassName=static, local={"path": "/disk"})
    for name in ("one", "two"):
        volumes.create_claim(name, storageClassName=static)
        scheduler.pod(name, volumes=data(name))
    scheduler.node("a", labels={ZONE: "east"})
    placed = eventually(lambda: [name for name in ("one", "two") if "nodeName" in scheduler.get(name)["spec"]], what="a pod")
    (waiting,) = {"one", "two"} - set(placed)
    reason = "1 node(s) didn't find available persistent volumes to bind"
    scheduler.refused_with(waiting, f"0/1 nodes are available: {reason}. {UNHELPFUL.format(1)}")
    volumes.create_volume("another", zone="east", storageClassName=static, local={"path": "/another"})
    assert (scheduler.where("one"), scheduler.where("two")) == ("a", "a")
    bound = {volumes.until_bound(name)["spec"]["volumeName"] for name in ("one", "two")}
    assert bound == {volumes.name("disk"), volumes.name("another")}
