"""Where claimed numbers come from: docs/numbers.toml read, each entry held to its source, and what has none found out.

An entry names a page and either `says`, the page's words, or `table`, a heading with a table below it; numbers.toml says what else
is in it.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

from fedfleet.app.cli.verbs import VERBS
from fedfleet.core.registry import builder, names
from tests.docs.numbers import NUMBER, Said, bare, indented, passages, printed, settings, stated, value
from tests.docs.pages import ROOT, Block, blocks_of
from tests.docs.tables import cells, made_by_the_page, name_in, rounds_to, shown

LEDGER: dict[str, list[dict[str, Any]]] = tomllib.loads((ROOT / "docs/numbers.toml").read_text())
CURE = (
    "quote it from a command that the page runs, correct it, or say in docs/numbers.toml where it comes from "
    "(a file that holds it, an expression, a test, a reason)"
)


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def unsourced(page: str, text: str, ledger: dict[str, list[dict[str, Any]]] = LEDGER) -> list[str]:
    """A sentence for each claim of a page that nothing vouches for: the page, the number, where it stands, the cure."""
    there = blocks_of(text, page)
    seen = {outcome: printed(there, outcomes=outcome) for outcome in (True, False)}
    given, entries = settings(there), ledger.get(page, [])
    words = [bare(entry["says"]) for entry in entries if "says" in entry]
    checked = _checked(text, there, entries)

    def vouched(said: Said) -> bool:
        return (
            any(one in said.sentence and said.number in NUMBER.findall(one) for one in words)
            or any(said.number in row.numbers for row in checked if row.line == said.sentence or row.name in said.sentence)
            or any(rounds_to(one, said.number) for one in seen[said.outcome])
            or (not said.outcome and value(said.number) in given)
        )

    return [f"{page}: nobody vouches for {said.number} in {said.sentence!r}: {CURE}" for said in stated(text) if not vouched(said)]


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a table that is held to its source; who names it in a sentence may repeat its numbers."""

    line: str
    name: str
    numbers: list[str]


def _checked(text: str, there: list[Block], entries: list[dict[str, Any]]) -> list[_Row]:
    result = [_row(line, []) for table in shown(text) if made_by_the_page(table, there) for line in table.lines]
    for entry in entries:
        if "table" in entry:
            head, *rows = table_under(text, entry["table"]) or [""]
            without = [i for i, title in enumerate(cells(head)) if title in entry.get("but", [])]
            result += [_row(row, without) for row in rows]
    return result


def _row(line: str, without: list[int]) -> _Row:
    kept = [one for i, one in enumerate(cells(line)) if i and i not in without]
    return _Row(bare(line), f"`{name_in(cells(line)[0])}`", NUMBER.findall(" ".join(kept)))


def fault(page: str, text: str, entry: dict[str, Any]) -> str | None:
    """What is wrong with an entry: the page does not say so any more, or its source does not."""
    if "table" in entry:
        return _fault_of_table(page, text, entry)
    says = bare(entry["says"])
    if not any(says in bare(passage) for passage in [*passages(text), *indented(text), text]):
        return f"{page} does not say {says!r} any more: correct or drop its entry in docs/numbers.toml"
    told = NUMBER.findall(says)
    if "found" in entry:
        sources = _listed(entry["found"])
        gone = [one for one in sources if one not in text_of(entry["in"])]
        if gone:
            return f"{entry['in']} does not say {gone[0]!r} any more, on which {page} rests: {says!r}"
        there = [value(n) for one in sources for n in NUMBER.findall(one)]
        missing = [n for n in told if not any(rounds_to(one, n) for one in there) and n not in entry.get("but", [])]
        if missing and "is" not in entry:
            return f"{page} says {missing[0]} in {says!r}, and {entry['in']} says {there}: correct the page"
    if "is" in entry:
        result = [float(one) for text in _listed(entry["is"]) for one in _listed(eval(text, dict(KNOWN)))]
        if not _in_order(result, told):
            return f"{page} says {says!r}, and {entry['is']} is {', '.join(f'{one:g}' for one in result)}: correct the page"
    if "is" in entry or "found" in entry:
        return None
    if "test" in entry:
        ok = page.rsplit("/", 1)[-1] in text_of(entry["test"])
        return None if ok else f"{entry['test']} does not look at {page}"
    return None if len(entry.get("because", "")) > 10 else f"{page}: {says!r} has no source: {CURE}"


