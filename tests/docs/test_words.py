"""What pages name is there: links and their anchors, options of commands, keys of specs, cells of tables, commands in blocks."""

import inspect
import re
from dataclasses import fields

from docs.make_reference import PAGES as MADE
from fedfleet.app.spec import resolution
from fedfleet.core.records import Stop
from tests.docs.numbers import indented
from tests.docs.pages import PAGES, ROOT, name_of
from tests.docs.test_commands import PASTED

COMMANDS = (ROOT / "docs/reference/commands.md").read_text()
TEXTS = {page: re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S) for page in PAGES}
BY_HAND = {page: text for page, text in TEXTS.items() if page not in MADE and page.parent.name != "studies"}
# Options of other programs that pages speak of: tensorboard, docker, helm, our own benchmarks.
FOREIGN = {"--logdir", "--build-arg", "--build", "--show", "--write"}
KEYS = {
    "world": {*inspect.signature(resolution.world_settings).parameters}
    | {"devices", "states", "data", "faults", "energy", "users"},
    "run": {*inspect.signature(resolution.run_settings).parameters},
    "seeds": {*inspect.signature(resolution.seed_settings).parameters},
    "stop": {field.name for field in fields(Stop)},
}


def codes(text):
    return re.findall(r"`([^`\n]+)`", text)


def slugs(text):
    """The anchors of a page, as readers of Markdown make them."""
    heads = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head).lower() for head in re.findall(r"^#+ (.+)$", text, re.M)]
    return {re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in heads}


def dead_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if ":" in path or (there.exists() and not anchor):
            continue
        if not there.exists() or anchor not in slugs(text if there == page else there.read_text()):
            yield f"{name_of(page)}: {target} leads nowhere"


def dead_options(page, text):
    for code in codes(text):
        for option in re.findall(r"(?<!\S)--[a-z][\w-]*", code):
            if option not in FOREIGN and not re.search(rf"{option}(?![\w-])", COMMANDS):
                yield f"{name_of(page)}: no command has {option}"


def dead_keys(page, text):
    for code in codes(text):
        for table, key in re.findall(r"(?<![\w./])(stop|run|world|seeds)\.([a-z][a-z_]+)\b(?!\()", code):
            if key not in KEYS[table] and f"{table}.{key}" not in ("run.db", "run.key"):
                yield f"{name_of(page)}: [{table}] has no {key}"


def torn_tables(page, text):
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        rows = [re.sub(r"`[^`]*`", "", row) for row in table.splitlines()]
        if len({row.count("|") for row in rows}) > 1:
            yield f"{name_of(page)}: rows of {rows[0]} have other numbers of cells"


def loose_commands(page, text):
    yield from (f"{name_of(page)}: {line.strip()}: put it into a block" for line in indented(text) if PASTED.search(line))


def test_links_and_anchors_lead_somewhere():
    assert [fault for page, text in TEXTS.items() for fault in dead_links(page, text)] == []


def test_options_that_are_named_are_there():
    assert [fault for page, text in BY_HAND.items() for fault in dead_options(page, text)] == []


def test_keys_of_specs_that_are_named_are_there():
    assert [fault for page, text in BY_HAND.items() for fault in dead_keys(page, text)] == []


def test_every_key_of_a_fixed_table_is_in_the_reference():
    said = BY_HAND[ROOT / "docs/reference/spec.md"]
    assert [
        f"{table}.{key}" for table, keys in KEYS.items() for key in sorted(keys) if not re.search(rf"`(\w+\.)?{key}`", said)
    ] == []


def test_rows_have_as_many_cells_as_their_table():
    assert [fault for page, text in BY_HAND.items() for fault in torn_tables(page, text)] == []


def test_commands_stand_in_blocks_that_are_executed():
    assert [fault for page, text in TEXTS.items() for fault in loose_commands(page, text)] == []


def test_what_is_not_there_is_noticed():
    page = ROOT / "docs/how-to/runs.md"
    text = "# A `b` c\n[x](#a-b-c) [y](#a-c) [z](none.md) [w](serve.md#kill-it) `--nothing` `--json` `stop.round` `stop.rounds`\n"
    text += "| a | b |\n| --- | --- |\n| 1 | 2 | 3 |\n\n    fedfleet run a.toml\n"
    result = [f for look in (dead_links, dead_options, dead_keys, torn_tables, loose_commands) for f in look(page, text)]
    assert [fault.split(": ", 1)[1][:22] for fault in result] == [
        "#a-c leads nowhere",
        "none.md leads nowhere",
        "no command has --nothi",
        "[stop] has no round",
        "rows of | a | b | have",
        "fedfleet run a.toml: p",
    ]


def missing_modules(text):
    """Modules with a folder before their name that are neither in the package nor beside it."""
    named = {code for code in codes(text) if re.fullmatch(r"[a-z_]+(/[a-z0-9_]+)+\.py", code)}
    return sorted(name for name in named if not any((ROOT / home / name).exists() for home in (".", "fedfleet", "tests")))


def test_modules_that_pages_name_exist():
    assert missing_modules("`learn/folds.py`, `fedfleet/learn/folds.py`, `learn/no_such_module.py`") == ["learn/no_such_module.py"]
    assert {name_of(page): missing for page, text in BY_HAND.items() if (missing := missing_modules(text))} == {}
