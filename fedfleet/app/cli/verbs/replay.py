"""`fedfleet replay`: audit a run."""

from __future__ import annotations

from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, RunFolder, TrustCode, answer


def replay(
    folder: RunFolder,
    quick: Annotated[
        bool, typer.Option("--quick", help="Check seals, chain and decisions only; train nothing again.")
    ] = False,
    trust_code: TrustCode = None,
    as_json: AsJson = False,
) -> None:
    """Run a simulation again from its spec and compare every row of its journal; the first one that lies is named."""
    from fedfleet.app.runs.run_audit import replay_run
    from fedfleet.app.terminal.text import replay_text

    answer(replay_run(folder, quick=quick, trust=trust_code), as_json, replay_text)
