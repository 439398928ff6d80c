"""Compression around an algorithm: the laws of what arrives, what is remembered and what is charged."""

from dataclasses import replace

import numpy as np
import pytest

import fedfleet
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Offer, Plan
from fedfleet.core.passes import FEEDBACK
from fedfleet.core.records import ServerState, Stop, whole_work
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.baselines import share_nothing
from fedfleet.learn.codecs.lossless import gzip
from fedfleet.learn.codecs.low_rank import lowrank
from fedfleet.learn.codecs.messages import decode, encode, nbytes
from fedfleet.learn.codecs.quantisation import int2, int4, int8
from fedfleet.learn.codecs.sparsification import topk
from fedfleet.learn.composition import with_pass
from fedfleet.learn.compression import offer_tree, with_compression
from fedfleet.learn.features import with_variants
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.folds import mean
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.simulator import simulate
from tests.learn.digits import CLIENTS, models, task, trained, uniform, world

pytestmark = pytest.mark.slow

BODY = np.random.default_rng(0).normal(size=(20, 50)).astype(np.float32)
SERVER = ServerState({"body": BODY, "head": np.ones(40, np.float32)})
ONE = whole_work(np.array([0]))


def priced(algorithm, server=SERVER):
    result = cost_of(algorithm, server, ONE, np.array([20]))
    return float(result.bytes_down[0]), float(result.bytes_up[0])


@pytest.mark.parametrize("execute", [inline, stacked_executor])
def test_gzip_both_ways_under_readiness_of_all_is_fedavg_bit_for_bit_in_the_model(execute):
    both = with_compression(fedavg(), up=[gzip()], down=[gzip(shuffle=True)])
    result = []
    for algorithm in (fedavg(), both):
        events = []
        plan = Plan(3, algorithm, uniform(), readiness(4, ready_share=1.0), Stop(rounds=3), task().init(3), CLIENTS)
        end = simulate(plan, world(), execute(task()), watch=events.extend)
        result.append((models(events), end.state.book.now))
    assert result[0][0] == result[1][0] and len(result[0][0]) == 3
    assert result[1][1] < result[0][1], "fewer bytes must take less time"


def test_clients_train_from_what_arrives_and_all_from_one_and_the_same():
    coded = with_compression(fedavg(), down=[int4()])
    offers = [coded.offer(SERVER, c, {}) for c in range(3)]
    assert offers[0] is offers[1] is offers[2]
    expected = decode(int4(), encode(int4(), SERVER.params), SERVER.params)
    assert {n: v.tobytes() for n, v in offers[0].params.items()} == {n: v.tobytes() for n, v in expected.items()}
    assert offers[0].nbytes == len(offers[0].encoded()) == nbytes(int4(), SERVER.params)
    lossless = with_compression(fedavg(), down=[gzip()]).offer(SERVER, 0, {})
    assert lossless.params is SERVER.params and lossless.nbytes == len(lossless.encoded())


def test_what_is_made_anew_for_each_client_is_coded_once_all_the_same():
    control = {"c": np.linspace(0, 1, 30, dtype=np.float32)}
    inner = replace(fedavg(), offer=lambda server, client, settings: Offer(dict(server.params), dict(control)))
    coded = with_compression(inner, down=[int8()])
    first = coded.offer(SERVER, 0, {})
    assert coded.offer(SERVER, 1, {}) is first
    assert np.abs(first.extra["c"] - control["c"]).max() <= 1 / 254 + 1e-6 and first.extra["c"].tobytes() != control["c"].tobytes()
    assert set(offer_tree(inner.offer(SERVER, 0, {}))) == {"body", "head", "extra|c"}
    for step in range(9):  # older models are forgotten, and made again when someone still trains from them
        coded.offer(ServerState({n: v + np.float32(step) for n, v in SERVER.params.items()}), 0, {})
    again = coded.offer(SERVER, 0, {})
    assert again is not first and again.params["body"].tobytes() == first.params["body"].tobytes()


def test_stochastic_rounding_of_a_model_follows_from_the_model():
    coded = [with_compression(fedavg(), down=[int2(rounding="stochastic")]) for _ in range(2)]
    assert len({c.offer(SERVER, 0, {}).params["body"].tobytes() for c in coded}) == 1
    moved = ServerState({**SERVER.params, "head": SERVER.params["head"] * np.float32(2)})
    assert coded[0].offer(moved, 0, {}).params["body"].tobytes() != coded[0].offer(SERVER, 0, {}).params["body"].tobytes()


@pytest.mark.parametrize("codec", [int2(), int4(rounding="stochastic"), topk(share=0.05), lowrank(rank=2)], ids=lambda c: c.name)
@pytest.mark.parametrize("execute", [inline, stacked_executor])
def test_what_arrived_and_what_is_still_owed_is_all_that_was_trained(codec, execute):
    """Sum of decoded + residual = sum of true updates, up to rounding in single precision."""
    coded, plain, runner = with_compression(fedavg(), up=[codec], feedback=True), fedavg(), execute(task())
    server, memory = ServerState(task().init(3)), {}
    arrived = {n: np.zeros(v.shape) for n, v in server.params.items()}
    true = {n: np.zeros(v.shape) for n, v in server.params.items()}
    for step in range(6):
        mine, theirs = (
            next(iter(runner.train([replace(job(a, server, step), memory=memory if a is coded else {})]))) for a in (coded, plain)
        )
        memory = mine.memory
        for n in arrived:
            arrived[n] += mine.update[n]
            true[n] += theirs.update[n]
    for n in arrived:
        assert np.allclose(arrived[n] + memory[FEEDBACK][n], true[n], atol=1e-5)
        assert not np.allclose(arrived[n], true[n], atol=1e-5) or n.endswith("bias")


