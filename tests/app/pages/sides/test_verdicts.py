"""The conclusion of a comparison in words."""

from dataclasses import replace

from fedfleet.app.pages.sides.verdicts import accuracy_gap, caveat, finding, headline, lead, side_facts, tradeoffs, verdict_list
from fedfleet.app.studies.compare.verdict import verdict
from tests.app.pages.sides.arms import arm
from tests.app.pages.sides.looks import made, side


def judged(*arms, group=""):
    return {group: (arms, verdict(arms))}


def test_one_seed_names_no_winner():
    said = headline(judged(arm("a", 0.9), arm("b", 0.5)))
    assert said == "'a' is ahead, but one common seed cannot show a difference"
    assert "One <abbr" in caveat(judged(arm("a", 0.9), arm("b", 0.5)))


def test_clear_differences_over_seeds_have_a_winner():
    result = judged(arm("a", 0.9, 0.91, 0.92, 0.9), arm("b", 0.5, 0.51, 0.53, 0.52))
    assert headline(result).startswith("Use 'a': ") and "more accurate than 'b'" in headline(result)
    assert lead(result).startswith("Use 'a': it reaches 90.8 % after 60 s") and "95 % interval" in lead(result)
    assert "Four <abbr" in caveat(result) and "seeds</abbr> each" in caveat(result)


def test_seeds_that_differ_more_than_arms_name_none():
    result = judged(arm("a", 0.9, 0.4, 0.8), arm("b", 0.5, 0.7, 0.6))
    assert headline(result).startswith("Use 'a' for now: ") and headline(result).endswith("not decided yet")


def test_seeds_of_one_arm_are_described():
    assert headline(judged(arm("a", 0.46, 0.84))) == "Two seeds of one run end at 46 to 84 %"


def test_several_fleets_say_where_arms_are_farthest_apart():
    mild, severe = (arm("a", 0.9), arm("b", 0.92)), (arm("a", 0.9), arm("b", 0.4))
    result = judged(*mild, group="mild") | judged(*severe, group="severe")
    assert headline(result) == "On 'severe', 'a' ends at 90 % and 'b' at 40 %; elsewhere all arms end within 2 points of each other"
    assert "On 'mild': 'b' is ahead: it reaches 92.0 % after 60 s" in lead(result)


def test_a_winner_on_one_fleet_is_named_there():
    mild = (arm("a", 0.9, 0.5, 0.7), arm("b", 0.8, 0.7, 0.6))
    severe = (arm("a", 0.9, 0.91, 0.92), arm("b", 0.4, 0.41, 0.43))
    result = judged(*mild, group="mild") | judged(*severe, group="severe")
    assert headline(result).startswith("On 'mild' use ") and headline(result).endswith(
        "for now (not decided yet); on 'severe' use 'a'"
    )


def test_facts_are_those_of_the_runs():
    assert side_facts(side("a"), 0.8) == "90 % after 2 min; 80 % in 2 min; 1 of 4 clients never takes part."
    assert (
        side_facts(side("a", made([0.1, 0.2], used=(1, 1), late=(0, 0))), 0.8)
        == "20 % after 60 s; 80 % never; all clients take part."
    )
    assert "over two seeds" in side_facts(side("a", made(), made([0.1, 0.5])), None)


def test_the_list_has_an_item_for_each_side_or_group():
    one = judged(arm("a", 0.9), arm("b", 0.5))
    assert verdict_list(one, [side("a"), side("<b>")], None).count("<li") == 2
    assert "<b>" not in verdict_list(one, [side("x<y")], None).replace("<b>X", "")
    two = judged(arm("a", 0.9), group="mild") | judged(arm("a", 0.8), group="severe")
    assert verdict_list(two, [side("a", group="mild"), side("a", group="severe")], None).count("<li") == 2


def test_nothing_tried_is_said():
    bare = verdict((arm("a", 0.9), arm("b", 0.5)))
    assert accuracy_gap(bare.at_end) is not None and finding((arm("a", 0.9),), verdict((arm("a", 0.9),))).startswith(
        "one run ends at"
    )


def test_of_many_sides_the_best_are_told():
    sides = [side(f"arm {i}", made([0.1, 0.05 * i])) for i in range(1, 13)]
    page = verdict_list({"": ((), None)}, sides, None)
    assert "arm 12" in page and ">arm 1<" not in page and "The 9 of 12 that end highest" in page


def test_trade_offs_stand_beside_the_lead():
    found = judged(arm("a", 0.9, 0.91, 0.92, 0.9, end=60.0), arm("b", 0.95, 0.96, 0.97, 0.96, end=60.0))
    assert tradeoffs(found) == "" and "Trade-off" not in lead(found)
    (arms, verdict_of_b) = found[""]
    one = replace(
        verdict_of_b.recommendation,
        tradeoffs=("it leaves out 3 of 4 clients",),
        sentence="Use 'b'. Trade-off: it leaves out 3 of 4 clients.",
    )
    told = {"": (arms, replace(verdict_of_b, recommendation=one))}
    assert "It leaves out 3 of 4 clients." in tradeoffs(told).replace("\u00a0", " ") and lead(told) == "Use 'b'."
