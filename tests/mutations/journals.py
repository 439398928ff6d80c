"""Mutated journals, sealed anew so that every seal holds: each reader of a run folder ends right or with one sentence."""

import json
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fedfleet
from fedfleet.app.dashboard.event_stream import PageState, SideInfo, page_updates
from fedfleet.app.dashboard.run_watcher import RunWatcher
from fedfleet.app.pages.report_page import report_run
from fedfleet.app.runs import perform
from fedfleet.app.runs.explanation import explain_run, explanation_text
from fedfleet.app.runs.folder_seals import verify_run
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import load_spec, resolve
from fedfleet.app.studies.run_export import export_run
from fedfleet.app.tracking.sink import sinks_of
from fedfleet.core.errors import FedFleetError
from fedfleet.store import journal as journals
from fedfleet.store.journal_rows import COLUMNS
from fedfleet.store.seals import Seal, files_of, hashes, identity, write_seal
from tests.app.runs.tampering import SPEC

# Small runs that have rows of every kind between them.
SPECS: dict[str, dict[str, Any]] = {
    "deadline": SPEC,
    "buffered": {
        "seed": 2, "task": "digits_logreg",
        "world": {"clients": 9, "devices": "spread", "energy": "phones", "faults": ["lossy", "repeated"]},
        "choose": {"use": "power_of_choice"}, "pace": {"use": "readiness", "cohort": 3, "lease": 400.0}, "stop": {"rounds": 5},
    },
}  # fmt: skip
ROOT = Path(__file__).parents[2]
HEADROOM = 1 << 30  # bytes that a reader may take beside what is loaded already
LIMIT = 20.0  # seconds of a processor for one reader
_INTS = [0, -1, 1, 2, 7, 255, 256, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 150_000_000, 10**9]
_REALS = [float("inf"), -float("inf"), None, 0.0, -0.0, -1.0, 1e300, -1e300, 5e-324, 1e15, 1e18, 0.5, 3]
_TEXTS = [
    "",
    "0-150000000",
    "0-9223372036854775806",
    "-5",
    "{",
    "[]",
    "null",
    "[" * 3000,
    "1e999",
    "\x00",
    "=1+1",
    "x" * 3000,
    "NaN",
    "0 0 0",
    "3-1",
]
_BLOBS = [b"", b"\x00\xff", b"x" * 200]
_JSONS: list[Any] = [
    None, True, -1, 0, 1.5, 10**9, 10**30, 10**400, float("nan"), float("inf"), "", "x", "0-150000000", [], {}, [[]], [[1], [2]],
    {"a": {}},
    [0] * 500, [None], ["1"], {str(i): 1.0 for i in range(300)},
]  # fmt: skip
_INT_COLUMNS, _REAL_COLUMNS, _TEXT_COLUMNS = (1, 2, 3, 4, 5), (0, 6, 7), (8, 9)

Rows = list[list[Any]]


def originals(root: Path) -> dict[str, Path]:
    """The finished runs that are mutated."""
    return {name: perform(resolve(spec), root / name).out for name, spec in SPECS.items()}


def mutated_folder(seed: int, number: int, root: Path, runs: dict[str, Path]) -> Path:
    """The case of this number: a run whose journal was changed and which was sealed anew."""
    rng = random.Random(f"{seed}/{number}")
    run = runs[rng.choice(sorted(runs))]
    folder = root / f"case-{number}"
    shutil.copytree(run, folder)
    rows = [list(row) for row in journals.rows_of(folder / "run.db")]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        _MUTATIONS[rng.choice(sorted(_MUTATIONS))](rows, rng)
    kind = "served" if rng.random() < 0.15 else "simulated"
    _seal(folder, rows, kind, rng)
    if rng.random() < 0.1:
        (folder / "seal.json").unlink()
    return folder