def job(algorithm, server, step):
    from fedfleet.core.parts import Job

    rows = np.arange(40) + 40 * step
    return Job(step, 0, 1000, 7, algorithm.offer(server, 0, {}), algorithm.local(0, {}), rows)


def test_with_feedback_few_numbers_come_nearer_to_all_of_them():
    def error(**more):
        params = trained(with_compression(fedavg(lr=0.02, epochs=1), up=[topk(share=0.02)], **more), rounds=12, cohort=4)[
            1
        ].state.server.params
        return sum(float(np.square(params[n] - v).sum()) for n, v in whole.items())

    whole = trained(fedavg(lr=0.02, epochs=1), rounds=12, cohort=4)[1].state.server.params
    assert error(feedback=True) < 0.8 * error()


# ---- what is charged ----------------------------------------------------------------------------------------------


def test_bytes_are_those_that_are_sent_each_way():
    assert priced(fedavg()) == (4160.0, 4160.0)
    down, up = priced(with_compression(fedavg(), up=[int4()], down=[int8()]))
    assert (down, up) == (nbytes(int8(), SERVER.params), nbytes(int4(), SERVER.params))
    assert up < 0.25 * 4160 and down < 0.4 * 4160


def test_what_stays_at_home_is_neither_coded_nor_charged():
    def is_head(name):
        return name == "head"

    split = replace(with_pass(fedavg(), "", lambda p: replace(p, keep=is_head)), fold=mean(travels=lambda n: n != "head"))
    body = {"body": SERVER.params["body"]}
    coded = with_compression(split, up=[int4()], down=[int8()])
    assert priced(coded) == (nbytes(int8(), body), nbytes(int4(), body))
    assert coded.offer(SERVER, 0, {}).params["head"] is SERVER.params["head"]
    assert priced(with_compression(share_nothing(fedavg()), up=[int8()], down=[gzip()])) == (0.0, 0.0)


def test_prices_that_depend_on_values_are_said_to():
    assert not with_compression(fedavg(), up=[int8()], down=[gzip()]).priced_by_value
    assert with_compression(fedavg(), up=[int8(), gzip()]).priced_by_value
    assert with_compression(fedavg(), up=[lowrank(energy=0.9)]).priced_by_value
    assert not with_compression(fedavg(), up=[lowrank(rank=2)]).priced_by_value
    # Whoever sends less than the fold takes: foreseen in proportion, and known from the report.
    half = replace(fedavg(), cost=lambda s, a, n: replace(cost_of(fedavg(), s, a, n), bytes_up=np.array([2080.0])))
    assert with_compression(half, up=[int8()]).priced_by_value
    assert priced(with_compression(half, up=[int8()]))[1] == pytest.approx(nbytes(int8(), SERVER.params) / 2)


def test_overridden_clients_send_in_their_own_code():
    plain, coded = fedavg(), with_compression(fedavg(), up=[int8(), gzip()], down=[int8()])
    mixed = with_variants(plain, ((np.array([1]), coded),), CLIENTS)
    assert mixed.priced_by_value and mixed.local(1, {}).up is not None and mixed.local(0, {}).up is None
    cost = cost_of(mixed, SERVER, whole_work(np.array([0, 1])), np.array([5, 5]))
    assert cost.bytes_down.tolist() == [4160.0, nbytes(int8(), SERVER.params)]
    assert models(trained(mixed)[0]) != models(trained(plain)[0])


# ---- bad input ----------------------------------------------------------------------------------------------------


def test_feedback_without_loss_is_refused():
    with pytest.raises(BadInput, match=r"feedback = true .* \"up\" loses, .*; add up"):
        with_compression(fedavg(), feedback=True)


def test_the_direction_is_named():
    with pytest.raises(BadInput, match=r"^down: 'gzip' cannot come before 'int8'"):
        with_compression(fedavg(), down=[gzip(), int8()])


def test_passes_with_equal_codecs_train_together():
    one, other = (with_compression(fedavg(), up=[int8()], feedback=True).local(c, {}) for c in (0, 1))
    assert one == other and one.remembers()
    assert one != with_compression(fedavg(), up=[int4()], feedback=True).local(0, {})


def test_a_declared_size_of_the_model_keeps_the_ratios_and_shortens_the_time():
    def found(coded, model_bytes):
        table = {"seed": 3, "task": "digits_logreg", "stop": {"rounds": 2}, "pace": {"cohort": 3}}
        table |= {"algorithm": {"use": "fedavg", **coded}}
        world = {"clients": 8, "devices": "spread", **({"model_bytes": model_bytes} if model_bytes else {})}
        m = fedfleet.run({**table, "world": world}).metrics
        return m["bytes_up"], m["bytes_down"], m["virtual_seconds"]

    for codecs in ({"up": ["int8"], "down": ["fp16"]}, {"up": ["int4", "gzip"], "down": ["int8", "gzip"]}):
        real, large = ([found(arm, size) for arm in ({}, codecs)] for size in (None, 1e8))
        for way in (0, 1):
            assert large[1][way] / large[0][way] == pytest.approx(real[1][way] / real[0][way]) and real[1][way] < real[0][way]
        assert large[1][2] < large[0][2]
