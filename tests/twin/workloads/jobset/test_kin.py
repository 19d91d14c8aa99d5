"""What is seen of Jobs, and when."""

from __future__ import annotations

from tests.support.jobset_objects import child

from sliceworks.twin.workloads.jobset.kin import Kin


def test_an_end_waits_until_the_step_to_it_was_seen() -> None:
    kin = Kin()
    kin.take(child("j"))
    kin.look()
    kin.take(child("j", succeeded=1))
    kin.take(child("j", succeeded=1, finished="Complete"))
    assert [each.finished for each in kin.look()] == [""]
    assert kin.go_on()
    assert [each.finished for each in kin.look()] == ["Complete"]
    assert not kin.go_on()


def test_an_end_that_comes_alone_is_seen_at_once() -> None:
    kin = Kin()
    kin.take(child("j"))
    kin.look()
    kin.take(child("j", finished="Failed"))
    assert [each.finished for each in kin.look()] == ["Failed"]


def test_what_is_going_or_gone_waits_for_nothing() -> None:
    kin = Kin()
    kin.take(child("j"))
    kin.take(child("j", finished="Failed"))
    kin.take(child("j", finished="Failed", deleting=True))
    assert [each.deleting for each in kin.look()] == [True]
    assert not kin.go_on()
    kin.drop("j")
    assert kin.look() == []
