"""The page of a study, from a small study on the disk."""

import json
import re
import shutil

import pytest

from fedfleet.app.pages.study_page import _REQUIRED_KEYS, report_study, write_pages
from fedfleet.app.studies.grid.run_study import load_study, study
from fedfleet.app.studies.grid.study_file import study_of
from fedfleet.app.studies.grid.study_jobs import WorkerSettings
from fedfleet.core.errors import BadInput
from tests.app.studies.tables import LRS

pytestmark = pytest.mark.slow

TABLE = {
    "name": "small<study>",
    "baseline": "waiting",
    "target": 0.5,
    "seeds": [1, 2],
    "base": {"task": {"use": "digits_logreg"}, "world": {"clients": 8}, "stop": {"rounds": 3}},
    "runs": [
        {"name": "waiting", "pace": {"use": "readiness", "cohort": 3}},
        {"name": "deadline", "pace": {"use": "deadline", "cohort": 3, "seconds": 60.0}},
        {"name": "never", "pace": {"use": "deadline", "cohort": 3, "seconds": 0.001}},
    ],
    "analysis": [
        {"kind": "table"},
        {"kind": "pearson", "x": "virtual_seconds"},
        {"kind": "time_to_accuracy"},
        {"kind": "paired_test"},
    ],
}


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    return study(
        study_of(TABLE),
        tmp_path_factory.mktemp("study") / "s",
        worker_settings=WorkerSettings(1),
        tell=lambda said: None,
    )


def test_every_run_and_every_table_is_linked(studied):
    path = write_pages(studied).page
    page = path.read_text()
    links = re.findall(r'href="([^"#]+)"', page)
    assert len({link for link in links if link.startswith("runs/")}) == 4, "two arms made models, with two seeds each"
    assert {"results.csv", "study.json"} <= set(links)
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_arms_that_made_no_model_are_told_with_the_reason(studied):
    page = write_pages(studied).page.read_text()
    assert "Runs that failed" in page and "no model was made" in page and "2 of 2 failed" in page
    told = page.index("2 of six runs, of &#x27;never&#x27;; the reasons")
    assert page.index("<h1>") < told < page.index("Runs that failed"), "the conclusion says it, the table why"


def test_the_conclusion_comes_first_and_analyses_are_there(studied):
    page = write_pages(studied).page.read_text()
    assert page.index("<h1>") < page.index("Three arms, six runs") < page.index("Analyses")
    assert "is the baseline" in page and "Pearson&#x27;s r" in page and "small&lt;study&gt;" in page and "<script" not in page


def test_the_folder_alone_will_do(studied, tmp_path):
    copy = shutil.copytree(studied.out, tmp_path / "copy")
    (copy / "report.html").unlink(missing_ok=True)
    assert report_study(copy) == copy / "report.html"
    shutil.rmtree(next((copy / "runs").glob("waiting-*")))
    assert "waiting" in report_study(copy).read_text(), "a run that was taken away leaves its row"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"runs": [{}]}, r"it has no 'runs\[0\].arm'"),
        ({"rows": [{"arm": "a"}]}, r"it has no 'rows\[0\].settings'"),
        ({"analyses": 3}, "not iterable"),
        (
            {"runs": [{"arm": "a", "seed": 0, "folder": "../x", "digest": "", "reason": None}]},
            "does not lie in its folder",
        ),
    ],
)
def test_a_study_that_somebody_changed_is_refused_in_one_sentence(tmp_path, change, said):
    whole = dict.fromkeys(_REQUIRED_KEYS) | {"rows": [], "runs": [], "analyses": []}
    (tmp_path / "study.json").write_text(json.dumps(whole | change))
    with pytest.raises(BadInput, match=rf"study\.json cannot be read .*{said}"):
        report_study(tmp_path)


def test_a_folder_without_a_study_is_told(tmp_path):
    with pytest.raises(BadInput, match=r"study\.json cannot be read"):
        report_study(tmp_path)


def test_pages_are_written_once_and_failed_runs_have_none(tmp_path):
    done = study(load_study({**LRS, "seeds": 1}), tmp_path / "out", worker_settings=WorkerSettings(1))
    pages = [ran.out / "report.html" for ran in done.cells]
    pages[0].write_text("mine")
    result = write_pages(done)
    assert result.page == tmp_path / "out/report.html" and result.page.is_file()
    assert pages[0].read_text() == "mine" and pages[1].stat().st_size > 1000
