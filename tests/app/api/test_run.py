"""The Python call: a spec, or an own model on own arrays."""

import inspect

import numpy as np
import pytest
import torch

import fedfleet
from fedfleet.core import registry
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import RunFacts
from fedfleet.learn.zoo import fedavg
from tests.app.specs import written

pytestmark = pytest.mark.slow

SPEC = {"seed": 2, "world": {"clients": 6}, "pace": {"cohort": 3}, "stop": {"rounds": 5}}


def blobs(owners=False):
    """Two classes that a line can tell apart."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    x = rng.normal(0, 0.3, (200, 5)) + y[:, None]
    return (x, y, np.arange(200) % 9) if owners else (x, y)


def test_a_spec_by_path_and_words(tmp_path):
    result = fedfleet.run(written(tmp_path), "stop.rounds=2")
    assert result.metrics["rounds"] == 2
    assert result.out is None
    assert not (tmp_path / "runs").exists()


def test_a_run_with_a_folder_can_be_loaded(tmp_path):
    done = fedfleet.run({**SPEC, "task": "digits_logreg"}, out=tmp_path / "out")
    again = fedfleet.load(tmp_path / "out")
    assert again.metrics["digest"] == done.metrics["digest"]
    assert all(np.array_equal(again.params[n], v) for n, v in done.params.items())
    assert fedfleet.run({**SPEC, "task": "digits_logreg"}).metrics["digest"] == done.metrics["digest"]


def test_an_own_model_on_own_arrays():
    model = torch.nn.Linear(5, 2)
    before = {n: v.clone() for n, v in model.state_dict().items()}
    spec = {**SPEC, "stop": {"rounds": 25}}
    result = fedfleet.run(spec, model=model, data=blobs())
    assert result.metrics["accuracy"] > 0.9
    assert all(torch.equal(v, before[n]) for n, v in model.state_dict().items()), "the given model is not changed"
    model.load_state_dict({n: torch.from_numpy(v) for n, v in result.params.items()})
    assert fedfleet.run(spec, model=lambda: torch.nn.Linear(5, 2), data=blobs()).metrics["accuracy"] > 0.9


def test_own_owners_become_clients():
    spec = {**SPEC, "world": {"clients": 9, "data": "by_owner"}}
    result = fedfleet.run(spec, model=torch.nn.Linear(5, 2), data=blobs(owners=True))
    assert result.metrics["commits"] == 5


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"model": torch.nn.Linear(5, 2)}, "both model and data"),
        ({"model": torch.nn.Linear(5, 2), "data": (np.zeros((3, 5)), np.zeros(4, int))}, "as many labels"),
        ({"model": torch.nn.Linear(5, 2), "data": (np.zeros((3, 5)), np.zeros(3))}, "integers"),
        ({"model": torch.nn.Linear(5, 2), "data": (1,)}, "inputs, labels"),
        ({"loss": torch.nn.functional.cross_entropy}, "loss and metrics need a model"),
        ({"resume": True}, "needs the folder"),
        ({"model": torch.nn.Linear(5, 2), "data": "nowhere.npz"}, "cannot read arrays x and y"),
    ],
)
def test_what_cannot_be_trained_is_refused(kwargs, says):
    with pytest.raises(fedfleet.BadInput, match=says):
        fedfleet.run(SPEC, **kwargs)


def test_third_parties_add_parts():
    fedfleet.register("selectors", "first_come", "tests.app.api.test_run:first_come")
    result = fedfleet.run({**SPEC, "task": "digits_logreg", "choose": {"use": "first_come", "skip": 1}})
    from fedfleet.core.events import TasksSent

    assert {tuple(e.clients) for e in result.events if isinstance(e, TasksSent)} == {(1, 2, 3)}


def first_come(skip: int = 0):
    """Whoever has the smallest number."""
    from fedfleet.core.parts import Selector
    from fedfleet.core.records import whole_work

    return Selector("first_come", lambda state, roster, n, draw: whole_work(roster.clients[skip : skip + n]))


DIGITS = {
    "seed": 7,
    "task": "digits_cnn",
    "world": {"clients": 100, "data": {"use": "dirichlet", "alpha": 0.5}},
    "pace": {"cohort": 20},
    "stop": {"rounds": 200, "target_accuracy": 0.9},
}


def test_fedavg_reaches_ninety_percent_on_digits():
    result = fedfleet.run(DIGITS)
    assert result.metrics["stopped_by"] == "target_accuracy"
    assert result.metrics["accuracy"] >= 0.9
    assert result.metrics["rounds"] <= 200


def test_the_bounds_enclose_it():
    quick = {
        **DIGITS,
        "task": "digits_logreg",
        "stop": {"rounds": 30},
        "world": {"clients": 20, "data": {"use": "dirichlet"}},
    }
    together = fedfleet.run(quick, "algorithm.use=centralized").metrics
    apart = fedfleet.run(quick, "algorithm.use=local_only").metrics
    between = fedfleet.run(quick).metrics
    assert together["accuracy"] >= between["accuracy"] - 0.01
    assert together["accuracy_clients"] > apart["accuracy_clients"] - 0.1
    assert apart["bytes_up"] == apart["bytes_down"] == together["bytes_up"] == 0.0
    assert apart["accuracy"] < 0.5, "no global model is learnt"
    assert apart["accuracy_clients"] > 0.6, "but the clients' own are"


def test_own_data_that_is_not_finite_is_refused_by_its_row():
    x, y = np.zeros((20, 3), np.float32), np.arange(20) % 2
    x[7, 1] = np.nan
    with pytest.raises(BadInput, match=r"1 of 20 inputs hold values that are not finite.*row 7"):
        fedfleet.run({"world": {"clients": 2}}, model=torch.nn.Linear(3, 2), data=(x, y))


def test_a_run_that_makes_no_model_warns():
    spec = {"task": "digits_logreg", "algorithm": {"bound": 1e-9}, "pace": {"cohort": 2}, "stop": {"rounds": 2}}
    with pytest.warns(UserWarning, match="no model was made: all 2 rounds failed"):
        result = fedfleet.run(spec)
    assert result.metrics["commits"] == 0


def test_a_builder_may_ask_for_facts_of_the_run():
    seen = []

    def curious(*, lr: float = 0.1, about: RunFacts):
        """FedAvg that wants to know."""
        seen.append(about)
        return fedavg(lr=lr)

    fedfleet.register("algorithms", "curious", curious)
    spec = {"seed": 9, "task": "digits_logreg", "algorithm": {"use": "curious"}, "pace": {"cohort": 2}}
    fedfleet.run(
        {
            **spec,
            "world": {"clients": 6},
            "stop": {"rounds": 1},
            "override": [{"clients": [1], "algorithm": {"lr": 0.2}}],
        }
    )
    assert len(seen) >= 2 and set(seen) == {RunFacts(6, 9, 1)}, "for everyone, and again for whoever has other settings"


def test_a_spec_that_names_a_task_and_a_model_do_not_go_together(tmp_path):
    for spec in ({**SPEC, "task": "digits_logreg"}, written(tmp_path)):
        with pytest.raises(BadInput, match="the spec names a task"):
            fedfleet.run(spec, model=torch.nn.Linear(5, 2), data=blobs())


def test_a_spec_file_without_a_task_takes_a_model(tmp_path):
    path = written(tmp_path, "seed = 2\nworld.clients = 6\npace.cohort = 3\nstop.rounds = 5\n")
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 2)
    digests = {fedfleet.run(spec, model=model, data=blobs()).metrics["digest"] for spec in (path, SPEC)}
    assert len(digests) == 1


def test_owners_and_first_weights_belong_to_the_content():
    x, y, owner = blobs(owners=True)
    make = lambda: torch.nn.Linear(5, 2)  # noqa: E731
    given = [(SPEC, (x, y)), (SPEC, (x, y, owner)), ({**SPEC, "seed": 3}, (x, y))]
    assert len({fedfleet.run(s, "stop.rounds=1", model=make, data=d).metrics["spec_digest"] for s, d in given}) == 3


def test_a_runs_signature_and_the_public_names():
    known = inspect.signature(fedfleet.run).parameters
    assert list(known)[:4] == ["spec", "overrides", "model", "data"]
    assert {"loss", "metrics", "on_commit", "out", "keep_data", "resume", "trust_code"} <= known.keys()
    assert dir(fedfleet) == sorted(fedfleet.__all__)
    for name in fedfleet.__all__:
        assert getattr(fedfleet, name) is not None
    assert fedfleet.Selector.__module__ == "fedfleet.core.parts"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fedfleet.nothing  # noqa: B018


def test_a_result_is_short_in_a_notebook_and_can_be_loaded_and_replayed_by_itself(tmp_path):
    result = fedfleet.run({**SPEC, "seed": np.int64(2), "task": "digits_logreg"}, "stop.rounds=1", out=tmp_path / "out")
    assert repr(result).startswith(f"Result({100 * result.metrics['accuracy']:.1f} % after 1 rounds, 1 models, ")
    assert repr(result).endswith(f"; {tmp_path / 'out'})") and len(repr(result)) < 200
    assert fedfleet.load(result).metrics == result.metrics and fedfleet.replay(result, quick=True)["ok"]


@pytest.mark.parametrize(
    ("spec", "words", "more", "says"),
    [
        (5, (), {}, "an object of type 'int' is not a spec"),
        (SPEC, ({"stop.rounds": 2},), {}, 'write "KEY=VALUE" in quotes'),
        ({"stop": {1: 2}}, (), {}, "stop has the key 1; keys are text"),
        ({"world": None}, (), {}, r"world: None is not a table; write \[world\] with its keys below"),
        (SPEC, (), {"on_commit": "print"}, "on_commit: 'print' is not a function"),
        (SPEC, (), {"out": 5}, "out = 5: give a path"),
    ],
)
def test_mistakes_are_one_sentence(spec, words, more, says):
    with pytest.raises(BadInput, match=says) as caught:
        fedfleet.run(spec, *words, **more)
    assert "\n" not in str(caught.value)


def test_a_part_that_cannot_be_built_is_said_when_it_is_registered_or_used(monkeypatch):
    with pytest.raises(BadInput, match="5 is not a builder"):
        fedfleet.register("selectors", "mine", 5)
    with pytest.raises(BadInput, match="is not a name"):
        fedfleet.register("selectors", "", print)
    monkeypatch.setitem(registry._added["selectors"], "lost", "no_such_module:lost")
    with pytest.raises(BadInput, match="'lost' is registered as 'no_such_module:lost', which cannot be loaded"):
        fedfleet.run(SPEC, "choose.use=lost")
