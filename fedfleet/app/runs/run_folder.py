"""The folder of a run: taking a new one, completing and sealing it, and reading it back."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from fedfleet.app.assemble import Setup, run_warnings, score_of
from fedfleet.app.runs.extra_measures import with_class_measures, with_privacy
from fedfleet.app.runs.folder_seals import require_folder, stored_measures
from fedfleet.app.runs.model_trust import keep_model_code
from fedfleet.app.runs.stored_measures import read_measures
from fedfleet.app.spec import Spec, load_spec
from fedfleet.app.terminal.text import failure_lines, joules, percent, size, span
from fedfleet.core.errors import BadInput, RunFailed, nearest_file
from fedfleet.core.events import Event, RunEnded
from fedfleet.core.parts import FirstWeights
from fedfleet.core.trees import Tree
from fedfleet.measure.measure_info import measure_info
from fedfleet.measure.privacy import privacy_figures
from fedfleet.measure.score_info import ScoreInfo, score_info_of
from fedfleet.measure.summary import summary
from fedfleet.store import journal as journals
from fedfleet.store.files import load_tree, save_tree, write_atomically
from fedfleet.store.hash_chain import ChainCheck
from fedfleet.store.lock import LOCK
from fedfleet.store.seals import Seal, files_of, first_change, hashes, kind_of, read_seal, write_seal
from fedfleet.store.signatures import sign

# What `fedfleet run --json` answers, in this order.
CONTRACT = (
    "digest", "rounds", "commits", "accuracy", "accuracy_clients", "accuracy_bottom10", "accuracy_std", "virtual_seconds",
    "wall_seconds", "bytes_up", "bytes_down", "utilisation", "failed_rounds", "warnings", "out",
)  # fmt: skip
_FIRST_WEIGHTS = {"module": "those of the module that was given, which no seed decides", "file": "from a file"}
FROZEN = "frozen.safetensors"  # beside model.safetensors, which holds what travelled

_NO_NOISE: Mapping[str, str] = {}
AddMeasures = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run: its measures, its events, and its folder."""

    spec: Spec
    metrics: dict[str, Any]
    events: list[Event]
    out: Path
    told: tuple[str, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """What the command line says beside the answer."""
        metrics = self.metrics
        if metrics["warnings"] or metrics["commits"]:
            return [f"WARNING: {warning}" for warning in metrics["warnings"] if warning not in self.told]
        return [f"no model was made in {metrics['rounds']} rounds; stopped by {metrics.get('stopped_by')}"]

    @property
    def served(self) -> bool:
        """Was it served over a network? Its seconds are those of a real clock then."""
        path = self.out / "run.db"
        return path.is_file() and kind_of(journals.identity_of(path)) == "served"

    @property
    def exit_code(self) -> int:
        """1 for a run that made no model: it failed, however orderly it ended."""
        return int(not self.metrics["commits"])

    def to_dict(self) -> dict[str, Any]:
        """The fields that the contract of `fedfleet run` names."""
        return {key: self.metrics[key] for key in (*CONTRACT, *(("privacy",) if "privacy" in self.metrics else ()))}

    answer = to_dict  # its name before

    def __str__(self) -> str:
        m = self.metrics
        wall = f" ({m['wall_seconds']:.1f} s of real time)"
        clock = "real time" if self.served else f"virtual time{wall}"
        lines = [
            f"{m['rounds']} rounds, {m['commits']} commits in {span(m['virtual_seconds'])} of {clock}, "
            f"stopped by {m.get('stopped_by')}",
            *_score_lines(m),
            *_unseen_lines(m),
            *failure_lines(m["failed_rounds"]),
            *_privacy_lines(m.get("privacy")),
            *first_weights_lines(m),
            f"{size(m['bytes_down'])} down, {size(m['bytes_up'])} up",
            *_energy_lines(m.get("energy")),
            f"digest {m['digest'][:16]}; see {m['out']}/report.html",
        ]
        return "\n".join(lines)


def first_weights_lines(metrics: Mapping[str, Any]) -> list[str]:
    """Where the first weights came from, where the seed of the spec did not decide them.

    >>> first_weights_lines({"first_weights": "file"}), first_weights_lines({"first_weights": "seed"})
    (['first weights: from a file'], [])
    """
    text = _FIRST_WEIGHTS.get(str(metrics.get("first_weights")))
    return [] if text is None else [f"first weights: {text}"]


def _score_lines(metrics: Mapping[str, Any]) -> list[str]:
    """The score of the last model, centrally and by client, and the other measures of its kind of task.

    >>> metrics = {"accuracy": 0.4, "accuracy_clients": None, "accuracy_bottom10": -0.2, "measures": {"rmse": 54.321}}
    >>> for line in _score_lines({**metrics, "score": {"kind": "regression"}}): print(line)
    R2 0.400 on the central test set; clients -, 10th-percentile client −0.200, mean of the worst tenth -
    RMSE 54.3, in the units of the label
    """
    score = score_info_of(metrics)

    def text(key: str) -> str:
        value = metrics.get(key)
        return "-" if value is None else percent(value) if score.kind.percent else score.text(value)

    central, clients, low, worst = map(text, ("accuracy", "accuracy_clients", "accuracy_bottom10", "accuracy_worst10_mean"))
    of_clients = f"clients {clients}, 10th-percentile client {low}, mean of the worst tenth {worst}"
    line = f"{score.name} {central} on the central test set; {of_clients}"
    measures: Mapping[str, float] = metrics.get("measures") or {}
    known = [measure_info(name, score) for name in dict.fromkeys([*score.kind.measures, *measures]) if name in measures]
    others = ", ".join(f"{info.label} {info.text(measures[info.name])}" for info in known)
    unit = ", in the units of the label" if score.kind.name == "regression" else ""
    return [line, *([others + unit] if others else [])]


def _unseen_lines(metrics: Mapping[str, Any]) -> list[str]:
    """How the model does for clients that it did not learn from: people held out, clients that never took part.

    >>> _unseen_lines({"accuracy_unseen": 0.5, "accuracy_never": None, "accuracy_took_part": 0.8})
    ['held-out people, with no data in training: 50.0 %']
    """
    new, never, others = (metrics.get(f"accuracy_{name}") for name in ("unseen", "never", "took_part"))
    score = score_info_of(metrics)
    say = lambda value: "-" if value is None else score.text(value)  # noqa: E731
    result = [] if new is None else [f"held-out people, with no data in training: {say(new)}"]
    apart = f"clients that never took part: {say(never)}, the others: {say(others)}"
    return result if never is None else [*result, apart]


def _energy_lines(energy: Mapping[str, Any] | None) -> list[str]:
    """What a run drew from batteries, and how much of it was wasted; nothing if it was not counted.

    >>> _energy_lines({"joules": 5000.0, "useful": 4000.0, "wasted": 1000.0, "probes": 0.0, "grams": None})
    ['5.0 kJ from batteries, 20.0 % wasted (updates not used)']
    """
    if not energy:
        return []
    wasted = energy["wasted"] / energy["joules"] if energy["joules"] else 0.0
    carbon = "" if energy["grams"] is None else f", {energy['grams']:.3g} g of CO2"
    return [f"{joules(energy['joules'])} from batteries, {percent(wasted)} wasted (updates not used){carbon}"]


def _privacy_lines(privacy: Mapping[str, Any] | None) -> list[str]:
    """The privacy loss of a run, with what is claimed."""
    if not privacy:
        return []
    return [f"privacy: {privacy_figures(privacy)}: {privacy['claim']}"]


def refuse_taken(out: Path, *, resume: bool) -> None:
    """Refuse a folder that has something in it; half-written files that a kill left behind do not count."""
    try:
        entries = [p for p in out.iterdir() if p.suffix != ".part" and p.name != LOCK] if out.is_dir() else []
        blocked = out.exists() and not out.is_dir()
    except OSError as error:
        raise _cannot_write(out, error) from None
    if blocked:
        raise BadInput(f"--out: {out} is a file; name a folder")
    if entries:
        if resume:
            raise BadInput(f"{out} exists but is not a run; choose another folder with --out")
        raise BadInput(f"{out} exists already; continue that run with --resume, or choose another folder with --out")


def refuse_absent(out: Path) -> None:
    """Refuse to resume in a folder that does not exist: a wrong letter must not start a run afresh."""
    if not out.exists():
        cure = nearest_file(out) or "; name the folder of the run, or start a new run without --resume"
        raise BadInput(f"--resume: there is no folder {out}{cure}")


def make_parent(out: Path) -> None:
    """Make the folder in which the folder of a new run will lie."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(out, error) from None


def make_folder(out: Path) -> None:
    """Make the folder of a new run, or find it empty and writable."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise PermissionError(f"no permission to write to {out}")
    except OSError as error:
        raise _cannot_write(out, error) from None


def claim_folder(out: Path, kind: str, *, marker: str, known: Collection[str]) -> None:
    """Refuse a folder that holds something else than a study or search; `marker` is its file, and `known` may lie there too."""
    try:
        names = {p.name for p in out.iterdir()} if out.is_dir() else set[str]()
    except OSError as error:
        raise BadInput(f"--out: cannot read {out}: {error.strerror}; choose another folder") from None
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out: {out} is a file; name a folder")
    # What a kill left half written is nobody's, nor are the files of a database that was open.
    remains = (f"{marker}-", f"{marker}.part")
    strange = sorted(n for n in names - {*known} if not n.startswith(remains) and not n.endswith(".part"))
    if strange and marker not in names:
        raise BadInput(f"--out: {out} contains something other than a {kind} ({strange[0]}); choose another folder")


def write_spec(spec: Spec, out: Path) -> None:
    """Write the spec into the folder of a new run."""
    try:
        draft = out / "spec.toml.part"
        draft.write_text(spec.toml(), encoding="utf-8")
        draft.replace(out / "spec.toml")
        keep_model_code(spec, out)
    except OSError as error:
        raise _cannot_write(out, error) from None


def _cannot_write(out: Path, wrong: OSError) -> BadInput:
    return BadInput(f"cannot create or write the folder {out}: {wrong}; choose another with --out")


def stored_weights(out: Path) -> Tree:
    """The last model of a run folder, whole: what was trained, and what was frozen if anything was."""
    frozen = load_tree(out / FROZEN)[0] if (out / FROZEN).is_file() else {}
    return {**frozen, **load_tree(out / "model.safetensors")[0]}


@dataclass(frozen=True, slots=True)
class JournalEnd:
    """What the process that wrote a journal knows of it: what the disk must say too."""

    digest: str
    rows: int
    link: str


def complete_run(
    setup: Setup,
    out: Path,
    journal_end: JournalEnd,
    params: dict[str, Any],
    wall_seconds: float,
    *,
    add_measures: AddMeasures = dict,
    key: Path | None = None,
    noise: Mapping[str, str] = _NO_NOISE,
) -> FinishedRun:
    """Write the model and the measures of a run that has just ended, and seal it.

    `more` adds measures that are not in the journal; `key` signs the seal; `noise` says where that of a private run came from.
    """
    chain = journals.check_journal(out / "run.db")
    if chain.fault is not None or JournalEnd(chain.digest, chain.rows, chain.link) != journal_end:
        raise RunFailed(
            f"the journal {out}/run.db on the disk differs from the one that was written "
            f"({chain.fault or 'its digest, rows or last link differ'}): the disk failed, or another program wrote to it; "
            "resume the run"
        )
    save_tree(out / "model.safetensors", params)
    if setup.task.frozen:
        save_tree(out / FROZEN, setup.task.frozen)
    events = list(journals.read(out / "run.db"))
    derived = journal_measures(setup, events, journal_end.digest)
    measures = add_measures(with_class_measures(with_privacy(derived, setup.plan, noise, events), setup.task, params))
    metrics = {**measures, "wall_seconds": wall_seconds, "out": str(out)}
    write_atomically(out / "metrics.json", (json.dumps(metrics, indent=1) + "\n").encode())
    # Last, since its presence says that the run is complete.
    seal_folder(out, chain, key)
    return FinishedRun(setup.spec, metrics, events, out)


def journal_measures(setup: Setup, events: list[Event], digest: str) -> dict[str, Any]:
    """Everything in `metrics.json` that follows from the journal, and from what is known of its task and its fleet."""
    measures = summary(events, score=score_of(setup.task), caveats=run_warnings(setup, events))
    return {**measures, "first_weights": setup.task.first_weights, "digest": digest, "spec_digest": setup.spec.digest}


def stored_warnings(out: Path, event_warnings: Sequence[str]) -> list[str]:
    """The warnings in the measures of a run that its events alone do not tell."""
    stored = stored_measures(out).get("warnings")
    return [str(warning) for warning in stored if warning not in event_warnings] if isinstance(stored, list) else []


def stored_first_weights(out: Path) -> dict[str, Any]:
    """Where the first weights of a run came from, where its measures say so."""
    value = stored_measures(out).get("first_weights")
    return {"first_weights": value} if value in get_args(FirstWeights) else {}


def stored_score(out: Path) -> ScoreInfo:
    """What the score of a run is called, and what guessing would score on its test set, where its measures say so."""
    return score_info_of(stored_measures(out))


def seal_folder(out: Path, chain: ChainCheck, key: Path | None) -> None:
    """Seal every file of a folder, and sign the seal if there is a key."""
    seal = Seal(chain.digest, chain.rows, chain.link, hashes(out, files_of(out)))
    if key is not None:
        seal = replace(seal, signature=sign(seal.message(), key))
    write_seal(out, seal)


def read_finished_run(out: Path) -> FinishedRun:
    """A finished run, read from its folder; what is read must be as it was sealed."""
    require_folder(out)
    seal = read_seal(out)
    if seal is None:
        load_spec(out / "spec.toml")
        command = shlex.join(["fedfleet", "run", str(out / "spec.toml"), "--resume", "--out", str(out)])
        raise BadInput(f"the run in {out} is not finished; continue it with: {command}")
    wrong = first_change(out, seal, ("spec.toml", "metrics.json", "run.db"))
    if wrong is not None:
        raise RunFailed(f"{out}: {wrong}; for details run: fedfleet replay {shlex.quote(str(out))}")
    try:
        metrics = read_measures(out)
        if not {*CONTRACT} <= metrics.keys():
            raise ValueError("measures are missing")
    except (OSError, ValueError) as wrong:
        raise BadInput(
            f"{out}/metrics.json cannot be read ({wrong}); for details run: fedfleet replay {shlex.quote(str(out))}"
        ) from None
    spec = load_spec(out / "spec.toml")
    return FinishedRun(spec, {**metrics, "out": str(out)}, list(journals.read(out / "run.db", spec.world["clients"])), out)


def open_run(out: Path) -> tuple[Spec, list[Event], bool]:
    """The spec of a run folder, its events so far, and whether the run has ended."""
    require_folder(out)
    seal = read_seal(out)
    journals.require(out / "run.db")
    journals.identity_of(out / "run.db")  # what is no journal at all is said before what was changed in one
    change = None if seal is None else first_change(out, seal, ("spec.toml", "run.db"))
    if change is not None:
        raise RunFailed(f"{out}: {change}; for details run: fedfleet replay {shlex.quote(str(out))}")
    spec = load_spec(out / "spec.toml")
    events = list(journals.read(out / "run.db", spec.world["clients"]))
    return spec, events, bool(events) and isinstance(events[-1], RunEnded)


def stored_user_metrics(out: Path) -> dict[str, Any]:
    """What the person's own metrics said at the end of this run: it is kept, because nobody's code is run to find it again."""
    try:
        result = stored_measures(out)["own"]
        return {"own": {str(name): None if value is None else float(value) for name, value in result.items()}}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def check_same_spec(spec: Spec, out: Path) -> None:
    """Refuse to resume a folder that holds a run of another spec, and name the first difference."""
    stored_spec = load_spec(out / "spec.toml")
    if stored_spec.digest != spec.digest:
        differs = _first_difference(stored_spec.table(), spec.table())
        raise BadInput(f"{out} holds a run with a different spec ({differs}); choose another folder with --out")


def _first_difference(a: Any, b: Any, path: str = "") -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b} - {"run"}):
            if a.get(key) != b.get(key):
                return _first_difference(a.get(key), b.get(key), f"{path}.{key}" if path else key)
    return f"{path} is {a!r} there, {b!r} here"
