"""Failed applies: status and dependents use the existing objects."""

from __future__ import annotations

from tests.support.graph_controller import GraphHarness, run_with_controller

CREWS = "/apis/kro.run/v1alpha1/namespaces/default/crews"
CREW = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: crew}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Crew
    spec: {people: "[]string"}
    status: {people: "${size(people)}", leader: "${leader.spec.containers[0].args[0]}", names: "${roll.data.names}"}
  resources:
  - id: leader
    template: &pod
      apiVersion: v1
      kind: Pod
      metadata: {name: "${schema.metadata.name}"}
      spec: {containers: [{name: a, image: b, args: ["${string(size(schema.spec.people))}"]}]}
  - id: people
    forEach: [{person: "${schema.spec.people}"}]
    template:
      <<: *pod
      metadata: {name: "${schema.metadata.name}-${person}"}
  - id: roll
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}"}
      data: {names: "${people.map(each, each.metadata.name).join(' ')}"}
"""


def crew(*people: str) -> str:
    return f"{{apiVersion: kro.run/v1alpha1, kind: Crew, metadata: {{name: c}}, spec: {{people: [{', '.join(people)}]}}}}"


def test_status_uses_existing_objects() -> None:
    """A pod's spec is immutable: the status has the existing pod, and new ones are created beside it."""

    async def main(harness: GraphHarness) -> None:
        await harness.apply(CREW)
        await harness.apply(crew("ann", "bob"))
        reported = (await harness.get(f"{CREWS}/c"))["status"]
        assert (reported["state"], reported["people"], reported["leader"], reported["names"]) == ("ACTIVE", 2, "2", "c-ann c-bob")
        await harness.apply(crew("ann", "bob", "cid"))
        reported = (await harness.get(f"{CREWS}/c"))["status"]
        assert (reported["state"], reported["people"], reported["leader"], reported["names"]) == (
            "ERROR",
            3,
            "2",
            "c-ann c-bob c-cid",
        )
        assert "pod updates may not change fields" in (await harness.condition(f"{CREWS}/c", "Ready"))["message"]

    run_with_controller(main)
