"""The verb about one user's devices: shuffle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.words import AsJson, answer, app
from fedfleet.core.errors import BadInput


@app.command("shuffle")
def shuffle_verb(
    file: Annotated[
        Path,
        typer.Argument(help="JSON with counts, seconds_per_sample, up_bps, down_bps, bits_per_sample, epochs, alpha."),
    ],
    solver: Annotated[str, typer.Option(help="exact, or slsqp: the paper's, for comparison.")] = "exact",
    quick: Annotated[bool, typer.Option("--quick", help="exact: no scan of sizes and no bounds.")] = False,
    limit: Annotated[float, typer.Option(min=0.001, help="slsqp: seconds at most.")] = 120.0,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the devices before and after, as an HTML page.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Solve one user's exchange of samples: which device hands how many samples of which class to which other."""
    from fedfleet.app.choices import one_of
    from fedfleet.app.pages.shuffling import user_page
    from fedfleet.app.shuffling import read_problem, solve_file, told

    chosen = one_of("--solver", solver, ("exact", "slsqp"))
    problem = read_problem(file)
    got = solve_file(problem, solver=chosen, quick=quick, limit=limit)
    if picture is not None:
        try:
            picture.write_text(user_page(problem, got))
        except OSError as wrong:
            raise BadInput(
                f"--picture: {picture} cannot be written: {wrong.strerror}; name a file in a folder that exists"
            ) from None
    answer(got, as_json, lambda found: told(problem, found))
