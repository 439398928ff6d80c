"""The sentence says what the books say, and no more."""

from fedfleet.measure.attribution.causes import CAUSES, RoundTime, total_attribution
from fedfleet.measure.attribution.sentences import MEANINGS, clients_text, sentence, share


def books(*rounds, who=None, ended=True):
    times, made = 0.0, []
    for i, (causes, reason) in enumerate(rounds):
        made.append(RoundTime(i, times, times + sum(causes.values()), causes, -1, reason))
        times = made[-1].end
    return total_attribution(made, who or {}, ended=ended, cutting="none")


def test_every_cause_has_its_words():
    assert set(MEANINGS) == set(CAUSES)
    for cause in CAUSES:
        said = sentence(books(({cause: 3.0}, "too few" if cause == "failed" else "")))
        assert said.endswith(".") and said.count(".") == 1 and not said[0].islower()


def test_the_largest_cause_with_those_behind_it():
    who = {"upload": {12: 30.0, 7: 20.0, 3: 6.0, 9: 5.0}}
    assert sentence(books(({"pause": 39.0, "upload": 61.0}, ""), who=who)) == (
        "61 % of the time was waiting for uploads, most of it for 2 clients (12, 7)."
    )
    alone = {"upload": {4: 61.0}}
    assert sentence(books(({"pause": 39.0, "upload": 61.0}, ""), who=alone, ended=False)) == (
        "61 % of the time so far was waiting for uploads, all of it for client 4."
    )
    many = {"upload": dict.fromkeys(range(61), 1.0)}
    assert "spread over 61 clients" in sentence(books(({"pause": 39.0, "upload": 61.0}, ""), who=many))


def test_one_round_is_a_round_and_two_are_rounds():
    assert "(1 round; because few)" in sentence(books(({"failed": 3.0}, "few")))
    both = sentence(books(({"failed": 3.0}, "few"), ({"failed": 1.0}, "none")))
    assert "(2 rounds; mostly because few)" in both


def test_what_nobody_knows_is_said_first():
    result = sentence(books(({"unknown": 80.0, "pause": 20.0}, "")))
    assert result == (
        "Nobody knows where 80 % of the time went, since devices did not say; of the rest, most was the pause between rounds."
    )
    assert sentence(books(({"unknown": 2.0}, ""))) == "Nobody knows where all of the time went, since devices did not say."
    assert "nothing to explain" in sentence(books())


def test_shares_and_names():
    assert share(0.001, 1.0) == "under 1 %" and share(1.0, 1.0) == "all" and share(0.9999, 1.0) == "over 99 %"
    assert clients_text({1: 2.0}, 5.0) == "part of it for client 1" and clients_text({1: 1.0, 2: 1.0}, 9.0) == ""
