"""What is asked of vLLM: flags that it has, time to finish, and no variables that it takes for its own."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.model_services import service

from sliceworks.serving import checks
from sliceworks.serving.compile import manifests

MODEL = "vllm: {{model: {{name: a, source: a/b}}, quantization: {method}}}, accelerator: {{type: {on}}}"


def pod(text: str, name: str = "served") -> dict[str, Any]:
    [found] = [each for each in manifests(service("vllm", text, name)) if each["kind"] == "Deployment"]
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def test_what_it_answers_is_not_cut_off_when_it_is_told_to_end() -> None:
    made = pod("vllm: {model: {name: a, source: a/b}}, accelerator: {type: l4-1}, drain: 90s")
    [container] = made["containers"]
    assert "--shutdown-timeout=90" in container["args"]
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert made["terminationGracePeriodSeconds"] > waits + 90


def test_a_service_may_be_called_as_vllm_calls_its_variables() -> None:
    assert pod("vllm: {model: {name: a, source: a/b}}, accelerator: {type: l4-1}", name="vllm")["enableServiceLinks"] is False


@pytest.mark.parametrize(("method", "flag"), [("int8", "int8_per_channel_weight_only"), ("gptq", "gptq")])
def test_it_is_told_of_a_quantization_in_its_own_words(method: str, flag: str) -> None:
    [container] = pod(MODEL.format(method=method, on="l4-1"))["containers"]
    assert f"--quantization={flag}" in container["args"]


@pytest.mark.parametrize("method", ["int8", "gptq"])
def test_a_quantization_that_it_has_not_on_tpus_is_refused(method: str) -> None:
    [finding] = checks.check(service("vllm", MODEL.format(method=method, on="v6e-1")))
    assert finding.problem == f"vLLM has no {method} on TPUs"
    assert finding.remedy == "it has fp8 and awq there"
