"""Commands from the table of verbs: loaded when they are called, and each is its Python call."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fedfleet.app.cli.commands import group_command, help_text
from fedfleet.app.cli.verb_records import Group, Verb
from fedfleet.app.cli.verbs import VERBS
from fedfleet.app.terminal.answers import Answer, Interrupted, option_name
from fedfleet.core.errors import BadInput

HERE = "tests.app.cli.test_commands"
called: list[tuple[Any, ...]] = []


def hello(name: str, *overrides: str, times: int = 1, page: Path | None = None, on_done: Any = None) -> Answer:
    """Greet somebody.

    More of it.

    Args:
        name: who is greeted.
    """
    called.append((name, overrides, times, page))
    if times > 9:
        raise BadInput(f"{option_name('page')} and {option_name('times')}")
    if on_done is not None:
        on_done(times)
    return Answer({"times": times}, f"hello {name}", ["a remark"], exit_code=1 if times == 7 else 0)


def stopped() -> None:
    """Stop."""
    raise KeyboardInterrupt


HELLO = Verb(f"{HERE}:hello", {"name": "NAME"}, {"page": "--picture FILE"}, supplied={"on_done": called.append})
ALL = Group(
    "All verbs.",
    {
        "hello": HELLO,
        "inner": Group("Verbs inside.", {"hello": HELLO}),
        "stopped": Verb(f"{HERE}:stopped", interrupted="run it again"),
        "broken": Verb("no.such.module:verb"),
    },
)


def call(*words, group=ALL):
    called.clear()
    return group_command("test", group)(list(words), prog_name="test", standalone_mode=False)


@pytest.mark.parametrize("path", [("hello",), ("inner", "hello")])
def test_a_verb_is_its_call_and_prints_what_that_gives_back(path, capsys):
    call(*path, "world", "a=1", "b=2", "--times", "3", "--picture", "x.html")
    assert called == [("world", ("a=1", "b=2"), 3, Path("x.html")), 3]
    printed = capsys.readouterr()
    assert printed.out == "hello world\n" and printed.err == "fedfleet: a remark\n"
    call(*path, "world", "--json")
    assert json.loads(capsys.readouterr().out) == {"times": 1}
    assert call(*path, "world", "--times", "7") == 1, "the exit code of a result that is a failure"


def test_refusals_name_options_on_the_command_line_and_parameters_in_python():
    with pytest.raises(BadInput, match=r"^--picture and --times$"):
        call("hello", "world", "--times", "10")
    with pytest.raises(BadInput, match=r"^page and times$"):
        hello("world", times=10)


def test_what_is_interrupted_says_how_to_go_on():
    with pytest.raises(Interrupted, match="run it again"):
        call("stopped")


def test_only_the_verb_that_is_called_is_loaded():
    call("hello", "world")
    assert "no" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        call("broken")


def test_a_misspelt_verb_hears_the_nearest():
    with pytest.raises(Exception, match=r"No such command 'helo'. Did you mean 'hello'"):
        call("helo", group=Group("", {"hello": HELLO}))


def test_help_shows_the_first_line_of_each_verb(capsys):
    call("--help", group=Group("All verbs.", {"hello": HELLO, "inner": Group("Verbs inside.", {})}))
    out = capsys.readouterr().out
    assert "All verbs." in out and "Greet somebody." in out and "Verbs inside." in out
    assert help_text(hello) == "Greet somebody.\n\nMore of it."


def test_every_verb_of_the_table_names_a_call_and_its_parameters():
    def check(verb: Verb | Group) -> None:
        if isinstance(verb, Group):
            for inner in verb.verbs.values():
                check(inner)
            return
        module, _, name = verb.call.partition(":")
        function = getattr(import_module(module), name)
        import inspect

        known = set(inspect.signature(function).parameters)
        shared = {
            "certificate",
            "key",
            "ca",
            "token_file",
            "trust_code",
            "sign",
        }  # written alike wherever a verb has them
        named = {*verb.arguments, *verb.options, *verb.supplied, *(n for names in verb.panels.values() for n in names)}
        assert named - shared <= known, (verb.call, named - known)
        assert function.__doc__, verb.call

    for verb in VERBS.values():
        check(verb)
