"""The band that comes with this version: complete, wide enough to mean anything, and it says where it comes from."""

import numpy as np
import pytest

from fedfleet.app.studies.predict.error_band import Band, band


def test_the_band_is_whole():
    found = band()
    assert len(found.progress) == len(found.below) == len(found.above) >= 2 and (np.diff(found.progress) > 0).all()
    assert (found.below >= 0).all() and (found.above >= 0).all() and found.below.max() < 0.6
    assert "fleets" in found.said


def test_between_known_places_it_is_interpolated():
    known = Band(np.array([0.0, 1.0]), np.array([0.2, 0.1]), np.array([0.0, 0.4]), "a test")
    below, above = known.at(np.array([-1.0, 0.5, 2.0]))
    assert below == pytest.approx([0.2, 0.15, 0.1]) and above == pytest.approx([0.0, 0.2, 0.4])
