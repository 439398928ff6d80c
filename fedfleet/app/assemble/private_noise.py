"""The noise of a run that asks for an epsilon: solved for the rounds that are planned, before anything trains.

A plan promises it only where a client can be in each commit once at most. Amplification by sampling is counted where it was asked
for (`amplify`) and holds: every commit draws evenly among all clients, who are all reachable at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedfleet.app.spec import Spec
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Plan, Policy, Promise
from fedfleet.core.records import Stop
from fedfleet.core.sources import World
from fedfleet.measure.privacy import planned_epsilon, solve_noise

_WHERE = "algorithm.private"


def with_private_noise(spec: Spec, pace: Policy, world: World) -> Spec:
    """The spec whose [algorithm] names the cohort and the noise that a private run has; unchanged if it names them already.

    Its digest is not that of the spec that was asked for, which belongs to the run.
    """
    private = spec.algorithm.get("private")
    if private is None:
        return spec
    private = dict(private)
    if "cohort" in private and private["cohort"] is None:
        private["cohort"] = pace.cohort
    if private["noise"] is None:
        sample = (len(world.keys), pace.cohort) if private.get("amplify") else None
        promise = Promise(private["use"], 1.0, private["delta"], private["epsilon"], sample)
        _check_rounds(spec, pace)
        private["noise"] = solve_noise(promise, private["epsilon"], planned_commits(Stop(**spec.stop)))
    return replace(spec, algorithm={**spec.algorithm, "private": private})


def planned_commits(stop: Stop) -> int:
    """How many commits a run has at most."""
    return stop.rounds if stop.commits is None else min(stop.rounds, stop.commits)


def check_sampling(spec: Spec, plan: Plan, world: World) -> None:
    """Refuse to count on sampling where a commit does not draw evenly among all clients."""
    promise = plan.algorithm.private
    if promise is None or promise.sample is None:
        return
    rules = plan.pace.round_rules
    why = (
        f'{plan.choose.name!r} does not give every client the same chance; use choose.use = "uniform"'
        if not plan.choose.equal_chance or plan.choose.members is not None
        else 'clients are not reachable at all times, so some have a larger chance; use world.states = "always_on" and no faults'
        if not world.states.always or world.faults is not None
        else f'{plan.pace.name!r} does not draw a whole cohort for each commit; use pace.use = "readiness" or "deadline"'
        if rules is None or not rules.independent
        else "behind edges the sampling of clients is not counted; remove [edge]"
        if spec.edge is not None
        else ""
    )
    if why:
        raise BadInput(f"{_WHERE}.amplify: sampling does not amplify privacy here: {why}; or leave amplify out")


def _check_rounds(spec: Spec, pace: Policy) -> None:
    """Refuse an epsilon where a client can be in one commit twice."""
    if not pace.rounds or _late_reports(spec.pace):
        raise BadInput(
            f"{_WHERE}.epsilon: under {pace.name!r} a client can have several reports in one commit, so its privacy "
            "loss cannot be planned; use a policy with rounds and max_staleness = 0, or give noise instead and read epsilon "
            "after the run"
        )


def _late_reports(pace: Mapping[str, Any]) -> bool:
    inner = [value for value in pace.values() if isinstance(value, Mapping)]
    return bool(pace.get("max_staleness")) or any(_late_reports(one) for one in inner)


def privacy_plan(plan: Plan) -> dict[str, Any] | None:
    """What a private run will promise at most: noise, and epsilon of a client that is in every planned commit."""
    promise = plan.algorithm.private
    if promise is None:
        return None
    commits = planned_commits(plan.stop)
    epsilon = planned_epsilon(promise, commits) if plan.pace.rounds else None
    plain = planned_epsilon(replace(promise, sample=None), commits)
    return {
        "mechanism": promise.mechanism,
        "noise": promise.noise,
        "epsilon": epsilon,
        "delta": promise.delta,
        "commits": commits,
        "amplified": epsilon is not None and (plain is None or epsilon < plain),
    }


def privacy_plan_text(planned: Mapping[str, Any]) -> str:
    """That in one sentence."""
    epsilon = planned["epsilon"]
    if epsilon is None:
        return (
            f"privacy ({planned['mechanism']}): noise {planned['noise']:.4g} times the clipping norm; epsilon follows from how "
            "often clients take part, and is known after the run"
        )
    sampling = "this counts on secret sampling" if planned["amplified"] else "no amplification by sampling is counted"
    return (
        f"privacy ({planned['mechanism']}): noise {planned['noise']:.4g} times the clipping norm keeps epsilon at {epsilon:.4g} or "
        f"below (delta {planned['delta']:.2g}) for a client that is in all {planned['commits']} planned commits; {sampling}"
    )
