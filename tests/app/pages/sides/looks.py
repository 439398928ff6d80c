"""Looks and sides made by hand, for tests of what pages say about them."""

from pathlib import Path

import numpy as np

from fedfleet.app.pages.sides.page_runs import PageRun, Side


def made(
    accuracy=(0.1, 0.5, 0.9),
    seconds=None,
    *,
    seed="0",
    used=(3, 2, 1, 0),
    late=(0, 0, 2, 0),
    first=60.0,
    end=None,
    link="",
    **more,
):
    """A run whose evaluations are a minute apart."""
    seconds = [60.0 * i for i in range(len(accuracy))] if seconds is None else seconds
    metrics = {
        "rounds": 4,
        "commits": 4,
        "accuracy": accuracy[-1] if len(accuracy) else None,
        "accuracy_bottom10": 0.25,
        "bytes_up": 2e9,
        "bytes_down": 4e9,
        "fates": {
            "folded": {"worked_seconds": 7200.0, "bytes_down": 1e9, "bytes_up": 1e9},
            "dropped": {"worked_seconds": 3600.0, "bytes_down": 5e8, "bytes_up": 0.0},
        },
    }
    return PageRun(
        seed=seed,
        link=link,
        out=Path("nowhere"),
        table=more.pop("table", {"pace": {"use": "deadline", "cohort": 2}}),
        metrics=metrics | more.pop("metrics", {}),
        seconds=np.array(seconds, float),
        accuracy=np.array(accuracy, float),
        first=first,
        end=seconds[-1] if end is None else end,
        ended=True,
        samples=10.0,
        used=np.array(used),
        late=np.array(late),
        causes=more.pop("causes", {"compute": 60.0, "upload": 30.0, "pause": 10.0}),
    )


def side(name="a", *looks, **how):
    """A side of these runs, or of one."""
    return Side(name, looks or (made(),), **how)
