"""Parts in which one fault was planted, as people make them: the check of each kind must catch every one of them.

FAULTS has, by name, the kind of part, a builder, and what the message must say.
"""

import datetime
import random
import time
from dataclasses import replace
from time import monotonic

import numpy as np
import torch

from fedfleet.core.aggregation import Entry
from fedfleet.core.parts import Policy, Selector
from fedfleet.core.passes import Slot
from fedfleet.core.records import NOTHING, Decision, ServerState, whole_work
from fedfleet.core.rng import hash_keys
from fedfleet.core.sources import DeviceSource, EnergySource, StateSource
from fedfleet.learn.codecs.quantisation import fp16
from fedfleet.learn.composition import with_pass
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.folds import mean
from fedfleet.learn.objectives import with_term
from fedfleet.learn.server_optimisers import with_rule
from fedfleet.world.faults import no_faults, no_slowdown

PLAIN = fedavg(lr=0.05, epochs=1)


# ---- server rules -------------------------------------------------------------------------------------------------


def rule(step):
    """The plain algorithm with a step of the server, which remembers nothing where it should."""
    return with_rule(PLAIN, lambda server, mean: ({}, {n: step(n, v) for n, v in mean.items()}))


def global_noise():
    return rule(lambda name, change: change + np.random.normal(0, 0.01, change.shape).astype(np.float32))


def fresh_noise():
    return rule(lambda name, change: change + np.random.default_rng().normal(0, 0.01, change.shape).astype(np.float32))


def torch_noise():
    return rule(lambda name, change: change + 0.01 * torch.randn(change.shape).numpy())


def seeded_noise():
    def step(name, change):
        np.random.seed(0)
        return change + np.random.normal(0, 0.01, change.shape).astype(np.float32)

    return rule(step)


def hidden_momentum():
    velocity = {}

    def step(name, change):
        velocity[name] = 0.9 * velocity.get(name, 0.0) + change
        return velocity[name]

    return rule(step)


def hidden_count():
    calls = []

    def step(name, change):
        calls.append(name)
        return change * (1.0 if len(calls) < 30 else 0.5)

    return rule(step)


def scalar_step():
    return rule(lambda name, change: np.float32(change.mean()))


def row_step():
    def apply(server, aggregate):
        means = {n: v.mean(-1, keepdims=True) for n, v in aggregate.mean.items()}
        return ServerState({n: v + means[n] for n, v in server.params.items()}, server.extra)

    return replace(PLAIN, apply=apply)


def double_precision():
    return rule(lambda name, change: change / max(1.0, np.linalg.norm(change.astype(np.float64))))


def changes_the_mean():
    return rule(lambda name, change: np.multiply(change, np.float32(0.5), out=change))


def changes_the_memory():
    def velocity(server, mean):
        memory = {f"v/{n}": server.extra.get(f"v/{n}", np.zeros_like(v)) for n, v in mean.items()}
        for name, change in mean.items():
            memory[f"v/{name}"] += change
        return memory, mean

    return with_rule(
        replace(PLAIN, init=lambda params: ServerState(params, {f"v/{n}": v * 0 for n, v in params.items()})), velocity
    )


def by_weekday():
    return rule(lambda name, change: change * np.float32(1.0 if datetime.datetime.now().weekday() < 2 else 0.9))


