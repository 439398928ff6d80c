"""`fedfleet shuffle`: solve one user's exchange of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, check_writable, write_page


def shuffle(
    file: Annotated[
        Path,
        typer.Argument(
            help="A JSON file with counts, seconds_per_sample, up_bps, down_bps, bits_per_sample, epochs, alpha."
        ),
    ],
    solver: Annotated[str, typer.Option(help="exact; or slsqp, the paper's, for comparison.")] = "exact",
    quick: Annotated[bool, typer.Option("--quick", help="Faster, without bounds.")] = False,
    limit: Annotated[float, typer.Option(help="slsqp: stop after this many seconds.")] = 120.0,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the devices before and after, as an HTML page.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Solve one user's exchange of samples: which device hands how many samples of which class to which other."""
    from fedfleet.app.fleets.sample_exchange import exchange_text, read_problem, solve_file
    from fedfleet.app.pages.exchange_page import user_page
    from fedfleet.app.terminal.value_checks import one_of, positive

    chosen = one_of("--solver", solver, ("exact", "slsqp"))
    positive("--limit", limit)
    if picture is not None:
        check_writable("--picture", picture)
    problem = read_problem(file)
    solution = solve_file(problem, solver=chosen, quick=quick, limit=limit)
    if picture is not None:
        write_page("--picture", picture, user_page(problem, solution))
    answer(solution, as_json, lambda found: exchange_text(problem, found))
