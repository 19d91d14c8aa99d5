"""The cache of child Jobs: which changes a reconcile sees."""

from __future__ import annotations

from tests.support.jobset_objects import child

from sliceworks.twin.controllers.jobset.child_jobs import ChildJobCache


def test_finish_is_hidden_until_the_previous_change_is_reconciled() -> None:
    cache = ChildJobCache()
    cache.put(child("j"))
    cache.snapshot()
    cache.put(child("j", succeeded=1))
    cache.put(child("j", succeeded=1, finished="Complete"))
    assert [job.finished for job in cache.snapshot()] == [""]
    assert cache.release_finished()
    assert [job.finished for job in cache.snapshot()] == ["Complete"]
    assert not cache.release_finished()


def test_finish_without_a_previous_change_is_visible_at_once() -> None:
    cache = ChildJobCache()
    cache.put(child("j"))
    cache.snapshot()
    cache.put(child("j", finished="Failed"))
    assert [job.finished for job in cache.snapshot()] == ["Failed"]


def test_deleted_jobs_are_never_hidden() -> None:
    cache = ChildJobCache()
    cache.put(child("j"))
    cache.put(child("j", finished="Failed"))
    cache.put(child("j", finished="Failed", deleting=True))
    assert [job.deleting for job in cache.snapshot()] == [True]
    assert not cache.release_finished()
    cache.delete("j")
    assert cache.snapshot() == []
