"""Compression around any algorithm: what goes up or down travels through codecs, and costs what is really sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedfleet.core.codec import Codec
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Algorithm, Offer
from fedfleet.core.passes import LocalPass
from fedfleet.core.records import Assignments, Cost, Ints, ServerState, Settings
from fedfleet.core.trees import Tree, content_hash, tree_nbytes
from fedfleet.learn.codecs.chain import chain
from fedfleet.learn.codecs.messages import decode, encode, encode_bytes, expected_nbytes, nbytes
from fedfleet.learn.composition import with_pass

EXTRA = "extra|"  # what goes down alongside the model; no module can name a parameter so
_VERSIONS = 4  # models whose decoded form is kept: asynchronous tasks still train from older ones


def with_compression(
    algorithm: Algorithm, *, up: Sequence[Codec] = (), down: Sequence[Codec] = (), feedback: bool = False
) -> Algorithm:
    """The algorithm whose updates go up, and whose models go down, through these codecs.

    Up, the update u becomes D(E(u)) after all hooks; with `feedback` it is D(E(u + r)), and the client keeps
    r <- u + r - D(E(u + r)) for the next time (Seide et al. 2014; Karimireddy et al. 2019). Down, clients train from
    D(E(model)), and their update is the difference from that. Bytes are those that really travel; where they depend on values,
    a simulation trains first.

    >>> from fedfleet.learn.codecs.quantisation import int8
    >>> from fedfleet.learn.zoo import fedavg
    >>> server, asked = ServerState({"w": np.zeros((100, 100), np.float32)}), Assignments(np.array([0]), np.array([0]), np.ones(1))
    >>> bool(cost_of(with_compression(fedavg(), up=[int8()]), server, asked, np.array([20])).bytes_up[0] < 0.27 * 40_000)
    True
    """
    up_codec, down_codec = chain(up, "up"), chain(down, "down")
    if feedback and up_codec is None:
        raise BadInput(
            'feedback = true sends later what "up" loses, but this "up" loses nothing; add up = ["int4"], or leave feedback out'
        )
    if up_codec is not None and algorithm.priced_by_value:
        raise BadInput(
            f"up: {algorithm.name!r} already makes its updates small, and a codec would send the whole matrices again; "
            "leave up out (down may stay)"
        )
    if up_codec is not None and algorithm.accept is not None and not algorithm.fold.streams:
        raise BadInput(
            f"up: {algorithm.name!r} reads whole reports in a way of its own, so no codec can go around it; leave up out"
        )
    changed = with_pass(
        algorithm, "what it sends and gets cannot be encoded", lambda p: replace(p, up=up_codec, down=down_codec, feedback=feedback)
    )
    if down_codec is not None:
        changed = replace(changed, offer=_offer(algorithm, down_codec))
    if up_codec is None:
        return changed
    # Whoever has a price of its own may send less than the fold takes: only the reports themselves know then.
    by_value = changed.priced_by_value or not up_codec.sized or algorithm.cost is not None

    def cost(server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
        plain, like = cost_of(changed, server, assignments, samples), algorithm.fold.like(server)
        whole = float(tree_nbytes(like))
        if not whole:
            return plain
        # An update that is smaller than the whole takes as much less.
        encoded = expected_nbytes(up_codec, like)
        return replace(plain, bytes_up=np.where(plain.bytes_up == whole, encoded, plain.bytes_up * (encoded / whole)))

    return replace(changed, cost=cost, priced_by_value=by_value)


def _offer(algorithm: Algorithm, codec: Codec) -> Any:
    """What arrives of an offer; made once for each model, so that a cohort still begins with one and the same."""
    known: dict[tuple[Any, ...], tuple[Offer, Offer]] = {}

    def offer(server: ServerState, client: int, settings: Settings) -> Offer:
        inner, local = algorithm.offer(server, client, settings), algorithm.local(client, settings)
        keep = local.keep if isinstance(local, LocalPass) else None
        key = (*map(id, inner.params.values()), *map(id, inner.extra.values()), keep)
        if key not in known:
            while len(known) >= _VERSIONS:
                del known[next(iter(known))]
            known[key] = (inner, _decoded_offer(inner, codec, keep))  # the offer is held too, so that no other can take its ids
        return known[key][1]

    return offer


def _decoded_offer(inner: Offer, codec: Codec, keep: Any) -> Offer:
    tree = offer_tree(inner, keep)
    address = int.from_bytes(bytes.fromhex(content_hash(tree)[:16]), "little", signed=True) if codec.addressed else 0
    size = nbytes(codec, tree)

    def encode_offer() -> bytes:
        return encode_bytes(codec, tree, address)

    if size is None:
        size = float(len(encode_offer()))
    if codec.squeeze is None:
        return Offer(inner.params, inner.extra, size, encode_offer)
    decoded = decode(codec, encode(codec, tree, address), tree)
    params = {n: decoded.get(n, v) for n, v in inner.params.items()}
    return Offer(params, {n: decoded[EXTRA + n] for n in inner.extra}, size, encode_offer)


def offer_tree(offer: Offer, keep: Any = None) -> Tree:
    """What goes down as one tree: the model without what stays at home, and what else is offered, behind a mark."""
    model = {n: v for n, v in offer.params.items() if keep is None or not keep(n)}
    return model | {EXTRA + n: v for n, v in offer.extra.items()}
