"""`fedfleet replay`: verify a run from its journal."""

from __future__ import annotations

from fedfleet.app.terminal.answers import AsJson, RunFolder, TrustCode, answer


def replay(folder: RunFolder, trust_code: TrustCode = None, as_json: AsJson = False) -> None:
    """Rebuild the final state of a run from its journal, and verify every decision and every model on the way."""
    from fedfleet.app.runs.replay import replay_run
    from fedfleet.app.terminal.text import shown_replay

    answer(replay_run(folder, trust_code), as_json, shown_replay)
