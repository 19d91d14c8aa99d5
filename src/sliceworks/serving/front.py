"""The gateway in front of model services: its document, and the objects that run it on its own pool. Pure.

Model services of one namespace that name the same gateway share it: its document is made of all of theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument
from sliceworks.serving import front_objects, jetstream, naming, saxml, triton, versions, vllm
from sliceworks.specs.model import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from sliceworks.specs.serving import Front, Model, ModelService

Object = dict[str, Any]
ENGINES: dict[str, ModuleType] = {"saxml": saxml, "triton": triton, "jetstream": jetstream, "vllm": vllm}


def manifests(services: Sequence[ModelService]) -> list[Object]:
    """The objects of one gateway. The last service is the one whose document says how it runs."""
    if not services or services[-1].spec.gateway is None:
        return []
    last = services[-1]
    routes = [each.spec.route for each in services if each.spec.route]
    doors = [door for each in routes for door in versions.ingress(each)]
    needs = front_objects.Needs(
        sax_root=_sax_root(services),
        grpc=_grpc(services),
        balanced=any(versions.balanced(each) for each in routes),
        ingress=tuple(door for number, door in enumerate(doors) if door not in doors[:number]),
        drain=_drain(services),
    )
    return front_objects.manifests(last, merged(services), yamls.dump(document(services)), needs)


def check_names(service: ModelService, neighbours: Sequence[ModelService]) -> None:
    """A gateway finds models by their names: it would take no document that has one of them twice."""
    own = {model.name for model in service.spec.models}
    for each in neighbours:
        both = sorted(own & {model.name for model in each.spec.models})
        if both and service.spec.gateway:
            raise InvalidDocument(
                f"{both[0]} is a model of {each.metadata.name} too, behind the same gateway {service.spec.gateway.name}",
                hint="give it another name, or one of the services a gateway of another name",
            )


def merged(services: Sequence[ModelService]) -> Front:
    """The last one's gateway with the keys and callers of all. A key that two name is the last one's."""
    fronts = [each.spec.gateway for each in services if each.spec.gateway]
    keys = {key.name: key for front in fronts for key in front.keys}
    allowed = list(dict.fromkeys(name for front in fronts for name in front.allow_from))
    admin = next((front.admin_key for front in reversed(fronts) if front.admin_key), None)
    return fronts[-1].model_copy(update={"keys": list(keys.values()), "allow_from": allowed, "admin_key": admin})


def document(services: Sequence[ModelService]) -> Object:
    """The gateway's own document."""
    last, front = services[-1], merged(services)
    keys = front.keys
    listen: Object = {"host": "0.0.0.0", "port": front_objects.PORTS["http"]}
    if _grpc(services):
        listen["grpcPort"] = front_objects.GRPC_PORT
    if front.tls:
        listen["tls"] = {"certificate": f"{front_objects.TLS}/tls.crt", "key": f"{front_objects.TLS}/tls.key"}
    admin: Object = {"host": "0.0.0.0", "port": front_objects.PORTS["admin"], "openMetrics": True}
    if front.admin_key:
        admin["key"] = {"file": front_objects.secret_file(front.admin_key)}
    spec: Object = {"listen": listen, "admin": admin, **({} if keys else {"anonymous": True})}
    if keys:
        spec["keys"] = [_key(key) for key in keys]
    spec["models"] = [_model(each, model) for each in services for model in each.spec.models]
    spec |= {**_settings(front), "drain": f"{_drain(services)}s"}
    place = {"namespace": last.metadata.namespace} if last.metadata.namespace else {}
    return {"apiVersion": API_VERSION, "kind": "Gateway", "metadata": {"name": front.name, **place}, "spec": spec}


def _settings(front: Front) -> Object:
    given = front.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    names = ("caps", "timeouts", "retries", "balancing", "health", "tracing", "accessLog")
    return {name: given[name] for name in names if name in given}


def _key(key: Any) -> Object:
    given: Object = key.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    if key.secret:
        given["secret"] = {"file": front_objects.secret_file(key.secret)}
    return given


def _model(service: ModelService, model: Model) -> Object:
    """A model, and where it is: found by the labels of its Service, or two versions with their shares."""
    spec, engine = service.spec, ENGINES[service.spec.engine]
    if spec.saxml:
        return {"name": model.name, "backends": [{"kind": engine.KIND, "url": f"{spec.saxml.cell}/{model.name}"}]}
    if spec.canary:
        shares = ((versions.STABLE, 100 - spec.canary.weight), (versions.CANARY, spec.canary.weight))
        return {"name": model.name, "backends": [_backend(service, engine, track, share) for track, share in shares if share]}
    found: Object = {"kind": engine.KIND, "labels": naming.selector(service, naming.SERVER), "port": engine.PORT}
    if engine.GRPC_PORT:
        found["grpcPort"] = engine.GRPC_PORT
    return {"name": model.name, "discover": found}


def _backend(service: ModelService, engine: ModuleType, track: str, share: int) -> Object:
    host = ".".join(filter(None, (f"{service.metadata.name}-{track}", service.metadata.namespace)))
    found: Object = {"kind": engine.KIND, "url": f"http://{host}:{engine.PORTS[engine.PORT]}", "weight": float(share)}
    if engine.GRPC_PORT:
        found["grpc"] = f"{host}:{engine.PORTS[engine.GRPC_PORT]}"
    return found


def _drain(services: Sequence[ModelService]) -> int:
    """As long as the most patient of the servers behind it: what they would still answer is not cut off before them."""
    return max(int(each.spec.drain) for each in services)


def _grpc(services: Sequence[ModelService]) -> bool:
    return any(each.spec.engine == "triton" for each in services)


def _sax_root(services: Sequence[ModelService]) -> str:
    """The one root that the gateway's Sax client knows."""
    roots = {saxml.root(each.spec.saxml): each.metadata.name for each in services if each.spec.saxml}
    if len(roots) > 1:
        named = " and ".join(sorted(roots.values()))
        raise InvalidDocument(
            f"{named} share a gateway and have different Sax roots", hint="give one of them a gateway of another name"
        )
    return next(iter(roots), "")
