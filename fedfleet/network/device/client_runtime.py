"""What a device trains with, and training: from the bytes of a model to the bytes of a report, exactly as a simulation would."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Algorithm, Executor, Job, Offer, Pass, Task, Trial
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Ints, Score, ServerState, Settings, Slots
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.core.trees import Tree
from fedfleet.executors.client_half import encode_update
from fedfleet.executors.personal_model import personal_model, share_of_rows, tune_models, tuning_job
from fedfleet.learn.compression import offer_tree
from fedfleet.network.protocol.frames import offer_from_bytes


@dataclass(frozen=True, slots=True)
class ClientRuntime:
    """One client's half of a run: the algorithm, the task with this client's samples, and which rows train and test.

    `frozen` is the content hash of the frozen weights that the run is meant with; "": there are none. `make_executor` makes the
    executor for the same task with other samples, such as those that came from other devices of the same person.
    """

    client: int
    key: int
    seed: int
    algorithm: Algorithm
    task: Task
    params: Tree
    train: Ints
    test: Ints
    execute: Executor
    frozen: str = ""
    make_executor: Callable[[Task], Executor] | None = None

    def local_pass(self, settings: Settings = NO_SETTINGS) -> Pass:
        """What this client trains."""
        return self.algorithm.local(self.client, settings)

    def like(self) -> Tree:
        """Names, shapes and types of what its reports hold."""
        return self.algorithm.fold.like(self.algorithm.init(self.params))


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one task asks of a client."""

    task: int
    round: int = 0
    version: int = 0
    steps: int = 0
    share: float = 1.0
    seed: int | None = None
    settings: Settings = field(default_factory=dict[str, float])
    rows: Ints | None = None


@dataclass(frozen=True, slots=True)
class LocalResult:
    """What came of a task: the bytes that go up, and what the client remembers if they are folded (None: nothing new)."""

    payload: bytes
    weight: float
    stats: Mapping[str, float]
    memory: Slots | None


def fresh_noise_key() -> bytes:
    """A key that no one knows and nothing keeps: the noise of one report of this device."""
    return secrets.token_bytes(32)


def train_task(
    runtime: ClientRuntime, assignment: Assignment, model: bytes, memory: Slots, noise_key: bytes | None = None
) -> LocalResult:
    """Do one task's work. What the server sent is `Refused` if it does not fit.

    `noise_key` is that of the noise that the client adds, where it adds any; None: as in a simulation, which a server could repeat.
    """
    half, seed = runtime.local_pass(assignment.settings), runtime.seed if assignment.seed is None else assignment.seed
    coded = half if isinstance(half, LocalPass) and half.up is not None else None
    job = Job(
        assignment.task,
        runtime.client,
        runtime.key,
        seed,
        decode_offer(runtime, assignment, half, model),
        # The codec is applied below, because the bytes themselves are needed and not only what arrives of them.
        half if coded is None else replace(coded, up=None, feedback=False),
        rows_of(runtime, assignment),
        assignment.steps,
        memory,
        assignment.settings,
        assignment.round,
        noise_key=noise_key,
    )
    report = next(iter(runtime.execute.train([job])))
    if coded is None:
        payload, new_memory = pack_tree(report.update) if report.update else b"", report.memory
    else:
        payload, new_memory = encode_update(coded, job, report)
    return LocalResult(payload, report.weight, report.stats, new_memory)


def rows_of(runtime: ClientRuntime, assignment: Assignment) -> Ints:
    """The rows that a task trains on: the first `share` of what this client holds in this round."""
    rows = runtime.train if assignment.rows is None else assignment.rows
    if len(rows) and (int(rows.max()) >= len(runtime.task.dataset.y) or int(rows.min()) < 0):
        raise RunFailed(f"task {assignment.task} asks for rows that the data of this device does not have")
    return share_of_rows(rows, assignment.share)


def decode_offer(runtime: ClientRuntime, assignment: Assignment, half: Pass, model: bytes) -> Offer:
    """What the server sent, decoded where the pass says that it comes in a code; what stays at home begins as in the seed."""
    if not isinstance(half, LocalPass) or half.down is None:
        return offer_from_bytes(model)
    first = runtime.algorithm.offer(server_at_version(runtime, assignment.version), runtime.client, assignment.settings)
    decoded = offer_from_bytes(model, half.down, offer_tree(first, half.keep))
    return Offer({n: decoded.params.get(n, v) for n, v in first.params.items()}, decoded.extra)


def server_at_version(runtime: ClientRuntime, version: int) -> ServerState:
    """A server that has made so many models, as far as that can be known without them: what is offered has its shapes."""
    server = runtime.algorithm.init(runtime.params)
    for _ in range(version if runtime.algorithm.tick is not None else 0):
        assert runtime.algorithm.tick is not None
        server = runtime.algorithm.tick(server)
    return server


def model_of(runtime: ClientRuntime, assignment: Assignment, model: bytes, memory: Slots) -> Tree:
    """The model that this client would use: what the server sent, made its own."""
    received_params = unpack_tree(model) if model else {}  # in a code a method that offers nothing sends no bytes
    if not runtime.params.keys() <= received_params.keys():
        received_params = decode_offer(runtime, assignment, runtime.local_pass(assignment.settings), model).params
    return personal_model(runtime.algorithm, {n: received_params[n] for n in runtime.params}, lambda: memory)


def evaluate_model(runtime: ClientRuntime, assignment: Assignment, model: bytes, memory: Slots) -> Score:
    """The model that this client would use, tuned where the algorithm asks for that, on its own test samples."""
    own = model_of(runtime, assignment, model, memory)
    job = tuning_job(runtime.algorithm, runtime.client, runtime.key, runtime.seed, own, runtime.train)
    (tuned,) = tune_models(runtime.execute, [own], [job])
    return next(iter(runtime.execute.evaluate([Trial(tuned, runtime.test)])))


def probe_model(runtime: ClientRuntime, assignment: Assignment, model: bytes, memory: Slots) -> Score:
    """The model that this client would use on its own training samples."""
    rows = runtime.train if assignment.rows is None else assignment.rows
    return next(iter(runtime.execute.evaluate([Trial(model_of(runtime, assignment, model, memory), rows)])))
