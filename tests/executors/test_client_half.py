"""The client's half around training: hooks in order, memory, what goes up, what it weighs, what is reported beside it."""

import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedfleet.core.equality import same
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Job, Offer
from fedfleet.core.passes import BatchPlan, Carry, LocalPass, SecondModel, Slot
from fedfleet.executors.array_library import NUMPY
from fedfleet.executors.client_half import (
    Tallies,
    TrainedStack,
    batches,
    encode_update,
    group_by_pass,
    prepare_job,
    reports,
    stack_update,
    weight_of,
)
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.device_sums import changes
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.tensor_stacks import TORCH, DeviceLeaf, copy_rows, norms_of, stack_carry, stack_trees
from fedfleet.learn.codecs.lossless import gzip
from fedfleet.learn.codecs.messages import decode_bytes, encode_bytes
from fedfleet.learn.codecs.quantisation import int8
from fedfleet.learn.codecs.sparsification import topk
from fedfleet.learn.optimisers import sgd
from tests.executors.cohorts import jobs_with, small_task, smooth

PLAIN = LocalPass(sgd(), BatchPlan(4, 2), rate=0.05)
CPU = torch.device("cpu")


def job(local=PLAIN, *, client=0, rows=5, **parts):
    offer = Offer({"w": np.arange(3, dtype=np.float32), "head": np.ones(2, np.float32), "n": np.array([4])})
    return Job(client + 10, client, 1000 + client, 7, parts.pop("offer", offer), local, np.arange(rows), **parts)


def ended(group, *, moved=1.0, **parts):
    """A kernel's answer: every floating leaf of client c moved by c + `moved`, integers counted up."""
    start = stack_trees([b.start for b in group], CPU)
    by = torch.arange(float(len(group))) + moved
    end = {n: v + by.reshape(-1, *(1,) * (v.dim() - 1)).to(v.dtype) for n, v in start.items()}
    tallies = Tallies(*(np.arange(1.0, len(group) + 1) * k for k in (10.0, 30.0, 5.0, 2.0)))
    return TrainedStack(TORCH, start, end, tallies, stack_carry(group, CPU), **parts)


# ---- before -------------------------------------------------------------------------------------------------------


def adds(text, said):
    def hook(given):
        said.append(text)
        return given

    return hook


def test_hooks_before_run_outermost_first_and_on_what_the_one_before_left():
    def doubled(given):
        return replace(given, offer=Offer({n: v * 2 for n, v in given.offer.params.items()}))

    def plus_one(given):
        return replace(given, offer=Offer({n: v + 1 for n, v in given.offer.params.items()}))

    result = prepare_job(job(replace(PLAIN, before=(doubled, plus_one))))
    assert result.start["w"].tolist() == [1.0, 3.0, 5.0]
    assert prepare_job(job(replace(PLAIN, before=(plus_one, doubled)))).start["w"].tolist() == [2.0, 4.0, 6.0]


def test_a_hook_before_may_change_the_pass_and_the_rows():
    other = replace(PLAIN, batches=BatchPlan(2))
    result = prepare_job(job(replace(PLAIN, before=(lambda given: replace(given, local=other, rows=given.rows[:2]),))))
    assert result.local is other
    assert weight_of(result.job, result.local) == 2.0


def test_an_empty_shard_is_named():
    with pytest.raises(RunFailed, match=r"client 3, task 13: .*its training shard is empty"):
        prepare_job(job(client=3, rows=0))
    emptied = replace(PLAIN, before=(lambda given: replace(given, rows=given.rows[:0]),))
    with pytest.raises(RunFailed, match="empty"):
        prepare_job(job(emptied))


# ---- memory -------------------------------------------------------------------------------------------------------


def test_kept_leaves_come_from_home_and_the_rest_from_the_offer():
    keeps = replace(PLAIN, keep=lambda name: name == "head")
    home = {"kept": {"head": np.full(2, 9.0, np.float32), "w": np.full(3, 9.0, np.float32)}}
    result = prepare_job(job(keeps, memory=home))
    assert result.start["head"].tolist() == [9.0, 9.0]
    assert result.start["w"].tolist() == [0.0, 1.0, 2.0]  # what is no longer kept is not taken from home
    assert prepare_job(job(keeps)).start["head"].tolist() == [1.0, 1.0]
    assert prepare_job(job(PLAIN, memory=home)).start["head"].tolist() == [1.0, 1.0]


