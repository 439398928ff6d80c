"""The built-in base: the same on every machine, well formed for any number of rows, and like the real traces it was fitted to.

How like is judged by the bands of 100 draws that nobody chose (benchmarks.builtin_bands); the whole judgement is in tests/soak.
"""

import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import builtin_bands, builtin_likeness, fit_builtin
from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import availability, mean_kbps
from fedfleet.world.bases import builtin, load_devices, load_states
from tests.real import DEVICE_BASE, ROOT, STATE_BASE, needs_data

pytestmark = pytest.mark.slow

TABLE = Path(builtin.__file__).with_name("builtin.json")
OTHER_SEEDS = range(2000, 2010)  # not the shipped ones, nor those of the fit


def digest(*columns):
    return hashlib.sha256(b"".join(np.ascontiguousarray(c).tobytes() for c in columns)).hexdigest()[:16]


def test_the_default_tables():
    devices, states = load_devices("builtin"), load_states("builtin:")
    assert (len(devices), len(states)) == (200, 700)
    assert len(set(devices.ids.tolist())) == 200 and len(set(states.ids.tolist())) == 700
    assert not len(devices.up)
    assert ((devices.down >= 1) & (devices.down == np.rint(devices.down))).all()
    assert devices.down.min() < 10, "the rare device that hardly moves is part of the base"
    assert all((np.diff(span) >= 0).all() for span in np.split(devices.down, devices.down_offsets[1:-1]))
    counts = np.diff(devices.down_offsets)
    assert counts.min() >= 2 and counts.max() <= 26
    assert devices.seconds_per_sample.mean() == pytest.approx(0.479, rel=0.05)
    assert devices.seconds_per_sample.min() > 0


def test_states_are_whole_seconds_within_one_to_ten_days_and_ready_at_least_once():
    t = builtin.states("").traces
    for column in (t.start, t.period, t.begins, t.ends):
        assert np.array_equal(column, np.rint(column))
    assert set((t.period / 86400).tolist()) <= set(range(1, 11))
    assert (np.diff(t.offsets) >= 1).all() and (t.total >= 1).all()
    assert t.start.min() >= 22 * 86400 and (t.start + t.period).max() < 35 * 86400


def test_the_same_on_every_machine():
    devices, t = builtin.devices(""), builtin.states("").traces
    assert digest(devices.down, devices.down_offsets, devices.seconds_per_sample) == "083e405ad7e09cc2"
    assert digest(t.start, t.period, t.offsets, t.begins, t.ends) == "088eca020cb5253e"


@pytest.mark.parametrize("rows", [1, 2, 37, 900])
def test_a_row_depends_on_its_index_alone(rows):
    short, long = builtin.states(str(rows)).traces, builtin.states("1000").traces
    n = int(short.offsets[-1])
    assert np.array_equal(short.offsets, long.offsets[: rows + 1])
    assert np.array_equal(short.begins, long.begins[:n]) and np.array_equal(short.ends, long.ends[:n])
    few, many = builtin.devices(str(rows)), builtin.devices("1000")
    assert np.array_equal(few.down, many.down[: len(few.down)])
    assert np.array_equal(few.seconds_per_sample, many.seconds_per_sample[:rows])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**40), rows=st.integers(1, 300))
def test_any_seed_gives_rings_that_close(seed, rows):
    ring = builtin.draw_rings(builtin.load_parameters(), rows, seed)
    assert (ring.lengths >= 1).all() and (ring.gaps >= 1).all()
    assert np.array_equal(np.bincount(ring.owner, ring.lengths + ring.gaps), ring.period)
    states = builtin.draw_states(builtin.load_parameters(), rows, seed)
    # Ordering moves sessions about and loses none of them.
    assert np.array_equal(states.traces.total, np.bincount(ring.owner, ring.lengths))
    assert (builtin.draw_devices(builtin.load_parameters(), rows, seed).down >= 1).all()


@pytest.mark.parametrize("path", ["0", "-3", "many", "1e3", "²", "100001", " 5"])
def test_what_is_not_a_number_of_rows_is_refused(path):
    for load in (load_devices, load_states):
        with pytest.raises(BadInput, match="a number of rows from 1 to 100000 is expected"):
            load(f"builtin:{path}")


