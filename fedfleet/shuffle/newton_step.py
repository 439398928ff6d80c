"""The barrier function of the relaxed problem, and one Newton step on it.

The step goes by structure: diagonal, plus rank one per (class, receiver), plus rank 4V. The Hessian of Phi in T has the
diagonal 1/T^2; per class i and receiver j the curvature of G along x_ij; and, globally, the span of three vectors per device in
x-space (ones, b, rho) and of the V latencies. Each class eliminates its row sums and solves one V x V system; what couples the
classes is one dense 4V x 4V system; t enters by a scalar Schur complement.
A step costs O(c V^3), where a dense one costs O((c V^2)^3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedfleet.shuffle.divergence import LARGEST, Floats, perspective
from fedfleet.shuffle.problem import latencies
from fedfleet.shuffle.problem_batch import RelaxedProblems, price

# ---- barrier function ---------------------------------------------------------------------------------------------
# The barrier function whose minimisers, as mu falls, lead to the relaxed optimum: points, values, the softened time.
#
#     Phi = [psi(SL) + price(t)] / mu - sum_v ln(t N_v - G(x_v)) - sum ln T - sum_v ln(N_v - floor) - ln(t - low) - ln(high - t)
#
# psi is max + std with its own barrier minimised out, so that it has no kinks.

HIGH = LARGEST * 1.05  # t may pass ln 2 a little, so that ln 2 itself lies inside
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Point:
    """Where a path is: plans [B, c, V, V], t [B], and what both the value and the step need of them."""

    plan: Floats
    t: Floats
    x: Floats  # [B, c, V] what each device would hold
    mass: Floats  # [B, V]
    slack: Floats  # [B, V] t N - G, positive inside; 1 for a closed device
    slope: Floats  # [B, c, V] gradient of G
    latency: Floats  # [B, V]


def point_at(stack: RelaxedProblems, plan: Floats, t: Floats) -> Point:
    """The derived quantities of a plan."""
    x, flows = plan.sum(2), plan.sum(1)
    mass = flows.sum(1)
    grown, slope = perspective(x)
    slack = np.where(stack.open, t[:, None] * mass - grown, 1.0)
    return Point(plan, t, x, mass, slack, slope, latencies(flows, stack.effort, stack.links))


@dataclass(frozen=True, slots=True)
class SoftTime:
    """psi at some latencies: its value, the weights p of the max, sigma of the deviation and the centred latencies."""

    value: Floats  # [B]
    p: Floats  # [B, V], sums to 1
    sigma: Floats  # [B]
    centred: Floats  # [B, V]


def soft_time(stack: RelaxedProblems, latency: Floats, mu: Floats) -> SoftTime:
    """min over tau, sigma of tau + sigma - mu sum ln(tau - SL_v) - mu ln(sigma^2 - var).

    tau solves sum mu / (tau - SL) = 1 (Newton on the reciprocal, which is concave: monotone from the left);
    sigma = mu + sqrt(mu^2 + var) in closed form.
    """
    m = mu[:, None]
    gap = latency.max(1, keepdims=True) - latency
    above = m
    for _ in range(4):
        p = m / (gap + above)
        total = p.sum(1, keepdims=True)
        above = above + (total - 1.0) * total * m / (p * p).sum(1, keepdims=True)
    p = m / (gap + above)
    value = (above + latency.max(1, keepdims=True) + m * np.log(p).sum(1, keepdims=True))[:, 0]
    p = p / p.sum(1, keepdims=True)
    centred = latency - latency.mean(1, keepdims=True)
    if not stack.balanced:
        return SoftTime(value, p, np.ones_like(mu), centred)
    sigma = mu + np.sqrt(mu * mu + (centred * centred).mean(1))
    return SoftTime(value + sigma - mu * np.log(2.0 * mu * sigma), p, sigma, centred)


def time_weights(stack: RelaxedProblems, latency: Floats, mu: Floats) -> Floats:
    """y: the gradient of psi, a weight per device with max + std >= y . SL for every latency vector."""
    soft = soft_time(stack, latency, mu)
    if not stack.balanced:
        return soft.p
    return soft.p + soft.centred / (latency.shape[1] * soft.sigma[:, None])


def is_inside(stack: RelaxedProblems, at: Point) -> NDArray[np.bool_]:
    """Whether every barrier of a problem is finite."""
    good = (at.slack > 0.0).all(1) & ((at.mass > stack.floor[:, None]) | ~stack.open).all(1)
    return good & (~np.isnan(stack.pinned) | ((at.t > stack.low) & (at.t < HIGH)))


def barrier_value(stack: RelaxedProblems, at: Point, mu: Floats) -> Floats:
    """Phi of each problem; infinite outside."""
    free = np.isnan(stack.pinned)
    room = np.where(stack.open & (stack.floor[:, None] > 0.0), at.mass - stack.floor[:, None], 1.0)
    below, above = np.where(free, at.t - stack.low, 1.0), np.where(free, HIGH - at.t, 1.0)
    soft = soft_time(stack, at.latency, mu).value + np.where(free, price(stack, at.t)[0], 0.0)
    logs = np.log(np.where(at.plan > 0.0, at.plan, 1.0)).sum((1, 2, 3))
    logs += np.log(np.maximum(at.slack * room, _TINY)).sum(1) + np.log(np.maximum(below * above, _TINY))
    return np.where(is_inside(stack, at), soft / mu - logs, np.inf)


# ---- the step -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewtonStep:
    """A direction: in the plan, in t, and how much Phi falls along it to first order (the decrement)."""

    plan: Floats
    t: Floats
    decrement: Floats


@dataclass(frozen=True, slots=True)
class _Gram:
    """Inner products of the vectors e_j, A_k and -beta/T under the row-projected weight T^2, per class."""

    ee: Floats  # [B, c, V, V]
    ea: Floats
    aa: Floats
    e0: Floats  # [B, c, V]
    a0: Floats
    weight: Floats  # T^2, [B, c, V, V]
    row: Floats  # its row sums, 1 where a row is empty


def newton_step(stack: RelaxedProblems, at: Point, mu: Floats, beta: Floats) -> NewtonStep:
    """The step to the centre of mu (beta = 1), or along the path to beta mu: curvature at mu, the gradient's share of mu scaled."""
    b, c, v = at.x.shape
    q = (at.mass / c + _TINY)[:, None, :]
    both = at.x + q
    fall = -0.5 / both  # b in the notes
    mask = stack.open[:, None, :]
    loose = np.where(mask & (at.x > 0.0), 2.0 * at.x * both * at.slack[:, None, :] / q, 1.0)  # inverse curvature of G
    gram = _gram(stack, at, beta)
    i = np.arange(v)
    system = gram.ee.copy()
    system[..., i, i] += loose
    right = np.concatenate([gram.ee, gram.ea, gram.e0[..., None]], 3)
    solved = np.linalg.solve(system, right).astype(float, copy=False)  # [B, c, V, 2V + 1]
    basis = np.empty((b, 3, c, v))
    basis[:, 0], basis[:, 1], basis[:, 2] = mask, fall * mask, (at.t[:, None, None] - at.slope) * mask
    coupling, offset = _coupling(gram, solved, loose[..., None] * solved, basis)
    middle, gradient, cross = _global(stack, at, mu, beta, fall)
    matrix = np.matmul(middle, coupling)
    matrix[:, np.arange(4 * v), np.arange(4 * v)] += 1.0
    pulled = gradient - np.matmul(middle, offset[..., None])[..., 0]
    eta = _solve(matrix, np.stack([pulled, cross], 2))
    moved = np.matmul(coupling, eta)  # [B, 4V, 2]
    seen = offset + moved[..., 0]
    pull, stiff = (cross * seen).sum(1), (cross * moved[..., 1]).sum(1)
    dt, slope = _step_in_t(stack, at, mu, beta, pull, stiff)
    plan = _expand(stack, at, gram, solved, basis, eta[..., 0] + eta[..., 1] * dt[:, None], beta)
    outer = beta * (plan / np.where(at.plan > 0.0, at.plan, 1.0)).sum((1, 2, 3))
    return NewtonStep(plan, dt, outer + ((seen + moved[..., 1] * dt[:, None]) * gradient).sum(1) - slope * dt)


