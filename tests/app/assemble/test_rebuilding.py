"""What another process builds from a spec's text is what this process built."""

from fedfleet.app.assemble import assemble, rebuild, rebuild_kit
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
        algorithm, execute = rebuild_kit(text)
        assert algorithm.name == "fedavg"
        assert execute.name.startswith(ray_execute)
