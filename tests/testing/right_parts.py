"""Parts that are right, with all that a part may legitimately remember and draw: every check must let them pass.

RIGHT has, by name, the kind of part, a builder, and the tables of a spec that uses it under the name "own".
"""

from dataclasses import replace

import numpy as np

from fedfleet.core.aggregation import Entry
from fedfleet.core.codec import Codec
from fedfleet.core.parts import Algorithm, Policy, Selector
from fedfleet.core.passes import ProximalTerm, Slot, zeros_like
from fedfleet.core.records import NOTHING, Decision, ServerState, whole_work
from fedfleet.core.rng import hash_keys, stream, uniforms
from fedfleet.core.sources import DeviceSource, EnergySource, FaultSource
from fedfleet.core.stages import COMPUTE
from fedfleet.learn.composition import with_extra, with_pass
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.folds import mean
from fedfleet.learn.objectives import with_term
from fedfleet.learn.server_optimisers import with_rule
from fedfleet.learn.staleness import with_damping
from fedfleet.world.faults import no_faults, no_slowdown

PLAIN = fedavg(lr=0.05, epochs=1)


# ---- server rules -------------------------------------------------------------------------------------------------


def clipped_momentum() -> Algorithm:
    def rule(server, mean):
        velocity = {n: 0.9 * server.extra.get(f"velocity/{n}", np.zeros_like(v)) + v for n, v in mean.items()}
        norm = float(np.sqrt(sum(float((v.astype(np.float64) ** 2).sum()) for v in velocity.values())))
        velocity = {n: min(1.0, 1.0 / max(norm, 1e-9)) * v for n, v in velocity.items()}
        return {f"velocity/{n}": v for n, v in velocity.items()}, {n: 0.3 * v for n, v in velocity.items()}

    return with_rule(PLAIN, rule)


def cooling_rate() -> Algorithm:
    def rule(server, mean):
        count = server.extra.get("count", np.zeros((), np.int64)) + 1
        return {"count": np.asarray(count)}, {n: float(count) ** -0.5 * v for n, v in mean.items()}

    return with_rule(PLAIN, rule)


def addressed_noise() -> Algorithm:
    def rule(server, mean):
        count = np.asarray(server.extra.get("count", np.zeros((), np.int64)) + 1)
        noise = {n: stream(3, f"noise {n}", int(count)).normal(0, 1e-3, v.shape).astype(np.float32) for n, v in mean.items()}
        return {"count": count}, {n: v + noise[n] for n, v in mean.items()}

    return with_rule(PLAIN, rule)


def sign_steps() -> Algorithm:
    return with_rule(PLAIN, lambda server, mean: ({}, {n: np.float32(0.01) * np.sign(v) for n, v in mean.items()}))


def averaged_model() -> Algorithm:
    """A slow copy of the model beside it, made by the algorithm's own `init` and `apply`."""

    def init(params):
        return ServerState(params, {f"slow/{n}": v.copy() for n, v in params.items()})

    def apply(server, aggregate):
        params = {n: v + aggregate.mean[n] for n, v in server.params.items()}
        slow = {f"slow/{n}": (0.9 * server.extra[f"slow/{n}"] + 0.1 * v).astype(np.float32) for n, v in params.items()}
        return ServerState(params, slow)

    return replace(PLAIN, init=init, apply=apply)


def remembered_work() -> Algorithm:
    """A cache of what is computed again and again: hidden, and without any influence."""
    cache = {}

    def rule(server, mean):
        for name, value in mean.items():
            cache.setdefault((name, value.shape), np.full(value.shape, 0.5, np.float32))
        return {}, {n: cache[n, v.shape] * v for n, v in mean.items()}

    return with_rule(PLAIN, rule)


# ---- clients ------------------------------------------------------------------------------------------------------


def small_weights() -> Algorithm:
    return with_term(PLAIN, _shrink)


def _shrink(params, start, carried):
    return {n: 1e-3 * p.sign() for n, p in params.items()}


def pulled_back() -> Algorithm:
    return with_term(PLAIN, ProximalTerm(0.3))


def bounded_pull() -> Algorithm:
    """A pull of bounded length, client by client: the norm leaves the axis of the stack out."""
    return with_term(PLAIN, _bounded)


def _bounded(params, start, carried):
    pulls = {}
    for name, p in params.items():
        away = p - start[name]
        own = tuple(range(away.dim() - _axes(name), away.dim()))
        pulls[name] = 0.1 * away / (0.1 + away.square().sum(own, keepdim=True).sqrt())
    return pulls


def _axes(name):
    return 1 if name.endswith("bias") else 2


def label_smoothing() -> Algorithm:
    return with_pass(PLAIN, "", lambda local: replace(local, objective=_smoothed))


