"""What the gateway counts, under the names that dashboards for model servers know."""

from __future__ import annotations

from sliceworks.base.metrics import Registry

OVERHEAD = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0)
SECONDS = tuple(0.01 * 2**step for step in range(14))
FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
PER_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
TOKENS = tuple(4**step for step in range(14))
"""Bounds as OpenTelemetry's conventions for generative AI have them. Those below are vLLM's; small models have some more."""
VLLM_FIRST = (*FIRST, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
VLLM_SECONDS = (
    0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0,
    120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
VLLM_PER_TOKEN = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
PROVIDER = "sliceworks"
"""Who answers, for whoever looks at numbers of several providers."""


class Measures:
    """The numbers of one gateway."""

    def __init__(self) -> None:
        self.registry = registry = Registry()
        whose = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
        self.requests = registry.counter(
            "sliceworks_gateway_requests_total", "Requests by status.", "model", "route", "key", "code"
        )
        self.refused = registry.counter("sliceworks_gateway_refused_total", "Requests that no server saw.", "code")
        self.overhead = registry.histogram(
            "sliceworks_gateway_overhead_seconds", "Time that the gateway itself took.", "route", buckets=OVERHEAD
        )
        self.retries = registry.counter("sliceworks_gateway_retries_total", "Second tries.", "model", "reason")
        self.exhausted = registry.counter("sliceworks_gateway_retry_budget_exhausted_total", "Tries not made for want of budget.")
        self.left = registry.counter("sliceworks_gateway_clients_left_total", "Clients that left before their answer.", "model")
        self.broken = registry.counter("sliceworks_gateway_streams_broken_total", "Streams that a server did not end.", "model")
        self.reloads = registry.counter("sliceworks_gateway_reloads_total", "Readings of the document.", "result")
        self.tokens = registry.counter("sliceworks_gateway_tokens_total", "Tokens by key.", "model", "key", "type")
        self.duration = registry.histogram(
            "gen_ai_server_request_duration_seconds", "Whole requests.", *whose, "error_type", buckets=SECONDS
        )
        self.first = registry.histogram(
            "gen_ai_server_time_to_first_token_seconds", "From the request to the first piece.", *whose, buckets=FIRST
        )
        self.per_token = registry.histogram(
            "gen_ai_server_time_per_output_token_seconds", "Between tokens, after the first.", *whose, buckets=PER_TOKEN
        )
        self.usage = registry.histogram(
            "gen_ai_client_token_usage", "Tokens of one request.", *whose, "gen_ai_token_type", buckets=TOKENS
        )
        self.vllm_first = registry.histogram("vllm:time_to_first_token_seconds", "As vLLM.", "model_name", buckets=VLLM_FIRST)
        self.vllm_whole = registry.histogram("vllm:e2e_request_latency_seconds", "As vLLM.", "model_name", buckets=VLLM_SECONDS)
        self.vllm_per_token = registry.histogram(
            "vllm:request_time_per_output_token_seconds", "As vLLM.", "model_name", buckets=VLLM_PER_TOKEN
        )
        self.prompt_tokens = registry.counter("vllm:prompt_tokens_total", "As vLLM.", "model_name")
        self.answer_tokens = registry.counter("vllm:generation_tokens_total", "As vLLM.", "model_name")
        self.success = registry.counter("vllm:request_success_total", "As vLLM.", "model_name")

    def used(self, operation: str, model: str, key: str, prompt: int, answer: int) -> None:
        """So many tokens went in and out."""
        self.prompt_tokens.add(model, by=prompt)
        self.answer_tokens.add(model, by=answer)
        self.tokens.add(model, key, "input", by=prompt)
        self.tokens.add(model, key, "output", by=answer)
        self.usage.observe(prompt, operation, PROVIDER, model, "input")
        self.usage.observe(answer, operation, PROVIDER, model, "output")
