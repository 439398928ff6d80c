"""Executors by name: what [run] may ask for, and what is refused before anything is built."""

import pytest

from fedfleet.app.assemble import assemble, executing
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput

SPEC = {"task": "digits_logreg", "world": {"clients": 6}, "pace": {"cohort": 3}}


@pytest.mark.parametrize(("execute", "name"), [("auto", "inline"), ("inline", "inline"), ("stacked", "stacked")])
def test_an_executor_is_made_by_name(execute, name):
    with executing(assemble(resolve({**SPEC, "run": {"execute": execute}}))) as made:
        assert made.name.startswith(name)


@pytest.mark.parametrize("form", ["merged", "loop"])
def test_the_stacked_executor_takes_the_form_that_it_is_given(form):
    from fedfleet.runtime.executors.stacked.forms import Form

    setup = assemble(resolve({**SPEC, "run": {"execute": "stacked"}}))
    with executing(setup, Form(form, 1)) as made:
        assert form in made.name


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"world": {"users": "households"}, "edge": "hierfl"}, "behind an .edge. yet; use inline or stacked"),
        ({}, "cannot train your own model object"),
    ],
)
def test_ray_refuses_what_its_workers_cannot_rebuild(spec, says):
    pytest.importorskip("ray")
    resolved = resolve({**spec, "run": {"execute": "ray"}}, own_task=None if "edge" in spec else "mine")
    with pytest.raises(BadInput, match=says):
        assemble(resolved)
