"""`fedfleet explain`: say where the time of a run went, and what it would have been on a kinder fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedfleet.app.terminal.answers import AsJson, Interrupted, RunFolder, TrustCode, answer, write_page
from fedfleet.core.errors import BadInput


def explain(
    folder: RunFolder,
    rounds: Annotated[
        int, typer.Option("--rounds", min=0, metavar="N", help="List the N longest rounds with their causes.")
    ] = 0,
    counterfactuals: Annotated[
        bool,
        typer.Option(
            "--counterfactuals",
            help="Say too what the run would have been on a kinder fleet: simulate it again without each set of causes (links, "
            "computing, reachability, data, faults).",
        ),
    ] = False,
    target: Annotated[
        float | None,
        typer.Option(
            help="With --counterfactuals: the accuracy to be reached; default: the spec's own, else 95 % of the best of the run."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="With --counterfactuals: in how many processes to simulate; default: 1."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --counterfactuals: where these runs are kept; default: RUN/counterfactuals."
        ),
    ] = None,
    trust_code: TrustCode = None,
    as_json: AsJson = False,
) -> None:
    """Say where the virtual time of a run went, cause by cause, and who was waited for; also while the run is going on."""
    from fedfleet.app.runs.explanation import explain_run
    from fedfleet.app.terminal.explanation_text import explanation_text
    from fedfleet.app.terminal.value_checks import share

    if not counterfactuals:
        _refuse_without_counterfactuals(
            {"--target": target, "--workers": workers, "--cache": cache, "--trust-code": trust_code}
        )
    target_share = None if target is None else share("--target", target)
    result = explain_run(folder, longest=rounds)
    if counterfactuals:
        try:
            result |= _counterfactuals(
                folder, result, {"target": target_share, "workers": workers or 1, "cache": cache, "trust": trust_code}
            )
        except KeyboardInterrupt:
            raise Interrupted("interrupted; what was simulated is kept: say the same again to go on") from None
    answer(result, as_json, explanation_text)


def _refuse_without_counterfactuals(options: dict[str, Any]) -> None:
    """Options that say how to simulate mean nothing where nothing is simulated."""
    names = [name for name, value in options.items() if value is not None]
    if names:
        raise BadInput(f"{names[0]} says how to simulate the run again; say --counterfactuals too")


def _counterfactuals(folder: Path, result: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """What counterfactuals add to the answer; both parts of it are drawn on a page in the folder."""
    from fedfleet.app.pages.explanation_page import explain_page
    from fedfleet.app.pages.time_chart import attribution_figure
    from fedfleet.app.runs.counterfactuals import counterfactual_answer
    from fedfleet.app.runs.explanation import attribute_run

    more = counterfactual_answer(folder, **options)
    page = folder / "explain.html"
    write_page("explain", page, explain_page(attribution_figure(attribute_run(folder)[0]), more, folder.resolve().name))
    return {**more, "sentence": f"{result['sentence']} {more['sentence']}", "page": str(page)}
