"""A worker carries out one trial of a study that others share."""

import json

from fedfleet.app.studies.tune.search_store import open_study
from fedfleet.app.studies.tune.search_worker import piece_of, work
from tests.app.studies.tune.searches import searched


def test_a_piece_is_one_trial_and_begun_ones_go_on(tmp_path):
    search, told = searched({"pruner": "none"}), []
    piece = json.loads(json.dumps(piece_of(search, tmp_path, 0)))
    assert work(piece, told.append) == {"trial": 0} and told == [{"trial": 0}]
    study = open_study(tmp_path, search)
    study.ask()  # and its worker died
    assert work(piece_of(search, tmp_path, 1, 1), told.append) == {"trial": 1}
    states = [t.state.name for t in open_study(tmp_path, search).get_trials()]
    assert states == ["COMPLETE", "COMPLETE"]
