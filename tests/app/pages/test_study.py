"""The page of a study."""

from fedfleet.app.pages.study import write_study
from fedfleet.app.studies.analysing import rows_of
from fedfleet.app.studies.answering import Studied
from tests.app.studies.tables import aims, asked, ran


def test_the_page_has_every_arm(tmp_path):
    study = asked()
    cells = ran(study, [0.5, 0.6, 0.7, 0.8])
    page = write_study(Studied(study, cells, rows_of(study, cells, aims()), [], tmp_path, aims()))
    assert all(arm.name in page.read_text() for arm in study.arms)