def test_slots_are_fresh_once_and_remembered_after():
    made = []

    def fresh(model):
        made.append(model)
        return {"c": np.zeros(1, np.float32)}

    remembers = replace(PLAIN, slots=(Slot("control", fresh),), second=SecondModel(lambda model: {"w": model["w"] * 2}))
    new = prepare_job(job(remembers))
    assert made == [new.job.offer.params]
    assert set(new.memory) == {"control", "second"}
    assert new.memory["second"]["w"].tolist() == [0.0, 2.0, 4.0]
    known = {"control": {"c": np.ones(1, np.float32)}, "second": {"w": np.zeros(3, np.float32)}, "other": {}}
    old = prepare_job(job(remembers, memory=known))
    assert len(made) == 1
    assert old.memory == {"control": known["control"], "second": known["second"]}
    assert prepare_job(job(PLAIN, memory=known)).memory == {}


def test_what_is_kept_is_where_training_ended_and_does_not_go_up():
    keeps = replace(PLAIN, keep=lambda name: name == "head", slots=(Slot("control", lambda m: {"c": np.zeros(1)}),))
    group = [prepare_job(job(keeps, client=c)) for c in (0, 1)]
    one, two = reports(group, ended(group))
    assert set(one.update) == {"w", "n"}
    assert one.memory["kept"]["head"].tolist() == [2.0, 2.0]
    assert two.memory["kept"]["head"].tolist() == [3.0, 3.0]
    assert two.memory["control"]["c"].tolist() == [0.0]
    two.memory["kept"]["head"][:] = 7.0
    assert one.memory["kept"]["head"].tolist() == [2.0, 2.0]
    assert one.memory["kept"]["head"].base is None  # no view that keeps a whole stack alive


def test_a_second_model_is_kept_as_it_ended():
    group = [prepare_job(job(replace(PLAIN, second=SecondModel(dict))))]
    (result,) = reports(group, ended(group, second={"w": torch.full((1, 3), 5.0)}))
    assert set(result.memory) == {"second"}
    assert result.memory["second"]["w"].tolist() == [5.0, 5.0, 5.0]


def test_who_remembers_nothing_reports_no_memory():
    group = [prepare_job(job())]
    assert next(reports(group, ended(group))).memory is None


# ---- after --------------------------------------------------------------------------------------------------------


def test_hooks_after_run_innermost_first_on_the_whole_stack():
    seen = []

    def doubles(stack):
        seen.append((stack.update["w"].shape[0], stack.weight.tolist(), stack.tasks.tolist()))
        return replace(stack, update={n: v * 2 for n, v in stack.update.items()})

    def plus_one(stack):
        return replace(stack, update={n: v + 1 for n, v in stack.update.items()}, weight=stack.weight / 2)

    group = [prepare_job(job(replace(PLAIN, after=(doubles, plus_one)), client=c)) for c in (0, 1)]
    one, two = reports(group, ended(group))
    assert seen == [(2, [5.0, 5.0], [10, 11])]
    assert (one.update["w"].tolist(), two.update["w"].tolist()) == ([3.0] * 3, [5.0] * 3)
    assert one.weight == 2.5


def test_hooks_see_columns_with_one_entry_for_each_client():
    group = [
        prepare_job(job(client=0, settings={"rate": 0.5})),
        prepare_job(job(client=1, rows=3, offer=Offer({"w": np.zeros(3, np.float32)}, {"code": np.ones(2)}))),
    ]
    result = stack_update(group[1:], ended(group[1:]))
    assert result.given["code"].tolist() == [[1.0, 1.0]]
    assert (result.rates.tolist(), result.keys.tolist(), result.seed) == ([0.05], [1001], 7)
    assert stack_update(group[:1], ended(group[:1])).rates.tolist() == [0.5]


def test_the_norm_is_of_the_plain_update_whatever_hooks_make_of_it():
    hooked = replace(PLAIN, after=(lambda stack: replace(stack, update={n: v * 0 for n, v in stack.update.items()}),))
    group = [prepare_job(job(hooked))]
    (result,) = reports(group, ended(group, moved=2.0))
    assert result.stats["update_norm"] == pytest.approx(np.sqrt(5 * 4.0))  # five floating elements, each moved by two


