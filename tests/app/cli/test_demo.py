"""`fedfleet demo`, with fewer rounds and one fleet."""

import json
import re

from tests.app.demo.conftest import short
from tests.app.specs import refused

__all__ = ["short"]


def test_the_demo_writes_its_runs_and_one_page(short, fedfleet, tmp_path):
    code, out, _ = fedfleet("demo", "--out", tmp_path / "demo", "--json")
    got = json.loads(out)
    assert code == 0 and got["report"] == str(tmp_path / "demo/index.html")
    assert len(got["runs"]) == 10 and {r["seed"] for r in got["runs"]} == {7, 8}
    assert {r["method"] for r in got["ways"]} >= {"FedBuff", "ShuffleFL"}
    page = (tmp_path / "demo/index.html").read_text()
    assert "<script" not in page and page.count("<h1>") == 1
    links = set(re.findall(r'href="([^"#]+)"', page))
    assert len(links) == 10 and all((tmp_path / "demo" / link).is_file() for link in links), "every run opens"


def test_a_folder_that_is_no_demo_is_refused(fedfleet, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    refused(fedfleet("demo", "--out", tmp_path), "is not a demo", "--out")
