"""A whole demo of which every run is one of a few that are there already: for tests of its page."""

from itertools import cycle

from fedfleet.app.demo import demo_study
from fedfleet.app.demo.demo_study import USERS
from fedfleet.app.studies.compare.run_data import read_run


def demo_of(folders):
    """By fleet and way, as many runs as there are seeds."""
    turn = cycle([read_run(folder, folder.name) for folder in folders])
    places = {(fleet, way): demo_study.STUDY.seeds for fleet in demo_study.FLEETS for way in demo_study.WAYS}
    places |= {(USERS, way): demo_study.USER_STUDY.seeds for way in demo_study.METHODS}
    return {place: [next(turn) for _ in seeds] for place, seeds in places.items()}
