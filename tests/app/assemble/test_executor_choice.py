"""Executors by name: what [run] may ask for, and what is refused before anything is built."""

import pytest

from fedfleet.app.assemble import assemble, open_executor, rebuild
from fedfleet.app.assemble.executor_choice import check_pin, pin_frozen_weights
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput

SPEC = {"task": "digits_logreg", "world": {"clients": 6}, "pace": {"cohort": 3}}


@pytest.mark.parametrize(("execute", "name"), [("auto", "inline"), ("inline", "inline"), ("stacked", "stacked")])
def test_an_executor_is_made_by_name(execute, name):
    with open_executor(assemble(resolve({**SPEC, "run": {"execute": execute}}))) as made:
        assert made.name.startswith(name)


@pytest.mark.parametrize("form", ["merged", "loop"])
def test_the_stacked_executor_takes_the_form_that_it_is_given(form):
    from fedfleet.executors.stacked.form_choice import Form

    setup = assemble(resolve({**SPEC, "run": {"execute": "stacked"}}))
    with open_executor(setup, Form(form, 1)) as made:
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
    resolved = resolve({**spec, "run": {"execute": "ray"}}, content_id=None if "edge" in spec else "mine")
    with pytest.raises(BadInput, match=says):
        assemble(resolved)


@pytest.mark.parametrize("execute", ["auto", "inline", "stacked"])
def test_a_gpu_that_is_not_here_is_refused_whatever_the_executor(monkeypatch, execute):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(BadInput, match="there is no CUDA device here"):
        assemble(resolve({**SPEC, "run": {"execute": execute, "device": "cuda"}}))


def test_a_gpu_that_nobody_would_use_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assemble(resolve({**SPEC, "run": {"execute": "stacked", "device": "cuda"}}))
    with pytest.raises(BadInput, match=r'"inline" trains on the CPU; set run.execute = "stacked"'):
        assemble(resolve({**SPEC, "run": {"execute": "inline", "device": "cuda"}}))


def test_more_threads_than_processors_can_feed_are_refused():
    with pytest.raises(BadInput, match="processors; use"):
        assemble(resolve({**SPEC, "run": {"threads": 1024}}))


TASK = {"use": "digits_vit", "width": 8, "heads": 2, "depth": 1, "backbone": ""}
FROZEN = {"task": TASK, "algorithm": "biasprompt", "world": {"clients": 8}, "pace": {"cohort": 3}}


def test_a_text_names_the_weights_that_it_is_meant_with():
    setup = assemble(resolve(FROZEN))
    text = pin_frozen_weights(setup.spec.toml(), setup.task)
    assert text.endswith(setup.spec.toml()) and text != setup.spec.toml()
    assert rebuild(text).spec.digest == setup.spec.digest
    with pytest.raises(BadInput, match="frozen weights here are not those of the run"):
        rebuild(text.replace("seed = 0", "seed = 1"))


def test_without_frozen_weights_there_is_nothing_to_name():
    setup = assemble(resolve({**FROZEN, "algorithm": "fedavg"}))
    assert pin_frozen_weights("text", setup.task) == "text"
    check_pin("text", setup.task)
    with pytest.raises(BadInput, match="frozen weights"):
        check_pin("# frozen weights: 00ff\ntext", setup.task)
