"""The object that the benchmarks write: a pod of a training job, with about sixty fields as such a pod has in practice."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def pod(name: str) -> Object:
    """A new pod. It is built anew each time, as a program would."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": _labels(name),
            "annotations": {"example.com/owner": "research", "example.com/run": "42"},
        },
        "spec": {
            "restartPolicy": "Never",
            "priority": 0,
            "terminationGracePeriodSeconds": 30,
            "nodeSelector": {
                "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
                "cloud.google.com/gke-tpu-topology": "4x4",
            },
            "tolerations": [{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}],
            "securityContext": {"fsGroup": 1000, "runAsUser": 1000},
            "containers": [_trainer(), _uploader()],
            "volumes": [
                {"name": "scratch", "emptyDir": {"sizeLimit": "10Gi"}},
                {"name": "settings", "configMap": {"name": "settings"}},
            ],
        },
    }


def _labels(name: str) -> dict[str, str]:
    return {
        "app": "trainer",
        "jobset.sigs.k8s.io/jobset-name": "llama",
        "jobset.sigs.k8s.io/replicatedjob-name": "slices",
        "batch.kubernetes.io/job-completion-index": name.rpartition("-")[2],
    }


def _trainer() -> Object:
    return {
        "name": "trainer",
        "image": "europe-docker.pkg.dev/example/training/llama:2026-11-15",
        "command": ["python", "-m", "train"],
        "args": ["--steps=10000", "--batch=512", "--checkpoint=gs://example/llama"],
        "ports": [{"containerPort": 8471, "name": "mesh"}, {"containerPort": 8080, "name": "metrics"}],
        "env": [
            {
                "name": "TPU_WORKER_ID",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}},
            },
            {"name": "JAX_PLATFORMS", "value": "tpu,cpu"},
            {"name": "XLA_FLAGS", "value": "--xla_dump_to=/scratch/xla"},
        ],
        "resources": {
            "requests": {"cpu": "24", "memory": "48Gi", "google.com/tpu": "4"},
            "limits": {"google.com/tpu": "4", "memory": "48Gi"},
        },
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "settings", "mountPath": "/settings", "readOnly": True},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "metrics"}, "periodSeconds": 10},
    }


def _uploader() -> Object:
    return {
        "name": "uploader",
        "image": "europe-docker.pkg.dev/example/training/uploader:1",
        "args": ["--from=/scratch", "--every=60s"],
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }
