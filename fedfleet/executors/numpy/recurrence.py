"""Recurrent layers: LSTM and GRU, forward in time and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedfleet.core.trees import Array
from fedfleet.executors.numpy.operations import ForwardPass, Operation, Result, sigmoid

# (x [batch, places, inputs], weights of one layer) -> the states [batch, places, hidden], and (gradient) -> those of x and weights.
Layer = Callable[[Array, Sequence[Array]], tuple[Array, Callable[[Array], tuple[Array, list[Array]]]]]


def _deep(layer: Layer) -> Operation:
    """Several such layers, one on the states of the other."""

    def operation(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
        del needs, now
        x, weights, backs = inputs[0], inputs[1:], []
        count = 4 if settings["biased"] else 2
        for number in range(settings["layers"]):
            x, back = layer(x, weights[count * number : count * (number + 1)])
            backs.append(back)

        def backward(gradient: Array) -> list[Array]:
            found: list[Array] = []
            for back in reversed(backs):
                gradient, of_weights = back(gradient)
                found = of_weights + found
            return [gradient, *found]

        return x, backward

    return operation


def _lstm_layer(x: Array, weights: Sequence[Array]) -> tuple[Array, Any]:
    """Gates in PyTorch's order: input, forget, cell, output."""
    inner, across = weights[:2]
    batch, places, hidden = x.shape[0], x.shape[1], across.shape[1]
    driven = x @ inner.T
    for bias in weights[2:]:
        driven += bias
    states, cells = np.zeros((places + 1, batch, hidden), x.dtype), np.zeros((places + 1, batch, hidden), x.dtype)
    gates, squashed = np.empty((places, batch, 4 * hidden), x.dtype), np.empty((places, batch, hidden), x.dtype)
    for t in range(places):
        gate = driven[:, t] + states[t] @ across.T
        gate[:, : 2 * hidden] = sigmoid(gate[:, : 2 * hidden])
        gate[:, 2 * hidden : 3 * hidden] = np.tanh(gate[:, 2 * hidden : 3 * hidden])
        gate[:, 3 * hidden :] = sigmoid(gate[:, 3 * hidden :])
        entry, forget, cell, out = np.split(gate, 4, axis=1)
        cells[t + 1] = forget * cells[t] + entry * cell
        squashed[t] = np.tanh(cells[t + 1])
        states[t + 1] = out * squashed[t]
        gates[t] = gate

    def backward(gradient: Array) -> tuple[Array, list[Array]]:
        of_gates = np.empty_like(gates)
        of_state, of_cell = np.zeros((batch, hidden), x.dtype), np.zeros((batch, hidden), x.dtype)
        for t in reversed(range(places)):
            entry, forget, cell, out = np.split(gates[t], 4, axis=1)
            of_state = of_state + gradient[:, t]
            of_cell = of_cell + of_state * out * (1 - squashed[t] * squashed[t])
            part = of_gates[t]
            part[:, :hidden] = of_cell * cell * entry * (1 - entry)
            part[:, hidden : 2 * hidden] = of_cell * cells[t] * forget * (1 - forget)
            part[:, 2 * hidden : 3 * hidden] = of_cell * entry * (1 - cell * cell)
            part[:, 3 * hidden :] = of_state * squashed[t] * out * (1 - out)
            of_cell = of_cell * forget
            of_state = part @ across
        flat = of_gates.reshape(-1, 4 * hidden)
        by_place = np.ascontiguousarray(x.transpose(1, 0, 2)).reshape(-1, x.shape[2])
        of_weights = [flat.T @ by_place, flat.T @ states[:-1].reshape(-1, hidden), *([flat.sum(0)] * len(weights[2:]))]
        return (of_gates @ inner).transpose(1, 0, 2), of_weights

    return states[1:].transpose(1, 0, 2), backward


def _gru_layer(x: Array, weights: Sequence[Array]) -> tuple[Array, Any]:
    """Gates in PyTorch's order: reset, update, new; the bias of the recurrence belongs inside the reset."""
    inner, across = weights[:2]
    batch, places, hidden = x.shape[0], x.shape[1], across.shape[1]
    bias_in, bias_across = weights[2:] if len(weights) == 4 else (x.dtype.type(0), x.dtype.type(0))
    driven = x @ inner.T + bias_in
    states = np.zeros((places + 1, batch, hidden), x.dtype)
    kept: list[tuple[Array, Array, Array, Array]] = []
    for t in range(places):
        recurrent = states[t] @ across.T + bias_across
        both = sigmoid(driven[:, t, : 2 * hidden] + recurrent[:, : 2 * hidden])
        reset, update, inside = both[:, :hidden], both[:, hidden:], recurrent[:, 2 * hidden :]
        new = np.tanh(driven[:, t, 2 * hidden :] + reset * inside)
        states[t + 1] = new + update * (states[t] - new)
        kept.append((reset, update, new, inside))

    def backward(gradient: Array) -> tuple[Array, list[Array]]:
        of_driven = np.empty((places, batch, 3 * hidden), x.dtype)
        of_recurrent = np.empty_like(of_driven)
        of_state = np.zeros((batch, hidden), x.dtype)
        for t in reversed(range(places)):
            reset, update, new, inside = kept[t]
            of_state = of_state + gradient[:, t]
            of_new = of_state * (1 - update) * (1 - new * new)
            of_reset = of_new * inside * reset * (1 - reset)
            of_update = of_state * (states[t] - new) * update * (1 - update)
            of_driven[t] = np.concatenate([of_reset, of_update, of_new], axis=1)
            of_recurrent[t] = np.concatenate([of_reset, of_update, of_new * reset], axis=1)
            of_state = of_state * update + of_recurrent[t] @ across
        flat, flat_across = of_driven.reshape(-1, 3 * hidden), of_recurrent.reshape(-1, 3 * hidden)
        by_place = np.ascontiguousarray(x.transpose(1, 0, 2)).reshape(-1, x.shape[2])
        of_weights = [flat.T @ by_place, flat_across.T @ states[:-1].reshape(-1, hidden)]
        if len(weights) == 4:
            of_weights += [flat.sum(0), flat_across.sum(0)]
        return (of_driven @ inner).transpose(1, 0, 2), of_weights

    return states[1:].transpose(1, 0, 2), backward


RECURRENCES: dict[str, Operation] = {"lstm": _deep(_lstm_layer), "gru": _deep(_gru_layer)}