def _seal(folder: Path, rows: Rows, kind: str, rng: random.Random) -> None:
    """Write these rows, with links and a seal that fit."""
    path = folder / "run.db"
    if rng.random() < 0.2:
        _mutate_file(folder, rng)
    links = {rng.randrange(len(rows) + 1) for _ in range(2)} | {len(rows)} if rows else set()
    try:
        journals.create(path, identity(folder, kind), [tuple(row) for row in rows], links).close()  # type: ignore[misc]
        check = journals.check_journal(path)
        seal = Seal(check.digest, check.rows, check.link, hashes(folder, files_of(folder)))
    except Exception:  # rows that have no bytes to be hashed: only the file is sealed
        path.with_name("run.db.part").unlink(missing_ok=True)
        shutil.copy(path, folder / "raw.db")
        with suppress(OverflowError, sqlite3.Error), sqlite3.connect(folder / "raw.db") as db:
            db.execute("DELETE FROM events")
            db.executemany(f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})", rows)
        (folder / "raw.db").replace(path)
        seal = Seal("0" * 64, len(rows), "0" * 64, hashes(folder, files_of(folder)))
    write_seal(folder, seal)


def _mutate_file(folder: Path, rng: random.Random) -> None:
    """Change another file of the folder."""
    name = rng.choice(["metrics.json", "metrics.json", "executor.json"])
    path = folder / name
    if rng.random() < 0.3:
        path.write_bytes(rng.choice([b"", b"[]", b"null", b"{", b"[" * 100_000, b"\xff", b'{"a":1,"a":2}', b"1e999", b"1" * 5000]))
        return
    content = json.loads(path.read_text())
    content = _spoilt(content, rng)
    path.write_text(json.dumps(content))


