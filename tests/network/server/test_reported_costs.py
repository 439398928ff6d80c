"""What tasks cost: as devices say, as far as it can be true; nothing is known of the others."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from fedfleet.core.commands import Account
from fedfleet.network.server.reported_costs import ReportedCost, tasks_spent
from tests.network.scene import Scene, play
from tests.network.toys import Toy


def test_what_cannot_be_true_is_not_believed(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.ready(0)
        scene.here(0, 1, 2, 3)
        await scene.until(lambda: scene.running)
        waves = tuple(scene.wave(task) for task in range(4))
        said = [
            ReportedCost(10.0, {"download": 1.0, "compute": 2.0}),
            ReportedCost(20.0, {"download": 1.0, "compute": 5.0}),  # more than passed
            ReportedCost(30.0, {"compute": math.nan}),
            None,
        ]
        result = tasks_spent(Account((0, 1, 2, 3), waves, (4.0,) * 4), said, 7.0)
        assert result.time == 7.0 and result.clients.tolist() == [scene.client(task) for task in range(4)]
        np.testing.assert_equal(result.spent["download"], [1.0, math.nan, math.nan, math.nan])
        np.testing.assert_equal(result.spent["compute"], [2.0, math.nan, math.nan, math.nan])
        np.testing.assert_equal(result.spent["bytes_up"], [10.0, 20.0, 30.0, math.nan])
        assert np.isnan(result.spent["upload"]).all() and np.isfinite(result.spent["bytes_down"]).tolist() == [
            True
        ] * 3 + [False]

    play(tmp_path, Toy(clients=4), act, transmitters=1)
