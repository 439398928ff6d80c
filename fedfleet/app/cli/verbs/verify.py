"""`fedfleet verify`: check the seals and the signature of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, RunFolder, answer


def verify(
    folder: RunFolder,
    signer: Annotated[
        Path | None,
        typer.Option(metavar="KEY.pub", help="Demand that the run was signed by this public key (OpenSSH form)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that nothing in a run folder changed since it was sealed, and who signed it; nothing is run."""
    from fedfleet.app.runs.verification import verify_run
    from fedfleet.app.terminal.text import verification_text

    answer(verify_run(folder, signer), as_json, verification_text)
