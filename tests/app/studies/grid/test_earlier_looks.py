"""Looking again after more seeds is counted, looking again at the same is not."""

from fedfleet.app.studies.grid.earlier_looks import LOOKS, note_look
from tests.app.studies.tables import asked


def test_more_seeds_are_another_look_and_the_same_seeds_are_not(tmp_path):
    assert [note_look(tmp_path, asked(seeds=n)) for n in (3, 3, 5, 9, 5)] == [1, 1, 2, 3, 2]


def test_one_seed_is_no_look_and_other_arms_begin_anew(tmp_path):
    assert [note_look(tmp_path, asked(seeds=n)) for n in (1, 3, 5)] == [1, 1, 2]
    assert note_look(tmp_path, asked(seeds=9, grid={"algorithm.lr": [0.3, 0.4]})) == 1


def test_a_broken_file_is_written_anew(tmp_path):
    (tmp_path / LOOKS).write_text("{")
    assert note_look(tmp_path, asked(seeds=3)) == 1 and note_look(tmp_path, asked(seeds=5)) == 2
