"""Runs that may advance together are performed, each in its folder, each with its own answer."""

from fedfleet.app.runs import Finished, finished, perform
from fedfleet.app.studies.expanding import expanded
from fedfleet.app.studies.joining import groups, perform_joined
from fedfleet.core.errors import BadInput
from fedfleet.core.events import RunEnded
from tests.app.studies.tables import asked


def test_every_run_is_in_one_group():
    specs = [cell.spec for cell in expanded(asked())]
    assert sorted(i for group in groups(specs) for i in group) == [0, 1, 2, 3]
    assert groups([]) == []


def test_each_has_the_digest_that_it_has_alone_and_a_failure_stops_no_other(tmp_path):
    specs = [cell.spec for cell in expanded(asked())][:3]
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "stranger").touch()
    heard = []

    def watch(i, events):
        return heard.extend(i for e in events if isinstance(e, RunEnded))

    found = perform_joined(specs, [tmp_path / str(i) for i in range(3)], watch=watch, resume=True)
    assert isinstance(found[1], BadInput)
    assert sorted(heard) == [0, 2]
    for i in (0, 2):
        alone = perform(specs[i], tmp_path / f"alone-{i}")
        assert isinstance(found[i], Finished)
        assert found[i].metrics["digest"] == alone.metrics["digest"] == finished(tmp_path / str(i)).metrics["digest"]