def test_integers_travel_as_they_are_and_sends_names_the_rest():
    group = [prepare_job(job())]
    assert next(reports(group, ended(group))).update["n"].tolist() == [5]
    some = [prepare_job(job(replace(PLAIN, sends=lambda name: name == "w")))]
    assert set(next(reports(some, ended(some))).update) == {"w"}


def test_a_kernel_that_has_the_update_itself_is_believed():
    group = [prepare_job(job())]
    made = {"w": torch.full((1, 3), 0.25), "head": torch.zeros(1, 2), "n": torch.tensor([[6]])}
    (result,) = reports(group, replace(ended(group), end={}, update=made))
    assert result.update["w"].tolist() == [0.25] * 3
    assert result.stats["update_norm"] == pytest.approx(np.sqrt(3 / 16))


@pytest.mark.parametrize("execute", [inline, stacked_executor], ids=["inline", "stacked"])
def test_around_real_training_hooks_run_once_in_their_order(execute):
    said = []
    hooks = {
        "before": (adds("outer", said), adds("inner", said)),
        "after": (adds("first", said), adds("last", said)),
    }
    task = small_task(smooth())
    list(execute(task).train(jobs_with(task, replace(PLAIN, **hooks), (4,))))
    assert said == ["outer", "inner", "first", "last"]


# ---- statistics ---------------------------------------------------------------------------------------------------


def test_statistics_are_means_over_the_samples_that_were_seen():
    group = [prepare_job(job(rows=50)), prepare_job(job(client=1, rows=3))]
    one, two = reports(group, ended(group))
    assert (one.stats["loss"], one.stats["squared_loss"]) == (2.0, 6.0)
    assert (one.stats["samples"], two.stats["samples"]) == (5.0, 3.0)  # seen once of 50; ten times seen of 3
    assert (one.stats["steps"], two.stats["steps"]) == (2.0, 4.0)


@pytest.mark.parametrize("execute", [inline, stacked_executor], ids=["inline", "stacked"])
def test_with_few_steps_the_samples_are_those_really_trained_on(execute):
    task = small_task(smooth())
    jobs = jobs_with(task, PLAIN, (10, 30), steps=2)
    for result, one in zip(execute(task).train(jobs), jobs, strict=True):
        assert result.stats["samples"] == sum(len(rows) for rows in batches(PLAIN.batches, one)) == 8.0
        assert result.weight == float(len(one.rows))


