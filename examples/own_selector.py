"""A selector of your own, checked and used: `python examples/own_selector.py`."""

import numpy as np

import fedfleet
from fedfleet import Assignments, Draw, Ended, Roster, Selector, whole_work
from fedfleet.core.parts import State
from fedfleet.core.rng import hash_keys
from fedfleet.testing import check_selector


def rested() -> Selector:
    """Whoever was asked least often so far, ties by an addressed hash."""

    def initial(clients: int) -> State:
        return {"asked": np.zeros(clients, np.int64)}

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        luck = hash_keys(draw.seed, "rested", roster.keys, draw.round, draw.first)
        order = np.lexsort((luck, state["asked"][roster.clients]))
        return whole_work(roster.clients[order[:n]])

    def learn(state: State, ended: Ended, now: float) -> State:
        return {"asked": state["asked"] + np.bincount(ended.clients, minlength=len(state["asked"]))}

    return Selector("rested", pick, learn, initial=initial)


check_selector(rested())
fedfleet.register("selectors", "rested", rested)
spec = {"task": "digits_logreg", "choose": "rested", "pace": {"cohort": 10}, "stop": {"rounds": 20}}
fair, plain = fedfleet.run(spec), fedfleet.run(spec, "choose.use=uniform")
jain = [result.metrics["participation"]["jain"] for result in (fair, plain)]
print(f"fairness of participation: rested {jain[0]:.3f}, uniform {jain[1]:.3f}")