def by_the_hour():
    return rule(lambda name, change: change * np.float32(1.0 / (1 + int(time.time()) // 86400 % 7)))


def keeps_a_number():
    return with_rule(PLAIN, lambda server, mean: ({"count": server.extra.get("count", 0) + 1}, mean))


def divides_by_nothing():
    return rule(lambda name, change: change / np.float32(np.sqrt((change**2).sum())))


# ---- what clients do ----------------------------------------------------------------------------------------------


def noisy_term():
    return with_term(PLAIN, lambda params, start, carried: {n: 0.01 * torch.randn_like(p) for n, p in params.items()})


def jealous_term():
    latest = {}

    def term(params, start, carried):
        pulls = {n: 0.1 * (p - latest.get(n, p)).detach() for n, p in params.items()}
        latest.update({n: p.detach().clone() for n, p in params.items()})
        return pulls

    return with_term(PLAIN, term)


def norm_of_the_stack():
    def term(params, start, carried):
        return {n: (p - start[n]) / (0.01 + (p - start[n]).norm()) for n, p in params.items()}

    return with_term(PLAIN, term)


def not_for_one_sample():
    """The spread of one sample is no number."""

    def objective(forward, params, second, carried, batch):
        outputs = forward(params, batch.x)
        spread = outputs.std(0).mean() if outputs.shape[0] < 3 else 0.0
        return batch.mean(outputs.logsumexp(1) - outputs.gather(1, batch.y[:, None])[:, 0] + 0.1 * spread)

    return with_pass(PLAIN, "", lambda local: replace(local, objective=objective))


def sends_less_than_it_says():
    def halve(passed):
        return replace(passed, update={n: v.half() for n, v in passed.update.items()})

    def accept(server, report, context):
        return replace(report, update={n: v.astype(np.float32) for n, v in report.update.items()})

    return replace(with_pass(PLAIN, "", lambda local: replace(local, after=(halve,))), accept=accept)


def weighs_by_chance():
    def weigh(passed):
        return replace(passed, weight=passed.weight * random.random())

    return with_pass(PLAIN, "", lambda local: replace(local, after=(weigh,)))


def changes_the_offer():
    def offer(server, client, settings):
        server.params[next(iter(server.params))][...] *= np.float32(0.99)
        return PLAIN.offer(server, client, settings)

    return replace(PLAIN, offer=offer)


def memory_by_the_clock():
    def remember(passed):
        stamp = {"at": torch.full((len(passed.weight), 1), float(monotonic()))}
        return replace(passed, memory={**passed.memory, "stamp": stamp})

    slot = Slot("stamp", lambda model: {"at": np.zeros(1, np.float32)})
    return with_pass(PLAIN, "", lambda local: replace(local, slots=(slot,), after=(remember,)))


# ---- folds --------------------------------------------------------------------------------------------------------


def entries_by_turn():
    seen = []

    def enter(weight, stats, context):
        seen.append(context)
        return Entry(weight / len(seen))

    return replace(mean(), enter=enter)


def entries_by_chance():
    return replace(mean(), enter=lambda weight, stats, context: Entry(weight * (0.5 + np.random.random())))


def collects(combine):
    return replace(mean(), combine=lambda pairs: {n: combine([r.update[n] for r, _ in pairs]) for n in pairs[0][0].update})


def folds_to_a_row():
    return collects(lambda leaves: np.mean(leaves, 0, keepdims=True, dtype=np.float32))


def folds_in_double():
    return collects(lambda leaves: np.mean(leaves, 0, dtype=np.float64))


def first_counts_twice():
    return collects(lambda leaves: ((leaves[0] + np.sum(leaves, 0)) / (1 + len(leaves))).astype(np.float32))


def ignores_the_count():
    return collects(lambda leaves: (np.sum(leaves, 0) / 6).astype(np.float32))


def sorts_the_reports():
    def combine(leaves):
        for leaf in leaves:
            leaf.sort(-1)
        return np.median(leaves, 0).astype(np.float32)

    return collects(combine)


# ---- selectors ----------------------------------------------------------------------------------------------------


def selector(pick, **parts):
    return Selector("planted", pick, **parts)


def luck(roster, draw):
    return hash_keys(draw.seed, "planted", roster.keys, draw.round, draw.first)


def lowest_numbers():
    return selector(lambda state, roster, n, draw: whole_work(roster.clients[:n]))


def same_one_twice():
    return selector(lambda state, roster, n, draw: whole_work(np.repeat(roster.clients[np.argsort(luck(roster, draw))], 2)[:n]))


def fewer_than_asked():
    return selector(lambda state, roster, n, draw: whole_work(roster.clients[np.argsort(luck(roster, draw))[: max(1, n - 2)]]))


def whoever_exists():
    return selector(lambda state, roster, n, draw: whole_work(np.arange(n)))


def those_of_last_time():
    last = []

    def pick(state, roster, n, draw):
        now = roster.clients[np.argsort(luck(roster, draw))]
        known = [c for c in (last or now.tolist()) if c in set(roster.clients.tolist())] or now.tolist()
        last[:] = now.tolist()
        return whole_work(np.array(known[:n], np.int64))

    return selector(pick)


def drawn_globally():
    return selector(lambda state, roster, n, draw: whole_work(np.random.permutation(roster.clients)[:n]))


def drawn_by_time():
    def pick(state, roster, n, draw):
        rng = np.random.default_rng(int(time.time()) // 3600)
        return whole_work(rng.permutation(roster.clients)[:n])

    return selector(pick)


def state_of_objects():
    return selector(
        lambda state, roster, n, draw: whole_work(roster.clients[np.argsort(luck(roster, draw))[:n]]),
        initial=lambda clients: {"names": np.array(["a"] * clients, object)},
    )


# ---- policies -----------------------------------------------------------------------------------------------------


def policy(wait):
    """Ask three, and go on after as many seconds as `wait` says."""

    def decide(book):
        if book.asking:
            return NOTHING
        if book.wanted == 0:
            return Decision(ask=3) if book.now >= book.opened_at + 1 else Decision(wake_at=book.opened_at + wait(book))
        if book.running:
            return NOTHING
        return Decision(commit=True) if book.arrived else Decision(abandon="nobody")

    return Policy("planted", decide, 3)


def waits_by_chance():
    return policy(lambda book: 1 + random.random())


def waits_by_the_clock():
    return policy(lambda book: 1.0 + int(time.monotonic()) // 3600 % 5)


def counts_its_calls():
    calls = []

    def wait(book):
        calls.append(book)
        return 1.0 + len(calls) // 40

    return policy(wait)


# ---- codecs, sources ----------------------------------------------------------------------------------------------

# With one way to make a message, into which faults are planted.
HALF = replace(fp16(), squeeze_tree=None, expand_tree=None)


def lies_about_bytes():
    return replace(HALF, name="lies", pack=lambda tree: {**tree, "more": np.zeros(int(abs(tree["dense"]).max() > 0.005))})


def coins():
    def squeeze(stack, where):
        return {n: v + 1e-4 * torch.rand(v.shape) for n, v in HALF.squeeze(stack, where).items()}

    return replace(
        HALF, name="coins", squeeze=squeeze, through=None, within=lambda t: {n: np.full(v.shape, np.inf) for n, v in t.items()}
    )


def remembers_what_it_lost():
    owed = {}

    def squeeze(stack, where):
        target = {n: v + owed.get(n, 0.0) if v.shape[0] == 1 else v for n, v in stack.items()}
        sent = HALF.squeeze(target, where)
        owed.update({n: 0.5 * (v - sent[n].float()) for n, v in target.items() if v.shape[0] == 1})
        return sent

    return replace(
        HALF, name="owes", squeeze=squeeze, through=None, within=lambda t: {n: np.full(v.shape, np.inf) for n, v in t.items()}
    )


def writes_into_updates():
    def squeeze(stack, where):
        return HALF.squeeze({n: v.mul_(0.99) for n, v in stack.items()}, where)

    return replace(HALF, name="writes", squeeze=squeeze)


def seconds_by_chance():
    return DeviceSource(lambda clients, cost, start, tasks: cost.samples + np.random.random(len(clients)), ["toy"] * 30)


def online_by_weekday():
    def online(t):
        return np.full(30, datetime.date.today().weekday() < 3)

    return StateSource(online, lambda clients, start, seconds: start + seconds)


def joules_by_the_clock():
    return EnergySource(
        lambda clients, spent, start: {"joules": sum(spent.values(), 0 * start) * (1 + int(time.time()) // 9999 % 5)}
    )


def faults_by_chance():
    from fedfleet.core.sources import FaultSource

    def draw(clients, start, ends, tasks):
        return no_faults(len(clients), late=np.random.exponential(5.0, len(clients)))

    return FaultSource(no_slowdown, draw)


def dealt_by_chance():
    from fedfleet.world.partitions import iid

    def recipe(*arguments, **options):
        shards = iid()(*arguments, **options)
        return [shards[i] for i in np.random.permutation(len(shards))]

    return recipe


FAULTS = {
    "a rule with noise of numpy's global generator": ("algorithm", global_noise, "global generator of numpy|when asked again"),
    "a rule with noise of a fresh generator": ("algorithm", fresh_noise, "when asked again"),
    "a rule with noise of torch's global generator": ("algorithm", torch_noise, "global generator of torch|when asked again"),
    "a rule that seeds the global generator": ("algorithm", seeded_noise, "global generator of numpy"),
    "momentum that the rule keeps to itself": ("algorithm", hidden_momentum, "when asked again"),
    "a rule that counts its calls": ("algorithm", hidden_count, "from a saved state"),
    "a step that is one number for a leaf": ("algorithm", scalar_step, "one number for each element"),
    "a step that is one number for a row": ("algorithm", row_step, "was broadcast"),
    "a model that becomes double": ("algorithm", double_precision, "float64"),
    "a rule that writes into the mean": ("algorithm", changes_the_mean, "must not change the aggregate"),
    "a rule that writes into its memory": ("algorithm", changes_the_memory, "must not change the state"),
    "a rule that goes by the weekday": ("algorithm", by_weekday, "no clock|at any time"),
    "a rule that goes by the hour": ("algorithm", by_the_hour, "no clock|at any time"),
    "a rule that remembers a plain number": ("algorithm", keeps_a_number, "must be an array"),
    "a rule that divides by a norm of zero": ("algorithm", divides_by_nothing, "must be finite"),
    "a term with global noise": ("algorithm", noisy_term, "who trains before it, nor on chance"),
    "a term that remembers the client before": ("algorithm", jealous_term, "who trains before it"),
    "a term with the norm of all clients together": ("algorithm", norm_of_the_stack, "leading axis of clients"),
    "an objective that is no number for one sample": ("algorithm", not_for_one_sample, "of 1 samples|finite"),
    "an update smaller than its cost says": ("algorithm", sends_less_than_it_says, "bytes_up must be what is sent"),
    "a weight by chance": ("algorithm", weighs_by_chance, "weight, statistics and memory"),
    "an offer that changes the model": ("algorithm", changes_the_offer, "offer"),
    "memory with the time in it": ("algorithm", memory_by_the_clock, "weight, statistics and memory"),
    "entries by who came before": ("fold", entries_by_turn, "order of arrival"),
    "entries by chance": ("fold", entries_by_chance, "global generator of numpy"),
    "an aggregate with one more axis": ("fold", folds_to_a_row, "shape"),
    "an aggregate in double precision": ("fold", folds_in_double, "must be float32"),
    "a fold in which the first report counts twice": ("fold", first_counts_twice, "goes by their places"),
    "a fold that ignores how many reports there are": ("fold", ignores_the_count, "twice as many equal reports"),
    "a fold that sorts what it is given": ("fold", sorts_the_reports, "must not change the reports"),
    "always the lowest numbers": ("selector", lowest_numbers, "numbers of clients"),
    "the same client twice": ("selector", same_one_twice, "twice"),
    "fewer than asked for": ("selector", fewer_than_asked, "as many as are wanted"),
    "clients that are offline": ("selector", whoever_exists, "not on the roster"),
    "the roster of last time": ("selector", those_of_last_time, "same state, roster and address"),
    "a global draw": ("selector", drawn_globally, "global generator of numpy"),
    "a draw by the clock": ("selector", drawn_by_time, "at any time"),
    "a state of objects": ("selector", state_of_objects, "must hold numbers"),
    "a policy that waits by chance": ("policy", waits_by_chance, "same book must give the same decision"),
    "a policy that reads the clock": ("policy", waits_by_the_clock, "same book must give the same decision"),
    "a policy that counts its calls": ("policy", counts_its_calls, "same book must give the same decision"),
    "a codec whose size lies": ("codec", lies_about_bytes, "another number of bytes"),
    "a codec that throws coins": ("codec", coins, "same bytes|global generator of torch"),
    "a codec that remembers what it lost": ("codec", remembers_what_it_lost, "same bytes|must agree"),
    "a codec that writes into updates": ("codec", writes_into_updates, "what it is given|another|promise|must"),
    "devices by chance": ("devices", seconds_by_chance, "asked twice"),
    "states by weekday": ("states", online_by_weekday, "answers differently"),
    "energy by the clock": ("energy", joules_by_the_clock, "asked twice"),
    "faults by chance": ("faults", faults_by_chance, "asked twice"),
    "data dealt by chance": ("partition", dealt_by_chance, "same seed must deal the same"),
}  # fmt: skip
