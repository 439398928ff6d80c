"""Every number that a spec can have, at extreme values: answered in a moment, in one sentence at most, without numpy's warnings."""

import copy
import math
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

from fedfleet.app.api.train import _check_spec
from fedfleet.app.pages.report_page import write_report
from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from fedfleet.app.spec.resolution import world_settings
from fedfleet.core.errors import FedFleetError
from fedfleet.core.records import Stop
from fedfleet.core.registry import builder, names
from tests.mutations.specs import NEEDED, PARTS, put, small
from tests.mutations.values import _metadata, hints_of
from tests.testing.registered import fitting_task

LIMIT = 5.0  # seconds of a processor for an answer, whatever else runs here
VALUES = [
    10**9,
    10**12,
    1e9,
    1e12,
    1e300,
    1e-300,
    0,
    0.0,
    -1,
    -1.0,
    math.nan,
    math.inf,
    -math.inf,
    100_000,
    100_000.0,
    1e-9,
    1,
    1.0,
]
PLACES = {**PARTS, "world.faults": "faults", "world.energy": "energy", "algorithm.up": "codecs"}


class Extreme(NamedTuple):
    """A spec with one number at an extreme."""

    place: str
    value: Any
    spec: dict[str, Any]


def _is_number(hint: Any) -> bool:
    if hint in (int, float):
        return True
    return any(_is_number(inner) for inner in get_args(hint) if not isinstance(inner, str)) and "Callable" not in str(hint)


def _takes_list(hint: Any) -> bool:
    return "list[" in str(hint)


def _limits(hint: Any) -> list[Any]:
    """The limits themselves, which are still allowed."""
    return [getattr(m, k) for m in _metadata(hint) for k in ("ge", "gt", "le", "lt") if hasattr(m, k)]


def extremes() -> Iterator[Extreme]:
    """All of them, part by part."""
    for place, kind in PLACES.items():
        for name in names(kind):
            base = _base(place, kind, name)
            for key, hint in hints_of(builder(kind, name)).items():
                if _is_number(hint):
                    yield from _at_extremes(base, f"{place}.{key}", hint)
    plain: dict[str, Any] = small({"task": "digits_logreg", "world": {"clients": 8}})
    for place, schema in (("world", world_settings), ("stop", Stop)):
        for key, hint in hints_of(schema).items():
            if _is_number(hint):
                yield from _at_extremes(plain, f"{place}.{key}", hint)


def _base(place: str, kind: str, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"task": "digits_logreg", "world": {"clients": 8}}
    if place == "edge":
        spec["world"]["users"] = {"use": "groups", "count": 3}
    if kind == "algorithms":
        spec["task"] = dict(fitting_task(name))
    put(spec, place, {"use": name, **NEEDED.get(name, {})})
    if kind == "tasks" and "synthetic" in hints_of(builder(kind, name)):
        spec["task"] |= {"synthetic": True, "samples": 300}
    return small(spec)


def _at_extremes(base: dict[str, Any], place: str, hint: Any) -> Iterator[Extreme]:
    # Of a task, what is allowed is made: samples and layers that take as long as they take.
    for value in dict.fromkeys(VALUES[:-6] if place.startswith("task.") else [*VALUES, *_limits(hint)]):
        spec = copy.deepcopy(base)
        put(spec, place, [value] if _takes_list(hint) and random.Random(place).random() < 0.5 else value)
        yield Extreme(place, value, spec)


class _Hangs(BaseException):
    """It took too long."""


def complaint(extreme: Extreme, folder: Path | None = None, limit: float = LIMIT) -> str:
    """What is wrong with the answer to `--check`, and with a run into this folder if the spec is valid; "" if nothing is."""

    def stop(*_: object) -> None:
        raise _Hangs

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            spec = resolve(extreme.spec)
            str(_check_spec(Path("spec.toml"), spec))
            if folder is not None:
                signal.setitimer(signal.ITIMER_PROF, 4 * limit)
                write_report(perform(spec, folder))
    except FedFleetError as error:
        text = str(error)
        return "" if text and "\n" not in text and len(text) <= 800 else f"no sentence: {text[:1000]}"
    except (Exception, _Hangs):
        return traceback.format_exc()[-1200:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    return ""


def main() -> None:
    """Walk through a part of them: SHARE OF FOLDER PLACES.."""
    share, of, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None
    places = tuple(sys.argv[4:])
    for i, extreme in enumerate(extremes()):
        if i % of == share and extreme.place.startswith(places or ("",)):
            start = time.perf_counter()
            wrong = complaint(extreme, None if folder is None else folder / str(i))
            if wrong:
                took = time.perf_counter() - start
                sys.stdout.write(f"{i} {extreme.place} = {extreme.value} ({took:.1f} s): {wrong}\n\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
