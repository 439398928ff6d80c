"""Samples that change device: what one device of a person gives to the others, and what it got from them.

A sample is named by its row of the task's dataset, whichever device holds it. What a device got lies in its store, whole and with
a checksum; it trains on these very bytes. A sample that its tasks do not name any more is removed, one task later: a turn whose
report the server did not fold is planned again from where the samples lay before.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.records import Ints
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.core.trees import Tree
from fedfleet.network.device.client_runtime import ClientRuntime
from fedfleet.network.device.device_store import DeviceStore

_IDS, _X, _Y, _HELD = "ids", "x", "y", "held"  # in the file: rows of samples, inputs, labels; rows of the last task


def pack_samples(ids: Ints, tree: Tree) -> bytes:
    """Samples as they travel."""
    return pack_tree({_IDS: ids.astype(np.int64), _X: tree[_X], _Y: tree[_Y]})


def unpack_samples(data: bytes, ids: Ints) -> Tree:
    """Samples as they came, in the order of `ids`; `Refused` if they are not these, or not whole."""
    tree = unpack_tree(data)
    if tree.keys() != {_IDS, _X, _Y} or tree[_IDS].dtype != np.int64 or not np.array_equal(tree[_IDS], ids):
        raise Refused("these are other samples than those that were asked for")
    if not len(tree[_X]) == len(tree[_Y]) == len(ids):
        raise Refused("the samples are not whole")
    return tree


def give_samples(runtime: ClientRuntime, store: DeviceStore, rows: Ints) -> bytes:
    """The samples of these rows, for other devices of the same person."""
    held, at = _with_received(runtime, store, rows)
    data = held.task.dataset
    return pack_samples(rows, {_X: data.x[at], _Y: data.y[at]})


def receive_samples(runtime: ClientRuntime, store: DeviceStore, data: bytes) -> None:
    """Keep samples that came. They are on the disk when this returns; the same ones may come again."""
    came, kept, dataset = unpack_tree(data), _received_samples(store), runtime.task.dataset
    if came.keys() != {_IDS, _X, _Y} or not len(came[_IDS]) == len(came[_X]) == len(came[_Y]):
        raise Refused("the samples that came are not whole")
    for leaf, own in ((came[_X], dataset.x), (came[_Y], dataset.y)):
        if leaf.dtype != own.dtype or leaf.shape[1:] != own.shape[1:]:
            raise Refused(f"the samples that came have the shape {leaf.shape[1:]}, and those of this device {own.shape[1:]}")
    if not kept:
        merged = came
    else:
        older = ~np.isin(kept[_IDS], came[_IDS])
        merged = {name: np.concatenate([kept[name][older], came[name]]) for name in (_IDS, _X, _Y)}
    store.keep_samples(pack_tree({**merged, _HELD: kept.get(_HELD, np.zeros(0, np.int64))}))


def with_samples_of(runtime: ClientRuntime, store: DeviceStore, rows: Ints) -> tuple[ClientRuntime, Ints]:
    """The runtime that holds the samples of a training task, and where its rows lie there; what no task names any more goes."""
    result = _with_received(runtime, store, rows)
    kept = _received_samples(store)
    if kept:
        named = np.isin(kept[_IDS], np.concatenate([rows, kept[_HELD]]))
        remaining = {name: kept[name][named] for name in (_IDS, _X, _Y)}
        if not named.all() or not np.array_equal(kept[_HELD], rows):
            store.keep_samples(pack_tree({**remaining, _HELD: rows.astype(np.int64)}))
    return result


def _with_received(runtime: ClientRuntime, store: DeviceStore, rows: Ints) -> tuple[ClientRuntime, Ints]:
    """The runtime with the samples that came behind its own, and where these rows lie in it."""
    own = np.isin(rows, runtime.train)
    if own.all():
        return runtime, rows
    kept, data = _received_samples(store), runtime.task.dataset
    place = {row: len(data.y) + n for n, row in enumerate(kept[_IDS].tolist())} if kept else {}
    missing = [row for row in rows[~own].tolist() if row not in place]
    if missing:
        raise RunFailed(f"this device does not hold {len(missing)} of the {len(rows)} samples that its task names")
    if runtime.make_executor is None:
        raise RunFailed("this device cannot train on samples of other devices")
    both = replace(data, x=np.concatenate([data.x, kept[_X]]), y=np.concatenate([data.y, kept[_Y]]))
    task = replace(runtime.task, dataset=both)
    at = np.array([row if mine else place[row] for row, mine in zip(rows.tolist(), own.tolist(), strict=True)], np.int64)
    return replace(runtime, task=task, execute=runtime.make_executor(task)), at


def _received_samples(store: DeviceStore) -> Tree:
    data = store.samples()
    return {} if data is None else unpack_tree(data)
