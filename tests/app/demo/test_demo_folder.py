"""The demo's folder."""

import pytest

from fedfleet.app.demo.demo_folder import take_demo_folder
from fedfleet.core.errors import BadInput


def test_an_earlier_demo_is_replaced(tmp_path):
    take_demo_folder(tmp_path / "demo")
    (tmp_path / "demo/report.html").write_text("old")
    take_demo_folder(tmp_path / "demo")
    assert not (tmp_path / "demo/report.html").exists()


def test_anything_else_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(BadInput, match="is not a demo; choose another folder with --out"):
        take_demo_folder(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "keep"
    with pytest.raises(BadInput, match="cannot write to the folder"):
        take_demo_folder(tmp_path / "mine.txt" / "demo")
