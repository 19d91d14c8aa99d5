"""The graphs controller: serves ResourceGraphDefinitions on any Kubernetes cluster, compatible with kro.

Reading order:

options                 command line options
well_known              labels, annotations, finalizers, field managers
controller              installs CRDs, starts caches and reconcilers
manifests               the CRDs of ResourceGraphDefinition and GraphRevision
context                 client, caches, external references, events, metrics
object_cache            compact caches of children and external objects
conditions              condition sets with a root condition
definition_controller   reconciles ResourceGraphDefinitions
compiler                compiles a definition with the cluster's kinds
crds                    generated CustomResourceDefinitions
crd_compatibility       breaking changes between two schema versions
revisions               GraphRevisions
dynamic_controller      an instance controller per generated kind
instance_controller     reconciles instances
applyset                ApplySet id and inventory of an instance
instance_status         node states and instance status
resource_reconciler     reconciles the resources of one instance
applier                 server-side apply of one object
readiness_causes        why objects are not ready: conditions, pods, events
completion              completed objects that are not recreated
object_deletion         pruning and deletion
inspection              read-only view for `graph status` and the console

The exports are lazy: the command line imports only the options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.imports import lazy_exports

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.controller import GraphController
    from sliceworks.controllers.graphs.options import Options

__getattr__, __dir__ = lazy_exports(__name__, {"controller": ("GraphController",), "options": ("Options",)})
__all__ = ["GraphController", "Options"]