def _spoilt(value: Any, rng: random.Random) -> Any:
    """A JSON value with one change somewhere in it."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.2:
        return rng.choice(_JSONS)
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    key, changed = rng.choice(keys), (dict(value) if isinstance(value, dict) else list(value))
    match rng.choice(["change", "change", "change", "drop", "add"]):
        case "drop":
            del changed[key]
        case "add" if isinstance(changed, dict):
            changed[rng.choice(["x", "use", "clients", "spent", "measures", "due", "settings"])] = rng.choice(_JSONS)
        case "add":
            changed.insert(rng.randrange(len(changed) + 1), rng.choice(_JSONS))
        case _:
            changed[key] = _spoilt(changed[key], rng)
    return changed


def _row(rows: Rows, rng: random.Random) -> list[Any]:
    """A row, of each kind as often as of any other."""
    kinds = sorted({row[1] for row in rows if type(row[1]) is int})
    kind = rng.choice(kinds) if kinds else None
    return rng.choice([row for row in rows if row[1] == kind] or rows or [[0.0] * 10])


def _change_number(rows: Rows, rng: random.Random) -> None:
    row, column = _row(rows, rng), rng.choice((*_INT_COLUMNS[1:], *_REAL_COLUMNS))
    value = row[column]
    if isinstance(value, int | float) and rng.random() < 0.4:
        row[column] = value + rng.choice([1, -1, 10])
    else:
        row[column] = rng.choice(_INTS if column in _INT_COLUMNS else _REALS)


def _change_kind(rows: Rows, rng: random.Random) -> None:
    _row(rows, rng)[1] = rng.choice([*range(18), 18, 99, 255, 256, -1, 1.5, "3"])


def _change_type(rows: Rows, rng: random.Random) -> None:
    _row(rows, rng)[rng.randrange(len(COLUMNS))] = rng.choice([*_TEXTS, *_BLOBS, None, 1.5, 3])


def _change_text(rows: Rows, rng: random.Random) -> None:
    row, column = _row(rows, rng), rng.choice(_TEXT_COLUMNS)
    text = row[column] if isinstance(row[column], str) else ""
    at = rng.randrange(len(text) + 1)
    row[column] = rng.choice([rng.choice(_TEXTS), text[:at], text[:at] + rng.choice('0,-[]{}": e9') + text[at + 1 :], text + text])


def _change_json(rows: Rows, rng: random.Random) -> None:
    choices = [
        (row, column) for row in rows for column in _TEXT_COLUMNS if isinstance(row[column], str) and row[column][:1] in ("{", "[")
    ]
    by_kind = {row[1]: [pair for pair in choices if pair[0][1] == row[1]] for row, _ in choices}
    if not by_kind:
        return
    row, column = rng.choice(by_kind[rng.choice(sorted(by_kind, key=lambda kind: (str(type(kind)), kind)))])
    with suppress(ValueError):
        row[column] = json.dumps(_spoilt(json.loads(row[column]), rng))


def _repeat_key(rows: Rows, rng: random.Random) -> None:
    row = _row([row for row in rows if isinstance(row[8], str) and row[8].startswith("{")] or rows, rng)
    if isinstance(row[8], str) and row[8].startswith("{") and len(row[8]) > 2:
        row[8] = row[8][:-1] + ", " + row[8][1:-1].split(",")[0] + "}"


def _change_spans(rows: Rows, rng: random.Random) -> None:
    gathered = [row for row in rows if row[1] == 8]
    if gathered:
        last = rng.choice([150_000_000, 2**40, 2**62, 10, 3])
        rng.choice(gathered)[8] = rng.choice(
            [f"0-{last}", f"{last}", " ".join(["0-9"] * 200), "0-5 5-9", "9-0", "-1-4", "0--4", "0-3,4"]
        )


def _delete_rows(rows: Rows, rng: random.Random) -> None:
    if rows:
        at = rng.randrange(len(rows))
        del rows[at : at + rng.choice([1, 1, 1, 3, 20, len(rows)])]


def _repeat_row(rows: Rows, rng: random.Random) -> None:
    if rows:
        rows.insert(rng.randrange(len(rows) + 1), list(_row(rows, rng)))


def _move_row(rows: Rows, rng: random.Random) -> None:
    if rows:
        row = rows.pop(rng.randrange(len(rows)))
        rows.insert(rng.randrange(len(rows) + 1), row)


def _shuffle_rows(rows: Rows, rng: random.Random) -> None:
    at = rng.randrange(len(rows) + 1)
    window = rows[at : at + rng.choice([3, 10, 50])]
    rng.shuffle(window)
    rows[at : at + len(window)] = window


def _cut_rows(rows: Rows, rng: random.Random) -> None:
    del rows[rng.randrange(len(rows) + 1) :]


def _begin_late(rows: Rows, rng: random.Random) -> None:
    del rows[: rng.randrange(len(rows) + 1)]


def _change_column(rows: Rows, rng: random.Random) -> None:
    """One column of all rows of one kind."""
    kind, column = _row(rows, rng)[1], rng.choice((*_INT_COLUMNS[1:], *_REAL_COLUMNS))
    factor = rng.choice([0, -1, 2, 10**6, 10**12, 1e-9, 1e30])
    for row in rows:
        value = row[column]
        if row[1] == kind and isinstance(value, int | float):
            row[column] = float(value) * factor if column in _REAL_COLUMNS else max(-(2**63), min(2**63 - 1, int(value * factor)))


def _change_clients(rows: Rows, rng: random.Random) -> None:
    """Another number of clients, in the first row alone."""
    with suppress(ValueError, TypeError, IndexError):
        began = json.loads(rows[0][8])
        rows[0][8] = json.dumps({**began, "clients": rng.choice([0, -1, 1, 10**8, 10**12, 10**30, 3.5, "9", None, [9]])})


_MUTATIONS: dict[str, Callable[[Rows, random.Random], None]] = {
    name.removeprefix("_"): change
    for name, change in list(globals().items())
    if name.startswith(("_change_", "_repeat_", "_delete_", "_move_", "_shuffle_", "_cut_", "_begin_"))
}


# ---- readers -------------------------------------------------------------------------------------------------------


def _watched(folder: Path) -> None:
    watcher = RunWatcher(folder)
    watcher.refresh()
    for name in watcher.summaries:
        json.dumps(page_updates(PageState(), watcher, name, lambda run: SideInfo()))


def _loaded(folder: Path) -> None:
    result = fedfleet.load(folder)
    str(result), result.rounds, result.clients


def _resumed(folder: Path) -> None:
    if not (folder / "seal.json").is_file():
        perform(load_spec(folder / "spec.toml"), folder, resume=True)


def _compared(folder: Path) -> None:
    comparison = fedfleet.compare([folder, folder.parent / "other"])
    str(comparison)
    comparison.to_dict()


READERS: dict[str, Callable[[Path], Any]] = {
    "verify": verify_run,
    "report": lambda folder: json.dumps(report_run(folder)),
    "explain": lambda folder: explanation_text(explain_run(folder, longest=3)),
    "replay --quick": lambda folder: replay_run(folder, quick=True),
    "load": _loaded,
    "compare": _compared,
    "export": lambda folder: export_run(folder, sinks_of(f"jsonl:{folder.parent / 'points.jsonl'}"), lambda message: None),
    "dashboard": _watched,
    "resume": _resumed,
}


class _Hangs(BaseException):
    """A reader took too long."""


@contextmanager
def _limited(seconds: float):
    def stop(*_: object) -> None:
        raise _Hangs

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def complaint(read: Callable[[Path], Any], folder: Path) -> tuple[str, str]:
    """How a reader ended, "right" or "refused", and what is wrong with that; "" if nothing is."""
    try:
        with _limited(LIMIT), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            read(folder)
    except FedFleetError as error:
        text = str(error)
        fine = text and "\n" not in text and len(text) <= 800
        return "refused", "" if fine else f"no sentence: {text[:1000]}"
    except (Exception, _Hangs):
        return "failed", traceback.format_exc()[-1500:]
    return "right", ""


def look_through(seed: int, numbers: range, root: Path, results: Path) -> None:
    """Let every reader look at these cases, and note how each ended."""
    runs = originals(root)
    other = root / "other"
    shutil.copytree(runs["deadline"], other)
    for read in READERS.values():  # whatever they load is loaded now
        for run in runs.values():
            copy = shutil.copytree(run, root / "first")
            assert complaint(read, copy) == ("right", ""), complaint(read, copy)
            shutil.rmtree(copy)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (pages + HEADROOM, pages + HEADROOM))
    with results.open("a") as file:
        for number in numbers:
            folder = mutated_folder(seed, number, root, runs)
            for name, read in READERS.items():
                how, wrong = complaint(read, folder)
                file.write(json.dumps({"case": number, "reader": name, "ended": how, "complaint": wrong}) + "\n")
            file.flush()
            shutil.rmtree(folder)
        # Not ru_maxrss, which begins with the peak of the process that started this one.
        lines = Path("/proc/self/status").read_text().splitlines()
        peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10
        file.write(json.dumps({"peak_mb": peak}) + "\n")


def complaints_about(seed: int, numbers: range, root: Path) -> tuple[list[str], Counter[str]]:
    """What was wrong with how readers ended, and how many ended how, of these cases in a process of its own."""
    results = root / "results.jsonl"
    words = [
        sys.executable,
        "-W",
        "ignore::DeprecationWarning",
        "-m",
        "tests.mutations.journals",
        seed,
        numbers.start,
        numbers.stop,
    ]
    done = subprocess.run([str(w) for w in [*words, root, results]], cwd=ROOT, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    peak = lines.pop()["peak_mb"]
    assert peak < 1024, f"readers held {peak} MB"
    wrong = [f"case {line['case']} of seed {seed}, {line['reader']}: {line['complaint']}" for line in lines if line["complaint"]]
    return wrong, Counter(line["ended"] for line in lines)


if __name__ == "__main__":
    _, seed_word, first_word, last_word, root_word, results_word = sys.argv
    look_through(int(seed_word), range(int(first_word), int(last_word)), Path(root_word), Path(results_word))