def _smoothed(forward, params, second, carried, batch):
    logs = forward(params, batch.x).log_softmax(1)
    return batch.mean(-0.9 * logs.gather(1, batch.y.unsqueeze(1)).squeeze(1) - 0.1 * logs.mean(1))


def logit_penalty() -> Algorithm:
    """The client's outputs stay near those of the model that it was offered, which comes down a second time."""
    return with_extra(
        with_pass(PLAIN, "", lambda local: replace(local, objective=_near_the_offer)),
        lambda server: {f"offer/{n}": v for n, v in server.params.items()},
    )


def _near_the_offer(forward, params, second, carried, batch):
    outputs = forward(params, batch.x)
    offered = forward({n.removeprefix("offer/"): v for n, v in carried.given.items()}, batch.x).detach()
    own = outputs.logsumexp(1) - outputs.gather(1, batch.y.unsqueeze(1)).squeeze(1)
    return batch.mean(own + 0.1 * (outputs - offered).square().mean(1))


def client_momentum() -> Algorithm:
    """Memory of the clients: each sends its update and half of the last one."""
    slot = Slot("last", zeros_like)
    return with_pass(PLAIN, "", lambda local: replace(local, slots=(slot,), after=(_add_last,)))


def _add_last(passed):
    update = {n: v + 0.5 * passed.memory["last"][n] for n, v in passed.update.items()}
    return replace(passed, update=update, memory={**passed.memory, "last": dict(passed.update)})


# ---- folds --------------------------------------------------------------------------------------------------------


def own_median():
    def combine(pairs):
        return {n: np.median([r.update[n] for r, _ in pairs], axis=0).astype(np.float32) for n in pairs[0][0].update}

    return replace(mean(), combine=combine)


def weighed_by_square():
    """A weighted mean of one's own: weights are squared."""

    def combine(pairs):
        total = sum(r.weight**2 for r, _ in pairs)
        names = pairs[0][0].update
        return {
            n: np.asarray(sum(r.weight**2 * r.update[n].astype(np.float64) for r, _ in pairs) / total, np.float32) for n in names
        }

    return replace(mean(), combine=combine)


def entered_by_loss():
    return replace(mean(), enter=lambda weight, stats, context: Entry(weight / (1.0 + stats.get("loss", 0.0))))


def with_own_fold(fold):
    return lambda: replace(PLAIN, fold=fold())


# ---- selectors ----------------------------------------------------------------------------------------------------


def luck(roster, draw):
    return hash_keys(draw.seed, "own", roster.keys, draw.round, draw.first)


def lottery() -> Selector:
    return Selector("own", lambda state, roster, n, draw: _best(roster, luck(roster, draw), n), equal_chance=True)


def _best(roster, *columns_and_n):
    *columns, n = columns_and_n
    return whole_work(roster.clients[np.lexsort(columns)[:n]])


def rested() -> Selector:
    def learn(state, ended, now):
        return {"asked": state["asked"] + np.bincount(ended.clients, minlength=len(state["asked"]))}

    def pick(state, roster, n, draw):
        return _best(roster, luck(roster, draw), state["asked"][roster.clients], n)

    return Selector("own", pick, learn, initial=lambda clients: {"asked": np.zeros(clients, np.int64)})


def highest_loss() -> Selector:
    def learn(state, ended, now):
        loss = state["loss"].copy()
        folded = ended.fate == 0
        loss[ended.clients[folded]] = ended.stats["loss"][folded] if "loss" in ended.stats else 1.0
        return {"loss": loss}

    def pick(state, roster, n, draw):
        return _best(roster, luck(roster, draw), -state["loss"][roster.clients], n)

    return Selector("own", pick, learn, initial=lambda clients: {"loss": np.full(clients, np.inf)}, by_reports=True)


def looked_at_first() -> Selector:
    def probe(state, roster, n, draw):
        return np.sort(roster.clients[np.argsort(luck(roster, draw))[: 2 * n]]), "loss"

    def pick(state, roster, n, draw):
        return _best(roster, luck(roster, draw), -np.nan_to_num(roster.stats["loss"], nan=-1.0), n)

    return Selector("own", pick, probe=probe, by_reports=True)


def of_the_first_half() -> Selector:
    def pick(state, roster, n, draw):
        return _best(roster, luck(roster, draw), roster.clients >= 20, n)

    return Selector("own", pick, members=np.arange(50))


# ---- policies -----------------------------------------------------------------------------------------------------


def all_of_them() -> Policy:
    def decide(book):
        if book.asking:
            return NOTHING
        if book.wanted == 0:
            return Decision(ask=3) if book.now >= book.opened_at + 1 else Decision(wake_at=book.opened_at + 1)
        if book.running:
            return Decision(wake_at=book.sent_at + 200.0) if book.now < book.sent_at + 200.0 else _end(book, drop=0)
        return _end(book)

    return Policy("own", decide, 3)


