"""`fedfleet explain`: say where the time of a run went, and what it would have been on a kinder fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedfleet.app.terminal.answers import AsJson, Interrupted, RunFolder, TrustCode, answer, write_page


def explain(
    folder: RunFolder,
    rounds: Annotated[
        int, typer.Option("--rounds", min=0, metavar="N", help="List the N longest rounds with their causes.")
    ] = 0,
    counterfactuals: Annotated[
        bool,
        typer.Option(
            "--counterfactuals",
            help="Simulate the run again without each set of causes (links, computing, reachability, data, faults).",
        ),
    ] = False,
    target: Annotated[
        float | None,
        typer.Option(help="The accuracy to be reached; default: the spec's own, else 95 % of the best of the run."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="In how many processes to simulate.")] = 1,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where these runs are kept; default: RUN/counterfactuals.")
    ] = None,
    trust_code: TrustCode = None,
    as_json: AsJson = False,
) -> None:
    """Say where the virtual time of a run went, cause by cause, and who was waited for; also while the run is going on."""
    from fedfleet.app.runs.explaining import explained
    from fedfleet.app.terminal.choices import share
    from fedfleet.app.terminal.explained import shown_explained

    aim = None if target is None else share("--target", target)
    found = explained(folder, longest=rounds)
    if counterfactuals:
        try:
            found |= _would_have_been(
                folder, found, {"target": aim, "workers": workers, "cache": cache, "trust": trust_code}
            )
        except KeyboardInterrupt:
            raise Interrupted("interrupted; what was simulated is kept: say the same again to go on") from None
    answer(found, as_json, shown_explained)


def _would_have_been(folder: Path, found: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """What counterfactuals add to the answer; both parts of it are drawn on a page in the folder."""
    from fedfleet.app.pages.attribution import attribution_figure
    from fedfleet.app.pages.shapley import explain_page
    from fedfleet.app.runs.counterfactuals import counterfactual_answer
    from fedfleet.app.runs.explaining import attributed_run

    more = counterfactual_answer(folder, **asked)
    page = folder / "explain.html"
    write_page(
        "explain", page, explain_page(attribution_figure(attributed_run(folder)[0]), more, folder.resolve().name)
    )
    return {**more, "sentence": f"{found['sentence']} {more['sentence']}", "page": str(page)}
