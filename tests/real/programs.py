"""The real programs, as data: the Go module of each and its linker flags.

A new program is one line here and a `tool` line in its module's `go.mod` under `modules/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "modules"
KUBERNETES_VERSION = "v1.35.4"


@dataclass(frozen=True, slots=True)
class Program:
    """One executable: `package` is built inside `modules/<module>`."""

    name: str
    module: str
    package: str
    ldflags: str = "-s -w"

    @property
    def folder(self) -> Path:
        """The Go module that pins its versions."""
        return MODULES / self.module


# Kubernetes gets its version from the linker; without it, it reports v0.0.0-master, which some clients reject.
_KUBERNETES_LDFLAGS = f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"

PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
        Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", _KUBERNETES_LDFLAGS),
        Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", _KUBERNETES_LDFLAGS),
        Program("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", _KUBERNETES_LDFLAGS),
        Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", _KUBERNETES_LDFLAGS),
        Program("jobset", "jobset", "sigs.k8s.io/jobset"),
        Program("kueue", "kueue", "sigs.k8s.io/kueue/cmd/kueue"),
        Program("kro", "kro", "github.com/kubernetes-sigs/kro/cmd/controller"),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Program("helm", "helm", "helm.sh/helm/v4/cmd/helm"),
        Program("actionlint", "actionlint", "github.com/rhysd/actionlint/cmd/actionlint"),
    )
}
