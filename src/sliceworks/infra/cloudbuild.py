"""Cloud Build files that apply and destroy an Environment. Pure.

One build provisions and one destroys. Both run as the automation account, which has only the roles that the environment
needs. With teams, the first also installs JobSet and Kueue and creates the queues; with a mesh, it deploys the ingress gateway;
Triton services are deployed and then checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.infra import images
from sliceworks.infra.cluster import addon, composition, mesh
from sliceworks.infra.stages import Names, compile_stages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.infra.cluster.addon import Release
    from sliceworks.infra.stages import Stage
    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
IMAGE = "hashicorp/terraform:1.11.4"
KUBECTL_IMAGE = "gcr.io/google.com/cloudsdktool/google-cloud-cli:573.0.0"
_TIMEOUT = "7200s"
_BOOTSTRAP = "0-bootstrap"


class TritonService(NamedTuple):
    """A Triton service that the build deploys: its objects, and the models that must be ready."""

    name: str
    namespace: str
    objects: list[Object]
    models: list[str]


def builds(environment: Environment, services: Sequence[TritonService] = (), queues: Sequence[Object] = ()) -> dict[str, str]:
    """The build files by name; `queues` are the objects of the teams.

    Builds leave out the bootstrap, which creates the account that they run as.
    """
    stages = [stage for stage in compile_stages(environment) if stage.name != _BOOTSTRAP]
    manifests = _manifests(environment, services, queues)
    releases = _releases(environment) if "manifests/queues.yaml" in manifests else []
    provision = [*map(_apply, stages), *_deploy(environment, services, manifests, releases), _show(stages)]
    destroy = [*_clean_up(environment, manifests), *map(_destroy, reversed(stages))]
    return {
        **{file: yaml_documents.dump_all(objects) for file, objects in manifests.items()},
        "cloudbuild.provision.yaml": yaml_documents.dump(_build(environment, "provision", provision, releases)),
        "cloudbuild.destroy.yaml": yaml_documents.dump(_build(environment, "destroy", destroy)),
        **images.files(environment),
    }


def _releases(environment: Environment) -> list[Release]:
    return [release for release in addon.required_releases(environment.spec) if release.name in ("jobset", "kueue")]


def _version(release: Release) -> str:
    """The substitution with the version of a release."""
    return f"_{release.name.upper()}_VERSION"


def _build(environment: Environment, verb: str, steps: list[Object], releases: Sequence[Release] = ()) -> Object:
    names = Names(environment)
    return {
        "steps": steps,
        "substitutions": {
            "_STATE_BUCKET": names.state_bucket,
            "_STATE_PREFIX": names.state_prefix,
            "_SERVICE_ACCOUNT": names.automation_account,
            **{_version(release): release.version for release in releases},
        },
        "serviceAccount": f"projects/{environment.spec.project}/serviceAccounts/${{_SERVICE_ACCOUNT}}",
        "options": images.build_options(environment),
        "tags": [f"{environment.metadata.name}-infra-deployment", verb],
        "timeout": _TIMEOUT,
    }


def _apply(stage: Stage) -> Object:
    """Apply a stage with the outputs of earlier stages."""
    return _step(f"apply {stage.name}", stage, [*_begin(stage), "terraform apply -auto-approve -input=false -no-color"])


def _destroy(stage: Stage) -> Object:
    return _step(f"destroy {stage.name}", stage, [*_begin(stage), "terraform destroy -auto-approve -input=false -no-color"])


def _begin(stage: Stage) -> list[str]:
    """Read the outputs of earlier stages from their states, so that a build can be repeated at any step."""
    lines = []
    for output, other in stage.takes.items():
        if other == _BOOTSTRAP:
            continue  # the build already runs as the account that the bootstrap created
        lines.append(
            f"(cd ../{other} && {_init(other)} >/dev/null && "
            f'printf \'{{"{output}": %s}}\' "$(terraform output -json {output})") > {output}.auto.tfvars.json'
        )
    return [*lines, _init(stage.name)]


def _init(stage: str) -> str:
    state = f'-backend-config="bucket=${{_STATE_BUCKET}}" -backend-config="prefix=${{_STATE_PREFIX}}/{stage}"'
    return f"terraform init -input=false -no-color {state}"


def _step(title: str, stage: Stage, lines: list[str]) -> Object:
    return {
        "id": title,
        "name": IMAGE,
        "entrypoint": "sh",
        "dir": f"stages/{stage.name}",
        "args": ["-ec", "\n".join(lines) + "\n"],
    }


def _manifests(environment: Environment, services: Sequence[TritonService], queues: Sequence[Object]) -> dict[str, list[Object]]:
    """The objects that the build applies, by file; none without queues, a mesh and services."""
    if not environment.spec.addons.mesh and not services and not queues:
        return {}
    steps = composition.compose_steps(environment, composition.ClusterInputs(queues=queues))
    applied = {step.name: list(step.objects) for step in steps if step.name in ("namespaces", "queues", "ingress")}
    applied |= {service.name: service.objects for service in services}
    manifests = {f"manifests/{name}.yaml": objects for name, objects in applied.items() if objects}
    for service in services:
        if service.namespace not in _namespaces(manifests):
            raise InvalidDocument(
                f"{service.name}: metadata.namespace: must be a namespace of the environment, got {service.namespace}",
                hint="set the namespace of an identity in spec.identities.workloads",
            )
    return manifests


def _namespaces(manifests: dict[str, list[Object]]) -> list[str]:
    return sorted(str(obj["metadata"]["name"]) for objects in manifests.values() for obj in objects if obj["kind"] == "Namespace")


def _deploy(
    environment: Environment,
    services: Sequence[TritonService],
    manifests: dict[str, list[Object]],
    releases: Sequence[Release],
) -> list[Object]:
    """Apply the manifests in order, wait for their Deployments, and check the services."""
    if not manifests:
        return []
    steps = [_kubectl_step(environment, "create namespaces", [_apply_file("namespaces")])]
    steps += [_kubectl_step(environment, f"install {release.name}", _install(release)) for release in releases]
    if "manifests/queues.yaml" in manifests:
        steps.append(_kubectl_step(environment, "create queues", [_apply_file("queues")]))
    if environment.spec.addons.mesh:
        # The control plane of the mesh installs its kinds some minutes after Terraform enabled it.
        wait = "timeout 1800 sh -c 'until kubectl get crd virtualservices.networking.istio.io; do sleep 10; done'"
        rollout = _rollout(mesh.GATEWAY, mesh.ingress_namespace(environment))
        steps.append(_kubectl_step(environment, "deploy ingress gateway", [wait, _apply_file("ingress"), rollout]))
    for service in services:
        steps.append(_kubectl_step(environment, f"deploy {service.name}", [_apply_file(service.name)]))
        steps.append(_kubectl_step(environment, f"check {service.name}", _health_check(service)))
    return steps


def _install(release: Release) -> list[str]:
    """Fetch the manifests of the version in the substitution, check them, apply them, and wait for the controller."""
    file = f"{release.name}.yaml"
    url = release.url.replace(release.version, f"${{{_version(release)}}}")
    check = [f'echo "{release.checksum}  {file}" | sha256sum --check'] if release.checksum else []
    return [
        f"curl --fail --silent --show-error --location --retry 5 --output {file} {url}",
        *check,
        f"kubectl apply --server-side --force-conflicts -f {file}",
        f"kubectl wait deployment --all -n {release.name}-system --for=condition=Available --timeout=15m",
    ]


def _health_check(service: TritonService) -> list[str]:
    """Fail unless all Deployments are available, and the servers and models answer that they are ready."""
    names = [str(obj["metadata"]["name"]) for obj in service.objects if obj["kind"] == "Deployment"]
    probe = f"kubectl exec deployment/{service.name} -n {service.namespace} -c triton -- curl --fail --silent --show-error"
    paths = ("health/ready", *(f"models/{model}/ready" for model in service.models))
    return [
        *(_rollout(name, service.namespace) for name in names),
        *(f"{probe} --max-time 30 http://localhost:8000/v2/{path}" for path in paths),
    ]


def _clean_up(environment: Environment, manifests: dict[str, list[Object]]) -> list[Object]:
    """Delete the namespaces first: load balancers of Services would outlive the cluster."""
    if not manifests:
        return []
    if environment.spec.deletion_protection:
        problem = "the cluster is protected: set spec.deletionProtection to false, apply it and write the build files again"
        return [_shell_step("check protection", [f'echo "{problem}" >&2', "exit 1"])]
    namespaces, names = _namespaces(manifests), Names(environment)
    place = f"--project {environment.spec.project} --location {names.location}"
    lines = [
        f"gcloud container clusters list {place} --format='value(name)' > clusters.txt",
        f"grep -qx {names.cluster} clusters.txt || exit 0",
        _credentials(environment),
        f"kubectl delete namespace {' '.join(namespaces)} --ignore-not-found --timeout=15m",
    ]
    return [_shell_step("delete namespaces", lines)]


def _kubectl_step(environment: Environment, title: str, lines: list[str]) -> Object:
    return _shell_step(title, [_credentials(environment), *lines])


def _shell_step(title: str, lines: list[str]) -> Object:
    return {"id": title, "name": KUBECTL_IMAGE, "entrypoint": "sh", "args": ["-ec", "\n".join(lines) + "\n"]}


def _credentials(environment: Environment) -> str:
    """The command that writes a kubeconfig; builds reach private clusters by their DNS endpoint."""
    names, private = Names(environment), environment.spec.cluster.private
    endpoint = " --dns-endpoint" if private and private.dns_endpoint else ""
    place = f"--project {environment.spec.project} --location {names.location}"
    return f"gcloud container clusters get-credentials {names.cluster} {place}{endpoint}"


def _apply_file(name: str) -> str:
    return f"kubectl apply --server-side -f manifests/{name}.yaml"


def _rollout(deployment: str, namespace: str) -> str:
    return f"kubectl rollout status deployment/{deployment} -n {namespace} --timeout=30m"


def _show(stages: list[Stage]) -> Object:
    """The last step prints all resources and outputs."""
    lines = [f'echo "== {stage.name}"; (cd ../{stage.name} && terraform state list && terraform output)' for stage in stages]
    return _step("show resources and outputs", stages[-1], lines)


def commands(environment: Environment) -> str:
    """The gcloud commands that run and list the builds."""
    spec = environment.spec
    submit = f"gcloud builds submit . --project {spec.project} --region {spec.region} --config"
    tag = f"{environment.metadata.name}-infra-deployment"
    listed = f"gcloud builds list --project {spec.project} --region {spec.region} --filter \"tags='{tag}'\""
    built = images.command(environment)
    return f"{submit} cloudbuild.provision.yaml\n{built}{submit} cloudbuild.destroy.yaml\n{listed}\n"
