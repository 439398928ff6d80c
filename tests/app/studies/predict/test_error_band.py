"""The band that comes with this version: complete, wide enough to mean anything, and it says where it comes from."""

import numpy as np
import pytest

from fedfleet.app.studies.predict.error_band import Band, band


def test_the_band_is_whole():
    result = band()
    assert len(result.progress) == len(result.below) == len(result.above) >= 2 and (np.diff(result.progress) > 0).all()
    assert (result.below >= 0).all() and (result.above >= 0).all() and result.below.max() < 0.6
    assert "fleets" in result.note


def test_between_known_places_it_is_interpolated():
    known = Band(np.array([0.0, 1.0]), np.array([0.2, 0.1]), np.array([0.0, 0.4]), "a test")
    below, above = known.margins_at(np.array([-1.0, 0.5, 2.0]))
    assert below == pytest.approx([0.2, 0.15, 0.1]) and above == pytest.approx([0.0, 0.2, 0.4])