@pytest.mark.parametrize("execute", [inline, stacked_executor], ids=["inline", "stacked"])
def test_losses_their_squares_and_the_norm_against_numpy(execute):
    task = small_task(smooth())
    still = replace(PLAIN, rate=1e-12, batches=BatchPlan(4, 1))
    (one,) = jobs_with(task, still, (10,))
    model = {n: v.astype(np.float64) for n, v in one.offer.params.items()}
    x = task.dataset.x[one.rows].reshape(10, -1).astype(np.float64)
    logits = np.tanh(x @ model["1.weight"].T + model["1.bias"]) @ model["3.weight"].T + model["3.bias"]
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(10), task.dataset.y[one.rows]]
    (result,) = execute(task).train([one])
    assert result.stats["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    assert result.stats["squared_loss"] == pytest.approx(np.square(losses).mean(), rel=1e-5)
    (moved,) = execute(task).train(jobs_with(task, PLAIN, (10,)))
    squares = sum(float(np.square(v.astype(np.float64)).sum()) for v in moved.update.values())
    assert moved.stats["update_norm"] == pytest.approx(np.sqrt(squares), rel=1e-6)


def test_norms_of_long_leaves_are_summed_in_spans():
    long = np.random.default_rng(0).normal(size=(2, 10_001)).astype(np.float32)
    update = {"w": torch.from_numpy(long), "none": torch.zeros(2, 0), "n": torch.ones(2, 3, dtype=torch.int64)}
    assert norms_of(update, 2) == pytest.approx(np.sqrt(np.square(long.astype(np.float64)).sum(1)), rel=1e-6)


# ---- stacks -------------------------------------------------------------------------------------------------------


def test_passes_that_differ_only_in_their_rate_train_together():
    locals_ = [PLAIN, replace(PLAIN, rate=0.3), replace(PLAIN, weigh="one"), PLAIN]
    group = [prepare_job(job(local, client=c)) for c, local in enumerate(locals_)]
    assert [places for _, places in group_by_pass(group)] == [[0, 1, 3], [2]]
    assert [b.rate(b.local) for b in group] == [0.05, 0.3, 0.05, 0.05]


def test_a_settings_rate_stands_before_the_passes_in_every_stage():
    staged = replace(PLAIN, then=replace(PLAIN, rate=0.2))
    plain, told = prepare_job(job(staged)), prepare_job(job(staged, settings={"rate": 0.7}))
    assert [plain.rate(s) for s in staged.stages()] == [0.05, 0.2]
    assert [told.rate(s) for s in staged.stages()] == [0.7, 0.7]


def test_a_tree_that_all_share_is_not_copied():
    tree = {"w": np.arange(3.0)}
    assert stack_trees([tree, tree], CPU)["w"].stride(0) == 0
    other = stack_trees([tree, {"w": np.ones(3)}], CPU)["w"]
    assert (other.stride(0), other.tolist()) == (3, [[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]])


def test_what_a_sample_weighs():
    assert weight_of(job(rows=5), PLAIN) == 5.0
    assert weight_of(job(rows=5), replace(PLAIN, weigh="one")) == 1.0


def test_tallies_of_two_stages_add_up():
    one, two = (Tallies(*(np.array([k * v]) for v in (1.0, 2.0, 3.0, 4.0))) for k in (1, 10))
    both = one.add(two)
    assert [v.tolist() for v in (both.loss, both.squared, both.samples, both.steps)] == [[11.0], [22.0], [33.0], [44.0]]


# ---- memory that stays where it is --------------------------------------------------------------------------------


def test_resident_leaves_read_as_arrays_and_stack_without_leaving():
    whole = torch.arange(6.0).reshape(3, 2)
    leaf = copy_rows(whole)[1]
    mine = {"control": {"c": leaf}}
    whole.zero_()
    assert np.asarray(leaf).tolist() == [2.0, 3.0]  # its own copy
    assert np.asarray(leaf, np.float64).dtype == np.float64
    assert (leaf.nbytes, leaf.shape, leaf.dtype) == (8, (2,), np.float32)
    both = stack_trees([mine["control"], {"c": DeviceLeaf(torch.ones(2))}], CPU)
    assert both["c"].tolist() == [[2.0, 3.0], [1.0, 1.0]]
    mixed = stack_trees([mine["control"], {"c": np.zeros(2, np.float32)}], CPU)
    assert mixed["c"].tolist() == [[2.0, 3.0], [0.0, 0.0]]
    assert stack_trees([mine["control"]], CPU)["c"].tolist() == [[2.0, 3.0]]


def test_what_clients_have_in_common_crosses_to_an_accelerator_once():
    """The device here has shapes and strides only, which is what counts."""
    elsewhere, one, other = torch.device("meta"), np.zeros((3, 2), np.float32), np.ones((3, 2), np.float32)
    trees = [{"all": one, "some": one, "own": np.zeros((3, 2), np.float32)} for _ in range(4)]
    trees[2]["some"] = other
    stacks = stack_trees(trees, elsewhere)
    assert {n: tuple(v.shape) for n, v in stacks.items()} == dict.fromkeys(("all", "some", "own"), (4, 3, 2))
    assert stacks["all"].stride(0) == 0 and stacks["some"].stride(0) == stacks["own"].stride(0) == 6
    here = stack_trees(trees, CPU)  # as ever: a stack of rows
    assert here["all"].stride(0) == 6 and here["some"][2].eq(1).all()


def test_a_client_goes_on_from_resident_memory_as_from_arrays():
    keeps = replace(PLAIN, keep=lambda name: name.startswith("3"))
    task = small_task(smooth())
    (one,) = jobs_with(task, keeps, (9,))
    home = {n: v + np.float32(0.1) for n, v in one.offer.params.items() if n.startswith("3")}
    there = {"kept": {n: DeviceLeaf(torch.from_numpy(v.copy())) for n, v in home.items()}}
    result = [
        next(iter(execute(task).train([replace(one, memory=memory)])))
        for execute in (inline, stacked_executor)
        for memory in ({"kept": home}, there)
    ]
    for a, b in (result[:2], result[2:]):
        assert all(np.array_equal(v, b.memory["kept"][n]) for n, v in a.memory["kept"].items())
        assert all(np.array_equal(v, b.update[n]) for n, v in a.update.items())


def test_slots_and_what_was_offered_become_stacks():
    remembers = replace(PLAIN, slots=(Slot("control", lambda model: {"c": np.zeros(1)}),))
    offers = [Offer({"w": np.zeros(3, np.float32)}, {"code": np.full(2, float(c))}) for c in (0, 1)]
    group = [prepare_job(job(remembers, client=c, offer=offers[c])) for c in (0, 1)]
    result = stack_carry(group, CPU)
    assert isinstance(result, Carry)
    assert result.given["code"].tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert result.memory["control"]["c"].shape == (2, 1)


def test_the_order_in_which_a_model_lists_its_leaves_decides_no_bit_of_the_norm():
    draw = np.random.default_rng(0)
    for _ in range(50):
        update = {str(i): torch.from_numpy(draw.normal(size=(2, 7)).astype(np.float32)) for i in range(5)}
        other = {n: update[n] for n in reversed(update)}
        assert norms_of(update, 2).tolist() == norms_of(other, 2).tolist()
        result = [changes(tree, None, list(tree), 2).read()[1].tolist() for tree in (update, other)]
        assert result[0] == result[1]


# ---- codecs -------------------------------------------------------------------------------------------------------


def test_what_is_owed_is_added_before_it_is_coded_and_the_rest_is_owed_again():
    coded = replace(PLAIN, up=topk(share=0.5), feedback=True)
    owed = {"w": np.array([0.0, 5.0, 0.0], np.float32), "head": np.array([0.0, 0.25], np.float32)}
    group = [prepare_job(job(coded, memory={"feedback": owed})), prepare_job(job(coded, client=1))]
    first, fresh = reports(group, ended(group))
    assert first.update["w"].tolist() == [1.0, 6.0, 0.0] and first.memory["feedback"]["w"].tolist() == [0.0, 0.0, 1.0]
    assert first.update["head"].tolist() == [0.0, 1.25] and first.memory["feedback"]["head"].tolist() == [1.0, 0.0]
    assert fresh.update["w"].tolist() == [2.0, 2.0, 0.0] and fresh.memory["feedback"]["w"].tolist() == [0.0, 0.0, 2.0]
    assert first.update["n"].tolist() == [5] and set(first.memory["feedback"]) == {"w", "head"}
    assert first.bytes_up == fresh.bytes_up == len(encode_bytes(coded.up, fresh.update))


def test_codecs_come_after_all_hooks():
    def doubled(result):
        return replace(result, update={n: v * 2 for n, v in result.update.items()})

    coded = replace(PLAIN, up=topk(share=0.4), after=(doubled,))
    group = [prepare_job(job(coded))]
    (report,) = reports(group, ended(group))
    assert report.update["w"].tolist() == [2.0, 2.0, 0.0] and report.memory is None


def test_what_is_owed_in_another_shape_is_said():
    coded = replace(PLAIN, up=topk(), feedback=True)
    group = [prepare_job(job(coded, memory={"feedback": {"w": np.zeros(7, np.float32)}}))]
    with pytest.raises(RunFailed, match="client 0, task 10: leaf 'w' does not have the shape"):
        list(reports(group, ended(group)))


# ---- arrays of any library ----------------------------------------------------------------------------------------


def numpy_stack(trained):
    """The same stack as a kernel without torch would return it."""
    arrays = {n: v.numpy() for n, v in trained.end.items()}
    memory = {slot: {n: v.numpy() for n, v in tree.items()} for slot, tree in trained.carry.memory.items()}
    start = {n: v.numpy() for n, v in trained.start.items()}
    return TrainedStack(NUMPY, start, arrays, trained.tallies, Carry(memory, {}))


@pytest.mark.parametrize("up", [None, topk(share=0.5), int8(), gzip()], ids=["plain", "topk", "int8", "gzip"])
def test_numpy_stacks_give_the_reports_of_tensor_stacks(up):
    """Everything around training on arrays of numpy: parts kept at home, slots, the codec, error feedback, statistics."""
    local = replace(
        PLAIN,
        keep=lambda name: name == "head",
        slots=(Slot("control", lambda model: {"c": np.full(2, 3.0, np.float32)}),),
        up=up,
        feedback=up is not None,
    )
    owed = {"w": np.array([0.25, 5.0, 0.0], np.float32), "head": np.array([0.0, 0.5], np.float32)}
    group = [prepare_job(job(local, memory={"feedback": owed})), prepare_job(job(local, client=1, rows=3))]
    trained = ended(group, moved=0.3)
    for one, other in zip(reports(group, trained), reports(group, numpy_stack(trained)), strict=True):
        assert (one.task, one.client, one.weight, one.bytes_up) == (
            other.task,
            other.client,
            other.weight,
            other.bytes_up,
        )
        assert same(one.update, other.update) and same(one.memory, other.memory)
        assert other.stats == pytest.approx(one.stats, rel=1e-6)


@pytest.mark.parametrize("up", [topk(share=0.5), int8()], ids=["topk", "int8"])
def test_the_bytes_of_a_device_arrive_as_in_a_simulation(up):
    """Two rounds of one client with error feedback: the encoded bytes decode to the simulated update, and as much is owed."""
    local = replace(PLAIN, up=up, feedback=True)
    plain = replace(local, up=None, feedback=False)
    memory = {}
    for moved in (0.3, 0.7):
        one = job(local, memory=memory)
        (simulated,) = reports([prepare_job(one)], ended([prepare_job(one)], moved=moved))
        (trained,) = reports([prepare_job(replace(one, local=plain))], ended([prepare_job(one)], moved=moved))
        payload, memory = encode_update(local, one, trained)
        assert same(decode_bytes(up, payload, trained.update), simulated.update)
        assert same(memory, simulated.memory)


def test_the_clients_half_needs_no_torch():
    """Prepared, reported, encoded, tuned with arrays of numpy alone, in a process where torch cannot be imported."""
    code = """
        import sys
        sys.modules["torch"] = None
        import numpy as np
        from fedfleet.core.parts import Algorithm, Executor, Job, Offer
        from fedfleet.core.passes import BatchPlan, LocalPass, Optimiser
        from fedfleet.executors import gather, worker_jobs
        from fedfleet.executors.array_library import NUMPY
        from fedfleet.executors.client_half import Tallies, TrainedStack, batches, encode_update, prepare_job, reports
        from fedfleet.executors.personal_model import tune_models, tuning_job
        from fedfleet.learn.codecs.lossless import gzip

        half = LocalPass(Optimiser(None, None), BatchPlan(2, 1), keep=lambda n: n == "head", up=gzip(), feedback=True)

        def train(jobs):
            for job in jobs:
                ready = prepare_job(job)
                start = {n: v[None] for n, v in ready.start.items()}
                end = {n: v + np.float32(1) for n, v in start.items()}
                steps = [len(rows) for rows in batches(half.batches, job)]
                assert steps == [2, 2, 1]
                tallies = Tallies(*(np.array([v], float) for v in (1.0, 1.0, sum(steps), len(steps))))
                yield from reports([ready], TrainedStack(NUMPY, start, end, tallies))

        model = {"w": np.zeros(3, np.float32), "head": np.zeros(2, np.float32)}
        job = Job(1, 0, 5, 7, Offer(model), half, np.arange(5))
        (report,) = train([job])
        assert report.update["w"].tolist() == [1, 1, 1] and report.memory["kept"]["head"].tolist() == [1, 1]
        assert report.bytes_up > 0 and encode_update(half, job, report)[0]
        algorithm = Algorithm("toy", None, None, None, None, None, tune=lambda client: half)
        job = tuning_job(algorithm, 0, 5, 7, model, np.arange(5))
        (tuned,) = tune_models(Executor("toy", train, None), [model], [job])
        assert job.task == -1 and tuned["w"].tolist() == [1, 1, 1]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
