"""From arms to sides."""

from fedfleet.app.pages.sides.arms_as_sides import grouped, painted
from tests.app.pages.sides.arms import arm
from tests.app.pages.sides.looks import made

ARMS = [
    arm(f"{fleet} {pace}", 0.5, keys={"world.data.alpha": fleet, "pace.use": pace})
    for fleet in (10.0, 0.1)
    for pace in ("readiness", "deadline")
]


def test_arms_that_differ_in_world_and_more_are_grouped_by_world():
    groups = grouped(ARMS)
    assert list(groups) == ["alpha 10", "alpha 0.1"]
    assert [[a.name for a in mine] for mine in groups.values()] == [["readiness", "deadline"]] * 2


def test_arms_that_differ_in_one_of_them_stay_together():
    only_pace, only_world = ARMS[:2], [ARMS[0], ARMS[2]]
    assert list(grouped(only_pace)) == [""] and list(grouped(only_world)) == [""]
    assert [a.name for a in grouped(only_pace)[""]] == [a.name for a in only_pace]


def test_groups_share_a_colour_and_others_have_their_own():
    looks = (made(),)
    groups = painted({"mild": [("a", looks), ("b", looks)], "severe": [("a", looks), ("b", looks)]})
    assert [(s.colour, s.thin) for s in groups] == [(1, False), (1, True), (2, False), (2, True)]
    alone = painted({"": [(str(i), looks) for i in range(7)]})
    assert len({(s.colour, s.thin) for s in alone}) == 7, "no two of seven look alike"
