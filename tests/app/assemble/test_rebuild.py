"""What another process builds from a spec's text is what this process built."""

import numpy as np

from fedfleet.app.assemble import assemble, rebuild, rebuild_for_worker
from fedfleet.app.assemble.rebuild import rebuild_eval_context
from fedfleet.app.spec import resolve
from fedfleet.core.trees import content_hash

SPEC = {"seed": 4, "task": "digits_logreg", "world": {"clients": 8}, "pace": {"cohort": 3}}


def test_a_spec_is_rebuilt_from_its_text_and_trains_inline():
    here = assemble(resolve({**SPEC, "run": {"execute": "stacked"}}))
    there = rebuild(here.spec.toml())
    assert there.spec.digest == here.spec.digest
    assert there.spec.run["execute"] == "inline"
    assert content_hash(there.plan.params) == content_hash(here.plan.params)


def test_a_worker_gets_the_executor_that_the_spec_names_for_workers():
    for ray_execute in ("inline", "stacked"):
        text = resolve({**SPEC, "run": {"ray_execute": ray_execute}}).toml()
        algorithm, execute = rebuild_for_worker(text)
        assert algorithm.name == "fedavg"
        assert execute.name.startswith(ray_execute)


def test_a_judge_holds_out_what_the_run_does():
    held = {"clients": 4, "holdout": 60, "unseen": 0.1, "data": {"use": "by_owner", "merge_owners": True}}
    task = {"use": "har_cnn", "synthetic": True, "samples": 400, "hidden": 8}
    here = assemble(resolve({**SPEC, "task": task, "world": held, "seeds": {"data": 9}}))
    there = rebuild_eval_context({"spec": here.spec.toml()}).world.data
    assert np.array_equal(there.unseen, here.world.data.unseen) and len(there.unseen) > 0
    assert np.array_equal(there.holdout, here.world.data.holdout) and 40 <= len(there.holdout) < 60
