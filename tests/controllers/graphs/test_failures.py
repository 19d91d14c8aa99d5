"""What cannot be changed: the instance says so, and tells of what is there as before."""

from __future__ import annotations

from tests.support.graphs import Stage, on_stage

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


def test_status_goes_by_what_is_there() -> None:
    """A pod cannot be changed: the status tells of it as it is, and new ones are made beside it."""

    async def main(stage: Stage) -> None:
        await stage.apply(CREW)
        await stage.apply(crew("ann", "bob"))
        told = (await stage.get(f"{CREWS}/c"))["status"]
        assert (told["state"], told["people"], told["leader"], told["names"]) == ("ACTIVE", 2, "2", "c-ann c-bob")
        await stage.apply(crew("ann", "bob", "cid"))
        told = (await stage.get(f"{CREWS}/c"))["status"]
        assert (told["state"], told["people"], told["leader"], told["names"]) == ("ERROR", 3, "2", "c-ann c-bob c-cid")
        assert "pod updates may not change fields" in (await stage.condition(f"{CREWS}/c", "Ready"))["message"]

    on_stage(main)
