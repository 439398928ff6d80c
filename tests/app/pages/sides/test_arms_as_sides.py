"""From arms to sides."""

from fedfleet.app.pages.sides.arms_as_sides import colour_sides, group_arms
from tests.app.pages.sides.arms import arm
from tests.app.pages.sides.looks import made

ARMS = [
    arm(f"{fleet} {pace}", 0.5, keys={"world.data.alpha": fleet, "pace.use": pace})
    for fleet in (10.0, 0.1)
    for pace in ("readiness", "deadline")
]


def test_arms_that_differ_in_world_and_more_are_grouped_by_world():
    groups = group_arms(ARMS)
    assert list(groups) == ["alpha 10", "alpha 0.1"]
    assert [[a.name for a in mine] for mine in groups.values()] == [["readiness", "deadline"]] * 2


def test_arms_that_differ_in_one_of_them_stay_together():
    only_pace, only_world = ARMS[:2], [ARMS[0], ARMS[2]]
    assert list(group_arms(only_pace)) == [""] and list(group_arms(only_world)) == [""]
    assert [a.name for a in group_arms(only_pace)[""]] == [a.name for a in only_pace]


def test_groups_share_a_colour_and_others_have_their_own():
    looks = (made(),)
    groups = colour_sides({"mild": [("a", looks), ("b", looks)], "severe": [("a", looks), ("b", looks)]})
    assert [(s.colour, s.thin) for s in groups] == [(1, False), (1, True), (2, False), (2, True)]
    alone = colour_sides({"": [(str(i), looks) for i in range(7)]})
    assert len({(s.colour, s.thin) for s in alone}) == 7, "no two of seven look alike"
