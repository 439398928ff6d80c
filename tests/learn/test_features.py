"""What may be put around any algorithm: it reaches every one of them, inline and stacked, or is refused in a sentence."""

from dataclasses import replace

import pytest

from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.events import ModelCommitted, ReportRejected, TaskArrived
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.records import Stop
from fedfleet.core.registry import names
from fedfleet.core.trees import tree_nbytes
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.attacks import sign_flip
from fedfleet.learn.differential_privacy import gaussian
from fedfleet.learn.features import with_features
from fedfleet.learn.robust_folds import norm_bound
from fedfleet.learn.zoo import fedavg, fedrep, ft
from fedfleet.simulation.simulator import simulate
from fedfleet.testing import check_algorithm
from tests.testing.registered import FITTING, assembled, built
from tests.worlds import only

CODED = {"up": ["int4"], "down": ["bf16"], "feedback": True}


def test_without_any_of_it_the_algorithm_is_itself():
    plain = fedavg()
    assert with_features(plain) is plain
    assert with_features(plain, up=[], down=[], feedback=False) is plain


@pytest.mark.parametrize("name", [n for n in names("algorithms") if n not in ("centralized", "fedkd")])
@pytest.mark.parametrize("execute", [inline, stacked_executor])
def test_codecs_go_around_every_algorithm(name, execute):
    # What was lost of a slice cannot be added to the next one, of another width.
    setup = assembled(name, **{**CODED, "feedback": name != "fjord"})
    check_algorithm(setup.plan.algorithm, setup.task, execute(setup.task))


def test_keeping_and_tuning_go_together_and_keep_the_name():
    result = with_features(fedavg(lr=0.3), keep="head.*", fine_tune=3)
    assert result.name == "fedavg"
    assert result.local(0, {}).keep("head.bias") and not result.local(0, {}).keep("body.bias")
    assert (result.tune(0).batches.epochs, result.tune(0).rate, result.tune(0).keep) == (3, 0.3, None)


def test_what_is_kept_twice_is_kept_once_and_both_patterns_count():
    result = with_features(fedrep(), keep="norm.*").local(0, {})
    assert [result.keep(n) for n in ("head.bias", "norm.bias", "body.bias")] == [True, True, False]


def test_tuning_twice_is_refused():
    with pytest.raises(BadInput, match=r"'ft' tunes before it judges already; set algorithm.tune_epochs"):
        with_features(ft(), fine_tune=2)


@pytest.mark.parametrize("name", names("algorithms"))
def test_around_any_algorithm(name):
    for around in ({"keep": "head.*"}, {"fine_tune": 2}):
        tuned = around.get("fine_tune") and built("algorithms", name).tune is not None
        if tuned or name == "centralized" or (name == "ditto" and "keep" in around):
            with pytest.raises(BadInput, match=name):
                with_features(built("algorithms", name), **around)
        else:
            assert with_features(built("algorithms", name), **around).name == name


def test_attackers_come_before_what_protects():
    attack = sign_flip(facts=RunFacts(8, 3, 5))
    both = with_features(fedavg(), fold=norm_bound(0.5), attack=attack, private=gaussian(cohort=4, clip=1.0))
    assert (both.fold.clip, both.fold.denominator) == (0.5, 4.0)
    assert len(both.local(0, {}).after) == 1


def test_every_algorithm_of_a_spec_takes_them():
    for name in names("algorithms"):
        table = {"use": name, "attack": "sign_flip", "fold": "mean"}
        result = resolve({"algorithm": table}).algorithm
        assert result["attack"] == {"use": "sign_flip", "share": 0.2, "factor": 4.0}
        assert result["private"] is None


GAUSSIAN = {"use": "gaussian", "cohort": 3}
LATE, CHANGING = ("fedbuff", "fedasync", "stale_fedavg", "fedavg_plus"), ("median", "bound", "noise", "own_noise")
DENIED = {
    **{(name, "median"): r"algorithm.fold: .* weighs reports by how late" for name in LATE},
    **{(name, "median"): r"algorithm.fold: .* by who trained it" for name in ("heterofl", "fjord", "timelyfl")},
    **{(name, way): r"remembers the same updates" for name in ("scaffold", "feddyn") for way in CHANGING},
    **{("fednova", way): r"how far it walked" for way in CHANGING},
    ("fedavg_plus", "noise"): r"algorithm.private: .* several sums, and noise covers one",
    ("fetchsgd", "keep"): r"algorithm.keep: 'fetchsgd' sends one code of its whole update",
    ("timelyfl", "keep"): r"timelyfl sends whole layers",
    ("fedkd", "up"): r"up: 'fedkd' makes its updates small itself",
    ("centralized", "attack"): r"algorithm.attack: 'centralized' trains in one place",
}  # fmt: skip
AROUND = {
    "median": {"fold": "median"},
    "bound": {"fold": "norm_bound"},
    "noise": {"private": GAUSSIAN},
    "own_noise": {"private": "local"},
    "keep": {"keep": "*.bias"},
    "up": {"up": ["int8"]},
    "attack": {"attack": "nan"},
    "owing": {"up": ["int4"], "feedback": True},
}


@pytest.mark.parametrize(("name", "way"), DENIED)
def test_what_would_be_silently_wrong_together_is_refused_before_the_run(name, way):
    with pytest.raises(BadInput, match=DENIED[name, way]) as wrong:
        assembled(name, task={"use": "digits_mlp"}, **AROUND[way])
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("way", ["keep", "bound", "noise", "median"])
@pytest.mark.parametrize(
    "name", [n for n in names("algorithms") if not n.startswith("biasprompt") and n != "centralized"]
)
def test_what_is_not_refused_is_folded(name, way):
    """A round of it makes a model, and nobody's report is refused."""
    try:
        setup = assembled(name, task=FITTING.get(name, {"use": "digits_mlp"}), **AROUND[way])
    except BadInput:
        return
    events = []
    plan = replace(setup.plan, stop=Stop(rounds=1))
    simulate(plan, setup.world, inline(setup.task), watch=events.extend)
    assert not only(ReportRejected, events)
    assert len(only(ModelCommitted, events)) == 1


def test_what_stays_home_is_named_by_leaves_of_the_model_alone():
    """A pattern that the names of control variates match too keeps the model's leaves, and nothing else."""
    plan = assembled("scaffold", task={"use": "digits_mlp"}, keep="*.bias").plan
    sent = plan.algorithm.fold.like(plan.algorithm.init(plan.params))
    assert "control/1.bias" in sent and "1.bias" not in sent


def test_noise_of_a_clients_own_makes_low_rank_whole_again():
    def sent(**more):
        setup = assembled("fedkd", task={"use": "digits_mlp"}, energy_first=0.5, energy_last=0.5, **more)
        events = []
        simulate(replace(setup.plan, stop=Stop(rounds=1)), setup.world, inline(setup.task), watch=events.extend)
        return [e.bytes_up for e in only(TaskArrived, events)], tree_nbytes(setup.plan.params)

    plain, whole = sent()
    assert max(plain) < whole and set(sent(private="local")[0]) == {whole}
