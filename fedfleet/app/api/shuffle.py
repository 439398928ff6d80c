"""`fedfleet shuffle`: solve the exchange of samples between one user's devices."""

from __future__ import annotations

from pathlib import Path

from fedfleet.app.terminal.answers import Answer, check_writable, write_page
from fedfleet.app.terminal.value_checks import one_of, positive


def shuffle(file: Path, *, solver: str = "exact", quick: bool = False, limit: float = 120.0, page: Path | None = None) -> Answer:
    """Solve one user's exchange of samples: how many samples of which class each device hands to which other.

    Args:
        file: a JSON file with counts, seconds_per_sample, up_bps, down_bps, bits_per_sample, epochs, alpha.
        solver: `exact`; or slsqp, the paper's, for comparison.
        quick: faster, without bounds.
        limit: `slsqp`: stop after this many seconds.
        page: also draw the devices before and after, as an HTML page.
    """
    from fedfleet.app.fleets.sample_exchange import exchange_text, read_problem, solve_file
    from fedfleet.app.pages.exchange_page import user_page

    chosen = one_of("solver", solver, ("exact", "slsqp"))
    positive("limit", limit)
    if page is not None:
        check_writable("page", page)
    problem = read_problem(file)
    solution = solve_file(problem, solver=chosen, quick=quick, limit=limit)
    if page is not None:
        write_page("page", page, user_page(problem, solution))
    return Answer(solution, lambda found: exchange_text(problem, found))
