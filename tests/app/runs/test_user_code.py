"""Functions and classes are found again by name and source, and described without running anything."""

import functools

import pytest

from fedfleet.app.runs.user_code import SCRIPT, Entry, declarations_only, describe_object, load_object, sha256
from fedfleet.core.errors import BadInput, RunFailed
from tests.app.runs.owned import Net, focal


def test_what_a_module_holds_is_found_again():
    entry, text = describe_object(functools.partial(Net, hidden=3), call=True)
    assert (entry.by, entry.module, entry.name, entry.kwargs) == ("code", "tests.app.runs.owned", "Net", {"hidden": 3})
    assert entry.sha256 == sha256(text) and "class Net" in text
    assert load_object(entry, text).inner.out_features == 3
    entry, text = describe_object(focal, call=False)
    assert load_object(entry, text) is focal


def local():
    def inside():
        return 1

    return inside


@pytest.mark.parametrize(
    "thing", [lambda: 1, local(), functools.partial(Net, hidden=object()), functools.partial(Net, (1,))]
)
def test_what_has_no_name_or_no_plain_arguments_is_for_the_hand(thing):
    entry, text = describe_object(thing, call=True)
    assert (entry.by, text) == ("hand", "") and entry.what


def test_what_was_replaced_under_its_name_is_for_the_hand(monkeypatch):
    monkeypatch.setattr("tests.app.runs.owned.focal", None)
    assert describe_object(focal, call=False)[0].by == "hand"


SCRIPT_TEXT = """
import math

SIZE = 3
TABLE: dict = {"a": [1, 2]}
made = math.sqrt(4)
print("running")
raise SystemExit("executed")


class Thing:
    size = SIZE


def root(x):
    return math.sqrt(x) * TABLE["a"][1]
"""


def test_of_a_script_only_what_it_declares_is_kept():
    text = declarations_only(SCRIPT_TEXT)
    assert "print" not in text and "made" not in text and "SystemExit" not in text
    entry = Entry("code", "root", module=SCRIPT, name="root", sha256=sha256(text))
    assert load_object(entry, text)(9.0) == 6.0
    assert declarations_only(SCRIPT_TEXT.replace('print("running")', "print(resume=True)")) == text, (
        "what it does may change"
    )


def test_code_that_is_not_there_or_fails_says_so():
    with pytest.raises(BadInput, match="there is no 'gone'"):
        load_object(Entry("code", "x", module="tests.app.runs.owned", name="gone"), "")
    with pytest.raises(RunFailed, match=r"the code of m:f failed: ZeroDivisionError"):
        load_object(Entry("code", "m:f", module="m", name="f"), "1 / 0\n")
    with pytest.raises(RunFailed, match=r"the code of nowhere:f failed: ModuleNotFoundError"):
        load_object(Entry("code", "nowhere:f", module="nowhere", name="f"), "")


def test_kept_source_runs_once_beside_what_is_here():
    text = "made = []\nmade.append(1)\n\n\ndef count():\n    return len(made)\n"
    entry = Entry("code", "tests.app.runs.owned:count", module="tests.app.runs.owned", name="count")
    assert [load_object(entry, text)() for _ in range(2)] == [1, 1]