def _solve(matrix: Floats, right: Floats) -> Floats:
    """The solution of each system; of one that rounding has made singular, the shortest of the nearest."""
    try:
        return np.linalg.solve(matrix, right).astype(float, copy=False)
    except np.linalg.LinAlgError:
        if len(matrix) == 1:
            return np.linalg.pinv(matrix) @ right
        # One by one, so that the others of the stack keep their bits.
        return np.concatenate([_solve(matrix[i : i + 1], right[i : i + 1]) for i in range(len(matrix))])


def _gram(stack: RelaxedProblems, at: Point, beta: Floats) -> _Gram:
    """e_j picks x_j = sum_v T_vj; A_k is device k's latency: W_vj for k = v or j, and the effort of j for k = j."""
    w = stack.links[:, None]
    u = w + stack.effort[:, None, None, :]
    weight = at.plan * at.plan
    row = weight.sum(3)
    row = np.where(row > 0.0, row, 1.0)
    sent, received = weight * w, weight * u
    i = np.arange(w.shape[-1])
    per_row = received.copy()
    per_row[..., i, i] += sent.sum(3)
    scaled = per_row / row[..., None]
    across = np.swapaxes(weight, 2, 3)
    ee = -np.matmul(across, weight / row[..., None])
    ee[..., i, i] = 0.0
    ee[..., i, i] = -ee.sum(3)  # a Laplacian: its diagonal from the off-diagonal, free of cancellation
    ea = np.swapaxes(sent, 2, 3) - np.matmul(across, scaled)
    ea[..., i, i] += received.sum(2)
    both = sent * u
    aa = both + np.swapaxes(both, 2, 3) - np.matmul(np.swapaxes(per_row, 2, 3), scaled)
    aa[..., i, i] += (sent * w).sum(3) + (received * u).sum(2)
    kept = (stack.supply / row)[:, :, None, :]
    toward = beta[:, None, None]
    e0 = toward * (np.matmul(kept, weight)[:, :, 0] - at.x)
    a0 = toward * (np.matmul(kept, per_row)[:, :, 0] - (at.plan * u).sum(2) - (at.plan * w).sum(3))
    return _Gram(ee, ea, aa, e0, a0, weight, row)


