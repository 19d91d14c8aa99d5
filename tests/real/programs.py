"""The real programs, as data: the Go module of each and its linker flags.

A new program is one line here and a `tool` line in its module's `go.mod` under `modules/`. SLICEWORKS_VERSIONS selects other
versions, for example "kubernetes=1.31.4 jobset=0.10.1"; `other_versions.py` writes their modules.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

MODULES = Path(__file__).parent / "modules"
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
OTHER_VERSIONS = {
    name: version
    for word in os.environ.get("SLICEWORKS_VERSIONS", "").split()
    for program, _, version in (word.partition("="),)
    for name in (CONTROL_PLANE if program == "kubernetes" else (program,))
}
KUBERNETES_VERSION = "1.35.4"
SUITE = "e2e"
"""The module of Kubernetes' conformance suite."""
SAMPLE = "sample-apiserver"


def cache_folder() -> Path:
    """The cache folder of built programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sliceworks" / "real"


@dataclass(frozen=True, slots=True)
class Program:
    """One executable: `pinned_package`, or its tests, is built inside `modules/<module>`."""

    name: str
    module: str
    pinned_package: str
    ldflags: str = "-s -w"
    is_test: bool = False

    @property
    def folder(self) -> Path:
        """The Go module that pins its versions."""
        other = OTHER_VERSIONS.get(self.name)
        return cache_folder() / "modules" / f"{self.name}-{other}" if other else MODULES / self.module

    @property
    def package(self) -> str:
        """The path of its main package; the path of a Go module ends with its major version from 2 on."""
        major = OTHER_VERSIONS.get(self.name, "").partition(".")[0]
        return re.sub(r"/v\d+/", f"/v{major}/", self.pinned_package) if major else self.pinned_package


def _kubernetes(name: str) -> Program:
    """A program of Kubernetes. Without a version from the linker it reports v0.0.0-master, which some clients reject."""
    version = OTHER_VERSIONS.get(name, KUBERNETES_VERSION)
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion=v{version}"
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", flags)


def _helm() -> Program:
    """Helm. Without a cluster, Helm 3 renders for the Kubernetes version from the linker: in its releases that of client-go."""
    versions = "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=32 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=32"
    flags = f"-s -w -X {versions}" if OTHER_VERSIONS.get("helm", "").startswith("3.") else "-s -w"
    return Program("helm", "helm", "helm.sh/helm/v4/cmd/helm", flags)


def _suite() -> Program:
    """Kubernetes' own e2e suite, the tests of a package."""
    return replace(_kubernetes("e2e.test"), module=SUITE, pinned_package="k8s.io/kubernetes/test/e2e", is_test=True)


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
        *(_kubernetes(name) for name in (*CONTROL_PLANE, "kubectl")),
        Program("jobset", "jobset", "sigs.k8s.io/jobset"),
        Program("kueue", "kueue", "sigs.k8s.io/kueue/cmd/kueue"),
        Program("kro", "kro", "github.com/kubernetes-sigs/kro/cmd/controller"),
        Program("lws", "lws", "sigs.k8s.io/lws/cmd"),
        Program("karpenter", "karpenter", "sigs.k8s.io/karpenter/kwok"),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        _helm(),
        Program("agnhost", "agnhost", "k8s.io/kubernetes/test/images/agnhost"),
        _suite(),
        Program("ginkgo", SUITE, "github.com/onsi/ginkgo/v2/ginkgo"),
        Program("sample-apiserver", SAMPLE, "k8s.io/sample-apiserver"),
        Program("actionlint", "actionlint", "github.com/rhysd/actionlint/cmd/actionlint"),
    )
}
