"""The demo's page of methods."""

from fedfleet.app.demo.methods import METHODS, methods_spec
from fedfleet.app.pages.demo_methods import methods_page
from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve


def test_every_method_has_its_row_and_its_line(tmp_path):
    spec = {**methods_spec("FedAvg"), "stop": {"rounds": 3}}
    runs = {name: perform(resolve(spec, name), tmp_path / name) for name in list(METHODS)[:2]}
    found = methods_page(runs)
    assert all(found.count(f">{name}<") >= 1 and text in found for name, (text, _) in list(METHODS.items())[:2])
    assert "<svg" in found and "never" in found and "<script" not in found
