"""`fedfleet explain`, `export`, `replay` and `verify`: what a run folder shows, and whether it is true."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fedfleet.app.terminal.answers import Answer, Interrupted, option_name, warn, write_page
from fedfleet.app.terminal.value_checks import Workers, share
from fedfleet.core.bounds import Ge
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import is_target

if TYPE_CHECKING:
    from fedfleet.measure.goal import Target


def explain(
    folder: Path,
    *,
    rounds: Annotated[int, Ge(0)] = 0,
    counterfactuals: bool = False,
    target: float | str | None = None,
    workers: Workers | None = None,
    cache: Path | None = None,
    trust_code: str | None = None,
) -> Answer:
    """Say where the virtual time of a run went, cause by cause, and which clients it waited for; also while the run is going on.

    Args:
        folder: the folder of a run.
        rounds: list the N longest rounds with their causes.
        counterfactuals: also what the run would have been on a kinder fleet: simulate it again without each set of causes (links,
            computing, reachability, data, faults).
        target: with --counterfactuals: the score to be reached, or the limit of a measure, such as "rmse <= 3.5"; default: the
            spec's own, else 95 % of the best of the run.
        workers: with --counterfactuals: in how many processes to simulate; default: 1.
        cache: with --counterfactuals: where these runs are kept; default: RUN/counterfactuals.
        trust_code: run the code of an own model that lies in the folder, if this is its hash.
    """
    from fedfleet.app.runs.explanation import explain_run, explanation_text

    if not counterfactuals:
        options = {"target": target, "workers": workers, "cache": cache, "trust_code": trust_code}
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise BadInput(
                f"{option_name(given[0])} has an effect only with {option_name('counterfactuals')}; add "
                f"{option_name('counterfactuals')}, "
                f"or leave {option_name(given[0])} out"
            )
    goal = None if target is None else _checked_target(target)
    result = explain_run(folder, longest=rounds)
    if counterfactuals:
        options = {"target": goal, "workers": workers or 1, "cache": cache, "trust": trust_code}
        try:
            result |= _explain_counterfactuals(folder, result, options)
        except KeyboardInterrupt:
            raise Interrupted("interrupted; what was simulated is kept: run the same command again to resume") from None
    return Answer(result, explanation_text)


def _checked_target(target: float | str) -> Target:
    """A share of the score, or the limit of a measure."""
    from fedfleet.measure.goal import plain_target

    if not isinstance(target, str):
        return share("target", target)
    if is_target(target):
        return plain_target(target)
    try:
        value = float(target)
    except ValueError:
        where = option_name("target")
        raise BadInput(f'{where} {target!r} is not a number; give a score such as 0.8, or a limit such as "rmse <= 3.5"') from None
    return share("target", value)


def _explain_counterfactuals(folder: Path, result: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """What counterfactuals add to the answer; both parts of it are drawn on a page in the folder."""
    from fedfleet.app.pages.explanation_page import explain_page
    from fedfleet.app.pages.time_chart import attribution_figure
    from fedfleet.app.runs.counterfactuals import counterfactual_answer
    from fedfleet.app.runs.explanation import attribute_run

    more = counterfactual_answer(folder, **options)
    page = folder / "explain.html"
    write_page("explain", page, explain_page(attribution_figure(attribute_run(folder)[0]), more, folder.resolve().name))
    return {**more, "sentence": f"{result['sentence']} {more['sentence']}", "page": str(page)}


def export(folder: Path, *, to: Sequence[str] = (), onnx: Path | None = None, trust_code: str | None = None) -> Answer:
    """Write a run, finished or not, to TensorBoard, MLflow, Weights & Biases or a file of JSON lines; or its model as an ONNX file.

    Args:
        folder: the folder of a run.
        to: `tensorboard:DIR`, mlflow:URI, wandb:DIR or jsonl:FILE; may be repeated.
        onnx: write the model of a finished run to this file, which phones, browsers and other programs can compute.
        trust_code: with --onnx: run the code of an own model that lies in the folder, if this is its hash.
    """
    if not to and onnx is None:
        raise BadInput(f"nothing to write: give {option_name('to')} TOOL:WHERE, {option_name('onnx')} FILE, or both")
    size = None
    if onnx is not None:
        from fedfleet.app.runs.onnx_file import write_onnx

        size = write_onnx(folder, onnx, trust_code)
        if not to:
            return Answer(
                {"run": str(folder), "onnx": str(onnx), "bytes": size}, f"{onnx} has the model of {folder} ({size:,} bytes)"
            )
    from fedfleet.app.studies.run_export import export_run
    from fedfleet.app.tracking.sink import sinks_of

    sinks = sinks_of(to)
    written = export_run(folder, sinks, lambda message: warn([message]))
    failed = [sink.name for sink in sinks if sink.name not in written]
    result = {"run": str(folder), "to": written, "failed": failed} | ({} if size is None else {"onnx": str(onnx), "bytes": size})
    return Answer(result, f"{folder} is in {', '.join(written) or 'none of them'}", exit_code=int(bool(failed)))


def replay(folder: Path, *, quick: bool = False, trust_code: str | None = None) -> Answer:
    """Run a simulation again from its spec and compare every row of its journal; it reports the first mismatch.

    Args:
        folder: the folder of a run.
        quick: check seals, chain and decisions only; train nothing again.
        trust_code: run the code of an own model that lies in the folder, if this is its hash.
    """
    from fedfleet.app.runs.run_audit import replay_run, replay_text

    return Answer(replay_run(folder, quick=quick, trust=trust_code), replay_text)


def verify(folder: Path, *, signer: Path | None = None) -> Answer:
    """Check that nothing in a run folder changed since it was sealed, and who signed it; nothing is run.

    Args:
        folder: the folder of a run.
        signer: require that the run was signed by this public key (OpenSSH form).
    """
    from fedfleet.app.runs.folder_seals import verification_text, verify_run

    return Answer(verify_run(folder, signer), verification_text)