def _listed(result: Any) -> list[Any]:
    return result if isinstance(result, list) else [result]


def _in_order(result: list[float], told: list[str]) -> bool:
    """Whether the values are among the numbers told, in their order."""
    rest = iter(told)
    return all(any(rounds_to(one, n) for n in rest) for one in result)


def table_under(text: str, heading: str) -> list[str]:
    """The rows of the first table below a heading, the line of dashes left out."""
    _, _, below = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S).partition(f"# {heading}\n")
    m = re.search(r"(?:^\|.*\n)+", below.split("\n#")[0], re.M)
    return [row for row in m[0].splitlines() if not re.fullmatch(r"[|\s:-]+", row)] if m else []


@cache
def _table(name: str, heading: str) -> list[str]:
    return table_under(text_of(name), heading)


def cell(column: str, row: str, name: str = "benchmarks/RESULTS.md") -> str:
    """A cell of a table in a file: `column` is the table's heading and the column's, as in `digits_mlp: accuracy`."""
    heading, _, wanted = column.partition(": ")
    head, *rows = _table(name, heading) or [""]
    at = cells(head).index(wanted) if wanted in cells(head) else -1
    for one in rows:
        if name_in(cells(one)[0]) == row and at > 0:
            return cells(one)[at]
    raise LookupError(f"{name} has no row {row!r} with {column!r}")


def _fault_of_table(page: str, text: str, entry: dict[str, Any]) -> str | None:
    head, *rows = table_under(text, entry["table"]) or [""]
    if not rows:
        return f"{page} has no table below {entry['table']!r} any more: correct or drop its entry in docs/numbers.toml"
    for row in rows:
        for title, told in zip(cells(head)[1:], cells(row)[1:], strict=True):
            numbers = NUMBER.findall(told)
            if not numbers or title in entry.get("but", []):
                continue
            columns = entry["columns"].get(title)
            if columns is None:
                return f"{page}: nobody vouches for the column {title!r} below {entry['table']!r}: name it in docs/numbers.toml"
            name = name_in(cells(row)[0])
            listed = columns if isinstance(columns, list) else [columns]
            there = [value(n) for one in listed for n in NUMBER.findall(cell(one, name, entry["in"]))]
            if not _in_order(there[: len(numbers)], numbers) or len(there) < len(numbers):
                where = f"of {name} ({title}) below {entry['table']!r}"
                return f"{page} says {told!r} {where}, and {entry['in']} says {there}: correct the page"
    return None


def of(path: str) -> Any:
    """A value of the code: `fedfleet.world.energy:LINKS`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def default(kind: str, part: str, key: str) -> float:
    """The default of a part's parameter."""
    return inspect.signature(builder(kind, part)).parameters[key].default


def option(verb: str, name: str) -> float:
    """The default of a command's option."""
    return inspect.signature(of(VERBS[verb].call)).parameters[name].default


def most(name: str) -> float:
    """The largest number of a type of fedfleet.core.limits."""
    return next(one.le for one in of(f"fedfleet.core.limits:{name}").__metadata__ if hasattr(one, "le"))


def result(column: str, row: str) -> float:
    """The first number of a cell of benchmarks/RESULTS.md."""
    return value(NUMBER.findall(cell(column, row))[0])


_TASKS = {"digits": "digits_mlp", "chars": "chars74k_cnn", "wisdm": "wisdm_cnn"}


def zoo(task: str, method: str, column: str = "accuracy") -> float:
    """A figure of the runs of every method."""
    return result(f"{_TASKS[task]}: {column}", method)


def ahead(task: str, method: str, column: str = "accuracy") -> float:
    """Points ahead of FedAvg, without a sign."""
    return abs(round(zoo(task, method, column) - zoo(task, "fedavg", column), 1))


def seconds(method: str, task: str) -> float:
    """Virtual seconds of a method in the runs of every method."""
    return result(f"Virtual seconds of the same runs: {task}", method)


KNOWN: dict[str, Any] = {
    "names": names,
    "of": of,
    "default": default,
    "option": option,
    "most": most,
    "result": result,
    "zoo": zoo,
    "ahead": ahead,
    "seconds": seconds,
    "replace": replace,
    "TASKS": list(_TASKS),
    "first": tomllib.loads((ROOT / "examples/first.toml").read_text()),
}