def _coupling(gram: _Gram, solved: Floats, reach: Floats, basis: Floats) -> tuple[Floats, Floats]:
    """S = U' B^-1 U over the 4V global vectors and U' B^-1 g0, summed over classes; B is what the classes solve alone."""
    b, _, c, v = basis.shape
    wide = (reach[..., None, :v] * basis.transpose(0, 2, 1, 3)[:, :, None]).reshape(b, c, v, 3 * v)
    wide = np.concatenate([wide, reach[..., v:]], 3)  # [B, c, V, 4V + 1]
    summed = np.matmul(basis.transpose(0, 3, 1, 2), wide.transpose(0, 2, 1, 3))  # [B, V, 3, 4V + 1]
    summed = summed.transpose(0, 2, 1, 3).reshape(b, 3 * v, 4 * v + 1)
    back = np.matmul(np.swapaxes(gram.ea, 2, 3), solved[..., v:]).sum(1)
    coupling = np.empty((b, 4 * v, 4 * v))
    coupling[:, : 3 * v] = summed[..., : 4 * v]
    coupling[:, 3 * v :, : 3 * v] = np.swapaxes(summed[..., 3 * v : 4 * v], 1, 2)
    coupling[:, 3 * v :, 3 * v :] = gram.aa.sum(1) - back[..., :v]
    return coupling, np.concatenate([summed[..., 4 * v], gram.a0.sum(1) - back[..., v]], 1)