def test_loading_is_quick_and_needs_numpy_alone():
    code = (
        "import sys, time; from fedfleet.world.bases import load_devices, load_states; import fedfleet.world.bases.builtin\n"
        "start = time.process_time(); load_devices('builtin'); load_states('builtin'); print(time.process_time() - start)\n"
        "print(*[m for m in ('scipy', 'numba', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, heavy = done.stdout.splitlines()
    assert float(seconds) < 2.0 and not heavy


def test_the_parameters_are_small_and_are_shipped():
    assert TABLE.stat().st_size < 30_000
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert "world/bases/*.json" in project["tool"]["setuptools"]["package-data"]["fedfleet"]


# ---- against the real traces


@pytest.fixture(scope="module")
def real():
    return load_devices(DEVICE_BASE), load_states(STATE_BASE)


def beyond(rows):
    """The comparisons that do not hold."""
    return [str(row) for row in rows if row.held and row.off > 1]


@needs_data
def test_devices_are_like_the_real_ones(real):
    ours = load_devices("builtin")
    means, goal = mean_kbps(ours), mean_kbps(real[0])
    assert means.mean() == pytest.approx(goal.mean(), rel=0.03)
    assert means.std() == pytest.approx(goal.std(), rel=0.05)
    values = [builtin_likeness.device_values(table) for table in (real[0], ours)]
    assert not beyond(builtin_likeness.device_rows(*values))
    by_name = {row["what"]: row for row in builtin_bands.found_before()}
    for what, value in values[1].items():
        if what in by_name:
            assert value == pytest.approx(by_name[what]["shipped"], rel=1e-4), what
            assert values[0][what] == pytest.approx(by_name[what]["real"], rel=1e-4), what


@needs_data
def test_states_are_like_the_real_ones(real):
    ours = load_states("builtin")
    assert not beyond(builtin_likeness.basics(real[1], ours))
    at = [5, 25, 50, 75, 90, 99]
    assert np.percentile(availability(ours), at) == pytest.approx(np.percentile(availability(real[1]), at), rel=0.15, abs=2e-4)


@needs_data
def test_so_is_the_model_and_not_only_the_draw_that_is_shipped(real):
    drawn = [builtin.draw_states(builtin.load_parameters(), builtin.STATES, seed) for seed in OTHER_SEEDS]
    rows = [builtin_likeness.basics(real[1], states) for states in drawn]
    for same in zip(*rows, strict=True):
        assert np.mean([row.ours for row in same]) == pytest.approx(same[0].real, rel=0.1), same[0].what


@needs_data
@pytest.mark.parametrize("semantics", ["paper", pytest.param("released", marks=pytest.mark.soak)])
def test_samples_of_states_are_as_hard_as_those_of_the_real_ones(real, semantics):
    goal = builtin_likeness.state_values(real[1], real[0], semantics, builtin_likeness.SEEDS)
    ours = builtin_likeness.state_values(load_states("builtin"), load_devices("builtin"), semantics, builtin_likeness.SEEDS)
    assert not beyond(builtin_likeness.state_rows(goal, ours, semantics))


def outside(rows, metric):
    """By how much of the real figure the band misses it, cell by cell."""
    mine = [row for row in rows if row["what"].startswith(metric)]
    edges = {row["what"]: row["low"] if row["real"] < row["low"] else row["high"] for row in mine if not row["inside"]}
    return {row["what"]: edges[row["what"]] / row["real"] - 1 for row in mine if row["what"] in edges}


def test_the_model_is_judged_by_bands_of_draws_that_nobody_chose():
    rows = builtin_bands.found_before()
    own = builtin.load_parameters()
    assert not {own["devices"]["seed"], own["states"]["seed"], *fit_builtin.REFINING} & set(builtin_bands.DRAWS)
    assert (len(rows), sum(row["inside"] for row in rows)) == (107, 85)
    unlucky = {"StatMC-R released alpha=1 rank 350", "InterMC-R released alpha=1 rank 350"}
    assert set(outside(rows, "DevMC-R")) == set() and set(outside(rows, "StatMC-R")) <= unlucky
    assert all(abs(off) < 0.003 for what, off in outside(rows, "InterMC-R").items() if what not in unlucky)
    assert all(abs(off) < 0.01 for off in outside(rows, "DevMC-T").values())
    assert all(abs(off) < 0.15 for off in outside(rows, "StatMC-T").values())


def test_the_shipped_draw_is_an_ordinary_one():
    rows = builtin_bands.found_before()
    assert sum(row["low"] <= row["shipped"] <= row["high"] for row in rows) == 100
    assert min(row["place"] for row in rows) >= 0.02 and max(row["place"] for row in rows) <= 0.98


def test_the_page_shows_what_was_found():
    page = (Path(__file__).parents[3] / "docs/explanation/builtin-base.md").read_text()
    assert builtin_bands.tables(builtin_bands.found_before()) in page, "paste what benchmarks.builtin_bands --show prints"


def test_a_judgement_says_where_the_real_figure_and_the_shipped_draw_lie():
    def row(ours):
        return builtin_likeness.Row("x", 3.0, ours, 1.0, False)

    (got,) = builtin_bands.judged([[row(float(i))] for i in range(101)], [row(50.0)])
    assert (got["low"], got["median"], got["high"], got["first"], got["place"]) == (5.0, 50.0, 95.0, 0.0, 0.5)
    assert not got["inside"] and builtin_bands.cell(got) == "**3 not in** 5 .. 95; 50 %"


@needs_data
def test_the_first_draw_and_the_shipped_one_can_be_drawn_again(real):
    by_name = {row["what"]: row for row in builtin_bands.found_before()}
    first, shipped = builtin_bands.DRAWS.start, builtin.load_parameters()["states"]["seed"]
    for name, seed in (("first", first), ("shipped", shipped)):
        for row in builtin_likeness.basics(real[1], builtin.draw_states(builtin.load_parameters(), builtin.STATES, seed)):
            assert row.ours == pytest.approx(by_name[row.what][name], rel=1e-4)
            assert row.real == pytest.approx(by_name[row.what]["real"], rel=1e-4)


@needs_data
def test_the_fit_can_be_repeated(real):
    again = fit_builtin.fit_devices(real[0], ROOT / "flhetbench/latency/training_latency.json")
    assert again == {k: v for k, v in builtin.load_parameters()["devices"].items() if k != "seed"}
    counted = fit_builtin.fit_states(real[1])
    shipped = builtin.load_parameters()["states"]
    for key in ("log_share", "log_rate_given_share", "log_rate", "days_start_share", "start_hours", "hour_kinds"):
        assert counted[key] == shipped[key], key
