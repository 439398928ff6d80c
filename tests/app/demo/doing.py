"""A whole demo of which every run is one of a few that are there already: for tests of its page."""

from itertools import cycle

from fedfleet.app.comparing.reading import read_run
from fedfleet.app.demo import fleets, users
from fedfleet.app.demo.running import USERS


def demo_of(folders):
    """By fleet and way, as many runs as there are seeds."""
    turn = cycle([read_run(folder, folder.name) for folder in folders])
    places = [(fleet, way) for fleet in fleets.FLEETS for way in fleets.WAYS] + [(USERS, way) for way in users.METHODS]
    return {place: [next(turn) for _ in fleets.SEEDS] for place in places}