def _global(stack: RelaxedProblems, at: Point, mu: Floats, beta: Floats, fall: Floats) -> tuple[Floats, Floats, Floats]:
    """The Hessian's global part M [B, 4V, 4V], gradient, and cross derivative with t: ones, b, rho, latencies (V of each)."""
    b, c, v = at.x.shape
    inverse = stack.open / at.slack
    bend = -(at.x * fall).sum(1) / (at.mass / c + _TINY)  # e in the notes
    floored = stack.open & (stack.floor[:, None] > 0.0)
    held = floored / np.where(floored, at.mass - stack.floor[:, None], 1.0)
    i = np.arange(v)
    middle = np.zeros((b, 4 * v, 4 * v))
    middle[:, i, i] = bend * inverse / c**2 + held * held
    middle[:, i, v + i] = middle[:, v + i, i] = inverse / c
    middle[:, 2 * v + i, 2 * v + i] = inverse * inverse
    slope, middle[:, 3 * v :, 3 * v :] = _time_curvature(stack, at.latency, mu, beta)
    nothing = np.zeros_like(inverse)
    toward = -beta[:, None]
    gradient = np.concatenate([toward * held, nothing, toward * inverse, slope], 1)
    return middle, gradient, np.concatenate([-inverse, nothing, at.mass * inverse * inverse, nothing], 1)


def _time_curvature(stack: RelaxedProblems, latency: Floats, mu: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Gradient of psi / mu in the latencies, heading for beta mu, and its Hessian."""
    soft = soft_time(stack, latency, mu)
    v = latency.shape[1]
    m, s, drift = mu[:, None], soft.sigma[:, None], (beta - 1.0)[:, None]
    square = soft.p * soft.p
    total = square.sum(1, keepdims=True)
    eye = np.eye(v)
    hessian = (square[:, :, None] * eye - square[:, :, None] * (square / total)[:, None, :]) / (m * m)[:, :, None]
    slope = (soft.p + drift * (soft.p - square / total)) / m  # the drift: d p / d mu at fixed latencies
    if not stack.balanced:
        return slope, hessian
    around = s - m  # sqrt(mu^2 + var)
    hessian += (eye - 1.0 / v) / (v * s * m)[:, :, None]
    hessian -= soft.centred[:, :, None] * (soft.centred / (v**2 * s * s * around * m))[:, None, :]
    return slope + soft.centred / (v * s) * (1.0 / m - drift / around), hessian


def _step_in_t(stack: RelaxedProblems, at: Point, mu: Floats, beta: Floats, pull: Floats, stiff: Floats) -> tuple[Floats, Floats]:
    """dt and dPhi/dt; where t N makes the Schur complement small or negative, a positive value in its place still descends."""
    load = stack.open * at.mass / at.slack
    free = np.isnan(stack.pinned)
    below, above = 1.0 / np.where(free, at.t - stack.low, 1.0), 1.0 / np.where(free, HIGH - at.t, 1.0)
    _, first, second = price(stack, at.t)
    slope = first / mu - beta * (load.sum(1) + below - above)
    own = (load * load).sum(1) + below * below + above * above
    schur = own + second / mu - stiff
    schur = np.where(schur > 1e-6 * own, schur, np.maximum(np.abs(schur), 1e-3 * own))
    return np.where(free, -(slope - pull) / schur, 0.0), np.where(free, slope, 0.0)


def _expand(stack: RelaxedProblems, at: Point, gram: _Gram, solved: Floats, basis: Floats, eta: Floats, beta: Floats) -> Floats:
    """From coefficients of the global vectors back to a plan whose rows sum to nothing."""
    b, c, v = at.x.shape
    own = (basis * eta[:, : 3 * v].reshape(b, 3, 1, v)).sum(1)  # [B, c, V]
    tail = eta[:, 3 * v :]
    known = np.concatenate([own, np.broadcast_to(tail[:, None], (b, c, v)), np.ones((b, c, 1))], 2)
    own -= np.matmul(solved, known[..., None])[..., 0]
    shared = stack.links * (tail[:, :, None] + tail[:, None, :]) + (stack.effort * tail)[:, None, :]
    pushed = gram.weight * (own[:, :, None, :] + shared[:, None]) - beta[:, None, None, None] * at.plan
    return gram.weight * (pushed.sum(3) / gram.row)[..., None] - pushed
