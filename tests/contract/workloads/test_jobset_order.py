"""JobSets with startup order or dependencies, and suspended and resumed JobSets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jobsets import replicated

if TYPE_CHECKING:
    from tests.support.jobsets import JobSetDriver

CLUSTER = "jobsets"


def test_startup_policy_in_order(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a", 2), replicated("b"), startupPolicy={"startupPolicyOrder": "InOrder"}).ok(201)
    js.until_jobs("js-a-0", "js-a-1")
    js.until_counted("a", active=2)
    js.check("order_first", real=real)
    js.run("js-a-0")
    js.until_counted("a", ready=1)
    assert "js-b-0" not in js.jobs()
    js.run("js-a-1")
    js.until_jobs("js-a-0", "js-a-1", "js-b-0")
    js.run("js-b-0")
    js.until(lambda: js.condition("StartupPolicyCompleted"), "all are started")
    js.until_counted("b", ready=1)
    js.check("order_last", real=real)


@pytest.mark.parametrize("expected", ["Ready", "Complete"])
def test_depends_on(js: JobSetDriver, real: bool, expected: str) -> None:
    depends = [{"name": "a", "status": expected}]
    js.create(replicated("a", 2), replicated("b", dependsOn=depends), replicated("c")).ok(201)
    js.until_jobs("js-a-0", "js-a-1", "js-c-0")
    js.run("js-a-0")
    js.run("js-a-1")
    js.until_counted("a", ready=2)
    if expected == "Complete":
        assert "js-b-0" not in js.jobs()
        js.succeed("js-a-0")
        js.succeed("js-a-1")
    js.until_jobs("js-a-0", "js-a-1", "js-b-0", "js-c-0")
    js.until_counted("b", active=1)
    js.check(f"depends_{expected}", real=real)


def test_jobset_is_created_suspended(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a", 2), replicated("b"), suspend=True).ok(201)
    js.until_counted("a", suspended=2)
    js.until_counted("b", suspended=1)
    js.check("suspended", real=real)
    js.change(suspend=False).ok()
    js.until(lambda: js.condition("Suspended", "False"), "resumed")
    js.until_counted("a", active=2, suspended=0)
    js.until_counted("b", active=1)
    js.check("resumed", real=real, whole=True)


def test_resume_with_changed_node_selector(js: JobSetDriver, real: bool) -> None:
    pod = {"nodeSelector": {"old": "1"}, "tolerations": [{"key": "old", "operator": "Exists"}]}
    js.create(replicated("a", pod=pod, pod_metadata={"labels": {"l": "1"}}), suspend=True).ok(201)
    js.until_counted("a", suspended=1)
    changed = js.get()
    template = changed["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"l": "2", "m": "3"}, "annotations": {"n": "4"}}
    template["spec"]["nodeSelector"] = {"new": "5"}
    template["spec"]["tolerations"] = [{"key": "new", "operator": "Exists"}]
    template["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
    js.api.put(js.path, changed).ok()
    js.change(suspend=False).ok()
    js.until_counted("a", active=1)

    def find() -> dict[str, Any]:
        seen = js.picture()
        spec = seen["jobs"]["js-a-0"]["spec"]["template"]["spec"]
        spec["tolerations"].sort(key=lambda each: each["key"])  # their order is random
        return seen

    js.settles("resumed_elsewhere", find, real=real)


def test_running_jobset_is_suspended(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a", 2)).ok(201)
    js.until_counted("a", active=2)
    js.change(suspend=True).ok()
    js.until_counted("a", suspended=2, active=0)
    js.until(lambda: not js.pods(), "no pods")
    js.check("suspended_later", real=real)
    js.change(suspend=False).ok()
    js.until_counted("a", active=2, suspended=0)
    js.until(lambda: js.condition("Suspended", "False"), "resumed")
    js.check("resumed_later", real=real)


def test_suspension_with_startup_order(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a"), replicated("b"), startupPolicy={"startupPolicyOrder": "InOrder"}, suspend=True).ok(201)
    js.until_counted("a", suspended=1)
    js.until_counted("b", suspended=1)
    js.check("order_suspended", real=real)
    js.change(suspend=False).ok()
    js.until_counted("a", active=1)
    js.check("order_resumed", real=real)
    js.run("js-a-0")
    js.until_counted("b", active=1)
    js.run("js-b-0")
    js.until(lambda: js.condition("StartupPolicyCompleted"), "all are started")
    js.until(lambda: js.condition("Suspended", "False"), "resumed")
    js.until_counted("b", ready=1)
    js.check("order_resumed_all", real=real)


def test_suspension_during_restart(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a"), failurePolicy={"maxRestarts": 2}).ok(201)
    js.fail("js-a-0")
    js.until(lambda: js.attempts() == {"js-a-0": "1"}, "new Job")
    js.until_counted("a", active=1)
    js.change(suspend=True).ok()
    js.until_counted("a", suspended=1, active=0)
    js.check("restart_suspended", real=real)


def test_restart_repeats_startup_order(js: JobSetDriver, real: bool) -> None:
    order = {"startupPolicyOrder": "InOrder"}
    js.create(replicated("a"), replicated("b"), startupPolicy=order, failurePolicy={"maxRestarts": 1}).ok(201)
    js.run("js-a-0")
    js.run("js-b-0")
    js.until(lambda: js.condition("StartupPolicyCompleted"), "all are started")
    js.until_counted("b", ready=1)
    js.fail("js-b-0")
    js.until(lambda: js.attempts() == {"js-a-0": "1"}, "only the first again")
    js.until_counted("a", active=1)
    js.settles("order_restarted", lambda: js.picture(whole=False, ordered=False), real=real)
    js.run("js-a-0")
    js.run("js-b-0")
    js.until(lambda: js.condition("StartupPolicyCompleted") and js.condition("RestartingJobSet", "False"), "all are started")
    js.until_counted("b", ready=1)
    js.settles("order_restarted_all", lambda: js.picture(whole=False, ordered=False), real=real)


def test_depends_on_while_suspended(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": "Complete"}]), suspend=True).ok(201)
    js.until_counted("a", suspended=1)
    js.check("depends_suspended", real=real)
    js.change(suspend=False).ok()
    js.succeed("js-a-0")
    js.until_counted("b", active=1)
    js.check("depends_resumed", real=real)
