"""Failure policies of JobSets: rules, and restarts of all Jobs or of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.jobsets import replicated

if TYPE_CHECKING:
    from tests.support.jobset_install import Gates
    from tests.support.jobsets import JobSetDriver

CLUSTER = "jobsets"


def test_failure_without_a_policy(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a", 2), replicated("b")).ok(201)
    js.until_counted("a", active=2)
    js.fail("js-a-1")
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_jobs("js-a-1")
    js.until_counted("a", active=0)
    js.until_counted("b", active=0)
    js.check("no_policy", real=real)


def test_restarts_up_to_max_restarts(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a", 2), failurePolicy={"maxRestarts": 1}).ok(201)
    js.until_counted("a", active=2)
    js.fail("js-a-0")
    js.until(lambda: js.restarts() == 1, "a restart")
    js.until(lambda: js.attempts() == {"js-a-0": "1", "js-a-1": "1"}, "new Jobs")
    js.until_counted("a", active=2)
    js.check("restarting", real=real)
    js.run("js-a-0")
    js.run("js-a-1")
    js.until(lambda: js.condition("RestartingJobSet", "False"), "restarted")
    js.until_counted("a", ready=2)
    js.check("restarted", real=real)
    js.fail("js-a-1")
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_jobs("js-a-1")
    js.until_counted("a", active=0)
    js.check("too_many_restarts", real=real)


def test_rule_fails_jobset(js: JobSetDriver, real: bool) -> None:
    rules = [{"name": "at_once", "action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}]
    js.create(replicated("a"), failurePolicy={"maxRestarts": 3, "rules": rules}).ok(201)
    js.fail("js-a-0")
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_counted("a", failed=1)
    js.check("rule_fails", real=real)


def test_unmatched_rule_restarts_jobset(js: JobSetDriver, real: bool) -> None:
    rules = [{"name": "late", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}]
    js.create(replicated("a"), failurePolicy={"maxRestarts": 3, "rules": rules}).ok(201)
    js.fail("js-a-0")
    js.until(lambda: js.attempts() == {"js-a-0": "1"}, "new Job")
    js.until_counted("a", active=1)
    js.check("no_rule_matches", real=real)


def test_restarts_that_ignore_max_restarts(js: JobSetDriver, real: bool) -> None:
    rules = [{"name": "free", "action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["b"]}]
    js.create(replicated("a"), replicated("b"), failurePolicy={"maxRestarts": 0, "rules": rules}).ok(201)
    js.until_counted("a", active=1)
    js.fail("js-b-0")
    js.until(lambda: js.attempts() == {"js-a-0": "1", "js-b-0": "1"}, "new Jobs")
    js.until_counted("a", active=1)
    js.until_counted("b", active=1)
    js.check("uncounted", real=real)
    js.fail("js-a-0")
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_jobs("js-a-0")
    js.until_counted("b", active=0)
    js.check("uncounted_then_counted", real=real)


def test_first_matching_rule_applies(js: JobSetDriver, real: bool) -> None:
    rules = [
        {"name": "other", "action": "FailJobSet", "targetReplicatedJobs": ["b"]},
        {"name": "never", "action": "FailJobSet", "onJobFailureMessagePatterns": ["^no such text$", "("]},
        {"name": "first", "action": "RestartJobSet", "onJobFailureMessagePatterns": ["back ?off limit"]},
        {"name": "second", "action": "FailJobSet"},
    ]
    js.create(replicated("a"), replicated("b"), failurePolicy={"maxRestarts": 1, "rules": rules}).ok(201)
    js.until_counted("b", active=1)
    js.fail("js-a-0")
    js.until(lambda: js.attempts() == {"js-a-0": "1", "js-b-0": "1"}, "new Jobs")
    js.until_counted("a", active=1)
    js.until_counted("b", active=1)
    js.check("first_rule", real=real)


def test_rule_matches_reason_of_job(js: JobSetDriver, real: bool) -> None:
    rules = [{"name": "exit_code", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
    job = replicated("a", job={"backoffLimit": 5, "podFailurePolicy": policy}, pod={"restartPolicy": "Never"})
    js.create(job, failurePolicy={"maxRestarts": 3, "rules": rules}).ok(201)
    js.fail("js-a-0", code=42)
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_counted("a", failed=1)
    js.check("reason_of_job", real=real)


def test_blocking_recreate(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a", 2), failurePolicy={"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}).ok(201)
    js.until_counted("a", active=2)
    path = f"/apis/batch/v1/namespaces/{js.namespace}/jobs/js-a-1"
    js.api.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}}).ok()
    js.fail("js-a-0")
    js.until(lambda: sorted(js.jobs()) == ["js-a-1"] and js.restarts() == 1, "only the held Job is left")
    js.until_counted("a", active=0)
    js.check("blocked", real=real)
    js.api.patch(path, {"metadata": {"finalizers": None}}).ok()
    js.until(lambda: js.attempts() == {"js-a-0": "1", "js-a-1": "1"}, "new Jobs")


def test_recreate_does_not_block(js: JobSetDriver) -> None:
    js.create(replicated("a", 2), failurePolicy={"maxRestarts": 1}).ok(201)
    js.until_counted("a", active=2)
    path = f"/apis/batch/v1/namespaces/{js.namespace}/jobs/js-a-1"
    js.api.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}}).ok()
    js.fail("js-a-0")
    js.until(lambda: js.attempts() == {"js-a-0": "1", "js-a-1": "0"}, "one new Job beside the held one")
    js.api.patch(path, {"metadata": {"finalizers": None}}).ok()
    js.until(lambda: js.attempts() == {"js-a-0": "1", "js-a-1": "1"}, "new Jobs")


def test_one_job_is_restarted(js: JobSetDriver, real: bool, jobset: Gates) -> None:
    jobset.set(RestartJob=True)
    rules = [{"name": "single", "action": "RestartJob", "targetReplicatedJobs": ["a"]}]
    js.create(replicated("a", 2), replicated("b"), failurePolicy={"maxRestarts": 1, "rules": rules}).ok(201)
    js.until_counted("a", active=2)
    before = js.jobs()["js-a-0"]["metadata"]["uid"]
    js.fail("js-a-1")
    js.until(lambda: js.attempts("job-restart-attempt").get("js-a-1") == "1", "a new Job")
    js.until_counted("a", active=2)
    assert js.jobs()["js-a-0"]["metadata"]["uid"] == before
    js.check("one_job", real=real, whole=True)
    js.fail("js-a-0")
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_jobs("js-a-0")
    js.until_counted("b", active=0)
    js.check("one_job_too_often", real=real)


def test_one_job_is_restarted_without_counting(js: JobSetDriver, real: bool, jobset: Gates) -> None:
    jobset.set(RestartJob=True)
    js.create(replicated("a"), failurePolicy={"rules": [{"name": "free", "action": "RestartJobAndIgnoreMaxRestarts"}]}).ok(201)
    for number in "123":
        js.fail("js-a-0")
        js.until(lambda: js.attempts("job-restart-attempt").get("js-a-0") == number, "a new Job")  # noqa: B023
    js.until_counted("a", active=1)
    js.check("one_job_uncounted", real=real)
