"""Commands that load when they are called."""

import sys

import pytest

from fedfleet.app.terminal.lazy_commands import Group, LazyVerb, group_command

HERE = "tests.app.terminal.test_lazy_commands"
called = []


def hello(name: str, times: int = 1) -> None:
    """Greet somebody."""
    called.append((name, times))


inner = Group("Verbs inside.", {"hello": f"{HERE}:hello"})
late = LazyVerb(lambda: hello)
ALL = Group(
    "All verbs.",
    {"hello": f"{HERE}:hello", "inner": f"{HERE}:inner", "late": f"{HERE}:late", "broken": "no.such.module:verb"},
)


def call(*words, group=ALL):
    return group_command("test", group)(list(words), prog_name="test", standalone_mode=False)


@pytest.mark.parametrize("path", [("hello",), ("inner", "hello"), ("late",)])
def test_functions_groups_and_late_verbs_are_called(path):
    called.clear()
    call(*path, "world", "--times", "3")
    assert called == [("world", 3)]


def test_only_the_verb_that_is_called_is_loaded():
    call("hello", "world")
    assert "no" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        call("broken")


def test_a_misspelt_verb_hears_the_nearest():
    known = Group("", {"hello": f"{HERE}:hello", "inner": f"{HERE}:inner"})
    with pytest.raises(Exception, match=r"No such command 'helo'. Did you mean 'hello'"):
        call("helo", group=known)


def test_help_shows_the_first_line_of_each_verb(capsys):
    call("--help", group=Group("All verbs.", {"hello": f"{HERE}:hello", "inner": f"{HERE}:inner"}))
    out = capsys.readouterr().out
    assert "All verbs." in out and "Greet somebody." in out and "Verbs inside." in out
