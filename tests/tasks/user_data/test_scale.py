"""One scale from sums that owners could send: the same as all at once, exact however far from zero."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedfleet
from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.scale import apply_scale, fit_scale, magnitude_warning

law = settings(deadline=None, derandomize=True, max_examples=40)


@law
@given(st.integers(0, 10**6), st.sampled_from([0.0, -3.0, 1.6e12]), st.sampled_from([1e-3, 1.0, 1e6]), st.integers(1, 40))
def test_sums_by_owner_are_the_sums_of_all(seed, offset, spread, owners):
    rng = np.random.default_rng(seed)
    x = offset + spread * rng.normal(size=(rng.integers(2, 300), 3))
    owner = rng.integers(0, owners, len(x))
    whole, parts = fit_scale(x), fit_scale(x, owner=owner)
    assert np.allclose(parts.mean, whole.mean, rtol=1e-12, atol=1e-12 * spread)
    assert np.allclose(parts.sd, whole.sd, rtol=1e-12, atol=0)
    if abs(offset) < 1e9 * spread:  # else what numpy centres by is itself rounded
        assert np.allclose(whole.sd, x.std(0), rtol=1e-9)
    turned = fit_scale(x[::-1], owner=owner[::-1])
    assert np.allclose(turned.sd, parts.sd, rtol=1e-12)


def test_time_stamps_keep_their_digits():
    x = 1.6e12 + np.arange(10_000.0)[:, None]
    scaled = apply_scale(x, fit_scale(x))
    assert scaled.dtype == np.float32 and abs(scaled.mean()) < 1e-6 and abs(scaled.std() - 1) < 1e-6
    assert (np.diff(scaled[:, 0]) > 0).all()


def test_a_constant_has_deviation_one_and_rows_choose():
    x = np.column_stack([np.full(7, 0.1), np.arange(7.0)])
    assert fit_scale(x).sd.tolist() == [1.0, 2.0] and abs(apply_scale(x, fit_scale(x))[:, 0]).max() < 1e-6
    assert fit_scale(x, np.array([0, 2])).mean.tolist() == [0.1, 1.0]
    assert fit_scale(x, np.arange(7) < 3, owner=np.arange(7)).mean.tolist() == pytest.approx([0.1, 1.0])


def test_pictures_are_scaled_place_by_place():
    x = np.random.default_rng(0).normal(size=(50, 1, 2, 3)) * 5 + 2
    assert np.allclose(apply_scale(x, fit_scale(x)).std(0), 1, atol=1e-5) and fit_scale(x).mean.shape == (1, 2, 3)


def test_ranges_that_differ_are_named():
    x = np.column_stack([np.arange(50) / 50, 40 + np.arange(50.0), 1000 * np.arange(50.0), np.full(50, 7)])
    sentence = magnitude_warning(x, ("share", "bpm", "income", "one"))
    assert "'income' from 0 to 49000" in sentence and "'share' from 0 to 0.98" in sentence and 'scale = "standard"' in sentence
    assert "column 2 from" in magnitude_warning(x)
    assert magnitude_warning(x[:, :2]) is None and magnitude_warning(x[:, :1]) is None and magnitude_warning(x[:, [0, 3]]) is None
    rare = np.zeros((20_000, 2))
    rare[0, 0], rare[:, 1] = 1, np.arange(20_000) % 2
    assert magnitude_warning(rare) is None  # a rare event is no scale of its own
    assert magnitude_warning(np.zeros((4, 1, 2, 2))) is None


def test_data_are_scaled_or_a_warning_says_how(tmp_path):
    (tmp_path / "t.csv").write_text("time,bpm,load\n" + "".join(f"{1_600_000_000_000 + i},{60 + i % 3},{i}.5\n" for i in range(30)))
    plain = fedfleet.data(tmp_path / "t.csv")
    assert plain.x.dtype == np.float64 and plain.x[1, 0] - plain.x[0, 0] == 1 and "'time'" not in plain.warnings[0]
    assert plain.dataset().x.dtype == np.float32
    found = fedfleet.data(tmp_path / "t.csv", scale="standard")
    assert np.allclose(found.x.std(0), 1, atol=1e-5) and found.x.dtype == np.float32
    ((mean, sd),) = found.target_scale
    assert np.allclose(found.y * sd + mean, plain.y, atol=1e-4) and found.dataset().target_scale == found.target_scale
    with pytest.raises(BadInput, match="did you mean 'standard'"):
        fedfleet.data(tmp_path / "t.csv", scale="standart")
