"""The one seam to any cluster: resources, requests as data, the client, informers, leader election and events.

The names below are what the other rooms use. Each is imported when it is first asked for: selectors need no HTTP client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.lazy import exports

if TYPE_CHECKING:
    from sliceworks.kube.backoff import NEVER, Backoff, Retry
    from sliceworks.kube.client import Client, Items
    from sliceworks.kube.connect import open_client
    from sliceworks.kube.connection import Connection
    from sliceworks.kube.controller import Controller, Done, Failed, Pending
    from sliceworks.kube.events import EventRecorder
    from sliceworks.kube.informers import Delta, Informer, Informers
    from sliceworks.kube.inprocess import InProcess
    from sliceworks.kube.leader import LeaderElection
    from sliceworks.kube.requests import PatchType
    from sliceworks.kube.resources import GVK, Key, Object, Resource, gvk_of, key_of, owner_reference
    from sliceworks.kube.selectors import FieldSelector, LabelSelector, from_label_selector, parse_fields, parse_labels
    from sliceworks.kube.transport import Request, Response, Transport
    from sliceworks.kube.watching import Event
    from sliceworks.kube.workqueue import WorkQueue

_HOMES = {
    "backoff": ("NEVER", "Backoff", "Retry"),
    "client": ("Client", "Items"),
    "connect": ("open_client",),
    "connection": ("Connection",),
    "controller": ("Controller", "Done", "Failed", "Pending"),
    "events": ("EventRecorder",),
    "informers": ("Delta", "Informer", "Informers"),
    "inprocess": ("InProcess",),
    "leader": ("LeaderElection",),
    "requests": ("PatchType",),
    "resources": ("GVK", "Key", "Object", "Resource", "gvk_of", "key_of", "owner_reference"),
    "selectors": ("FieldSelector", "LabelSelector", "from_label_selector", "parse_fields", "parse_labels"),
    "transport": ("Request", "Response", "Transport"),
    "watching": ("Event",),
    "workqueue": ("WorkQueue",),
}
__getattr__, __dir__ = exports(__name__, _HOMES)

__all__ = [
    "GVK",
    "NEVER",
    "Backoff",
    "Client",
    "Connection",
    "Controller",
    "Delta",
    "Done",
    "Event",
    "EventRecorder",
    "Failed",
    "FieldSelector",
    "InProcess",
    "Informer",
    "Informers",
    "Items",
    "Key",
    "LabelSelector",
    "LeaderElection",
    "Object",
    "PatchType",
    "Pending",
    "Request",
    "Resource",
    "Response",
    "Retry",
    "Transport",
    "WorkQueue",
    "from_label_selector",
    "gvk_of",
    "key_of",
    "open_client",
    "owner_reference",
    "parse_fields",
    "parse_labels",
]