def _end(book, drop=None):
    return Decision(commit=True, drop=drop) if book.arrived else Decision(abandon="nobody reported", drop=drop)


def longer_and_longer() -> Policy:
    """A pause that grows with every round, remembered in the book."""

    def decide(book):
        pause = book.kept[0]
        if book.asking:
            return NOTHING
        if book.wanted == 0:
            ready = book.now >= book.opened_at + pause
            return Decision(ask=3, keep=(min(pause + 1.0, 9.0),)) if ready else Decision(wake_at=book.opened_at + pause)
        if book.running:
            return Decision(wake_at=book.sent_at + 200.0) if book.now < book.sent_at + 200.0 else _end(book, drop=0)
        return _end(book)

    return Policy("own", decide, 3, initial=(1.0,))


# ---- codecs, sources ----------------------------------------------------------------------------------------------


def signs() -> Codec:
    def squeeze(stack, where):
        import torch

        result = {}
        for name, value in stack.items():
            flat = value.reshape(len(value), -1) if value[0].numel() else value.new_zeros((len(value), 1))
            result[f"{name}|mean"] = torch.stack([row.double().abs().mean().float() for row in flat])
            result[name] = value.sign().nan_to_num(0.0).to(torch.int8)
        return result

    def expand(stack, like):
        return {n: stack[n].float() * stack[f"{n}|mean"].reshape(-1, *(1,) * leaf.ndim) for n, leaf in like.items()}

    return Codec(
        "own", (), "round", lambda tree: {n: abs(v) + abs(v).max(initial=0.0) for n, v in tree.items()},
        squeeze=squeeze, expand=expand,
    )  # fmt: skip


def jittery_devices():
    """Seconds that vary from task to task, by an address."""

    def recipe(keys, seed):
        def seconds(clients, cost, start, tasks):
            return (1.0 + uniforms(seed, "own", keys[clients], tasks)) * (0.1 * cost.samples + 1e-6 * cost.bytes_up)

        return DeviceSource(seconds, ["own"] * len(keys))

    return recipe


def closed_apps():
    def recipe(keys, seed):
        def draw(clients, start, ends, tasks):
            hit = uniforms(seed, "own", keys[clients], tasks) < 0.1
            return no_faults(len(clients), stage=np.where(hit, COMPUTE, -1), noticed=np.ones(len(clients), np.bool_))

        return FaultSource(no_slowdown, draw)

    return recipe


def boards():
    def recipe(devices, keys, seed):
        return EnergySource(lambda clients, spent, start: {"joules": sum((6.0 * took for took in spent.values()), 0.0 * start)})

    return recipe


def algorithm(build):
    return "algorithm", build, {"algorithm": "own"}


def fold(build):
    return "fold", build, {"algorithm": {"use": "fedavg", "epochs": 1, "fold": "own"}}


def selector(build):
    return "selector", build, {"choose": "own"}


RIGHT = {
    "clipped momentum of the server": algorithm(clipped_momentum),
    "a rate that cools with a count": algorithm(cooling_rate),
    "noise with an address": algorithm(addressed_noise),
    "steps of one size": algorithm(sign_steps),
    "a slow copy of the model": algorithm(averaged_model),
    "a cache without influence": algorithm(remembered_work),
    "a term that shrinks weights": algorithm(small_weights),
    "a proximal term": algorithm(pulled_back),
    "a term with a norm for each client": algorithm(bounded_pull),
    "an objective with smoothed labels": algorithm(label_smoothing),
    "a penalty on outputs, from a second offer": algorithm(logit_penalty),
    "clients that remember their last update": algorithm(client_momentum),
    "late reports that count less": algorithm(lambda: with_damping(PLAIN)),
    "an algorithm with a median of its own": algorithm(with_own_fold(own_median)),
    "an algorithm whose weights are squared": algorithm(with_own_fold(weighed_by_square)),
    "an algorithm that weighs by loss": algorithm(with_own_fold(entered_by_loss)),
    "a median": fold(own_median),
    "a mean by squared weights": fold(weighed_by_square),
    "a lottery": selector(lottery),
    "those asked least often": selector(rested),
    "those of the highest loss": selector(highest_loss),
    "a look before the pick": selector(looked_at_first),
    "some members by number": selector(of_the_first_half),
    "a policy that waits for all": ("policy", all_of_them, {"pace": "own"}),
    "a policy that remembers": ("policy", longer_and_longer, {"pace": "own"}),
    "signs": ("codec", signs, {"algorithm": {"use": "fedavg", "epochs": 1, "up": ["own"], "feedback": True}}),
    "devices whose seconds vary": ("devices", jittery_devices, {"world": {"clients": 8, "devices": "own"}}),
    "apps that are closed": ("faults", closed_apps, {"world": {"clients": 8, "faults": "own"}}),
    "boards": ("energy", boards, {"world": {"clients": 8, "energy": "own"}}),
}
