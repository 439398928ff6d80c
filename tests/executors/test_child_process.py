import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.executors.child_process import Child

PARROT = "tests.executors.parrot"


def test_a_child_answers_and_ends_when_nothing_more_comes():
    with Child(PARROT, {"say": 1}) as child:
        assert child.answer(10) == {"say": 1}
        child.tell({"say": [2, "zwei"]})
        assert child.answer(10) == {"say": [2, "zwei"]}
        assert child.running
    assert not child.running


def test_who_fails_is_quoted():
    with Child(PARROT, {"fail": "no such thing"}) as child, pytest.raises(RunFailed, match=r"code 3.*no such thing"):
        child.answer(10)


def test_who_says_nothing_is_not_waited_for_for_ever():
    with Child(PARROT, {"quiet": True}) as child, pytest.raises(RunFailed, match="no answer in 0 s"):
        child.answer(0.05)


def test_telling_somebody_who_is_gone_is_no_error():
    with Child(PARROT, {"fail": "gone"}) as child:
        with pytest.raises(RunFailed):
            child.answer(10)
        child.tell({"say": 1})
        with pytest.raises(RunFailed):
            child.answer(0.2)
