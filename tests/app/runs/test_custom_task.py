"""Runs of an own model in a folder: the same as without one, resumed, replayed, reported; code runs only when it is trusted."""

import functools
import json
import multiprocessing
import shutil
import sys
import textwrap
import time

import numpy as np
import pytest
import torch

import fedfleet as ff
from fedfleet.app.assemble import assemble
from fedfleet.app.runs import open_run
from fedfleet.app.runs.custom_task import UserInputs, is_custom_task, load_custom_task
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import TasksSent
from fedfleet.engine.replay import replay as follow
from tests.app.runs.owned import Net, blobs, breaks, focal, row, share_right, smooth
from tests.app.runs.owning import believes, spec_for, trust_of, unfinished
from tests.app.specs import refused

pytestmark = pytest.mark.slow

EXECUTORS = ("inline", "stacked")


def test_a_folder_changes_nothing_and_holds_everything(plain, coded):
    for done, given in (
        (plain, {"model": row(), "data": blobs(owners=True)}),
        (coded, {"model": Net, "data": blobs(), "loss": focal, "metrics": {"right": share_right}}),
    ):
        assert ff.run(spec_for(), **given).metrics["digest"] == done.metrics["digest"]
        for name in ("spec.toml", "run.db", "model.safetensors", "metrics.json", "report.html", "own/own.json"):
            assert (done.out / name).is_file(), name
    assert coded.metrics["own"] == {"right": pytest.approx(coded.metrics["accuracy"])}
    assert json.loads((coded.out / "metrics.json").read_text())["own"] == coded.metrics["own"]


def test_metrics_are_in_the_journal_and_change_no_model(coded):
    without = ff.run(spec_for(), model=Net, data=blobs(), loss=focal)
    assert all(np.array_equal(v, coded.params[n]) for n, v in without.params.items())
    assert without.metrics["digest"] != coded.metrics["digest"], "each evaluation has them"
    assert without.metrics["spec_digest"] == coded.metrics["spec_digest"]


def test_a_run_may_stop_by_a_metric_of_ones_own(tmp_path):
    def given(**stop):
        spec = spec_for(stop={"rounds": 30, **stop})
        return {"spec": spec, "model": Net, "data": blobs(), "metrics": {"right": share_right}}

    done = ff.run(**given(target="right >= 0.999"), out=tmp_path / "run")
    assert done.metrics["stopped_by"] == "target" and 0 < done.metrics["rounds"] < 30 and done.metrics["measures"]["right"] >= 0.999
    # Nobody's code runs to audit it, and a resumed run needs the metric.
    assert "models" in ff.replay(tmp_path / "run", model=Net)["verified"] and ff.replay(tmp_path / "run", quick=True)["ok"]
    killed = unfinished(done, tmp_path / "killed")
    again = ff.run(killed / "spec.toml", model=Net, metrics={"right": share_right}, out=killed, resume=True)
    assert again.metrics["digest"] == done.metrics["digest"]
    with pytest.raises(BadInput, match=r"no measure 'rigth'; did you mean 'right'"):
        ff.run(**given(target="rigth >= 0.9"))
    with pytest.raises(BadInput, match=r"no measure 'zzz'; known: accuracy, right, score"):
        ff.run(**given(target="zzz <= 1"))


@pytest.mark.parametrize("execute", EXECUTORS)
def test_layers_of_pytorch_replay_and_resume_without_trust(execute, tmp_path, fedfleet):
    done = ff.run(spec_for(execute), model=row(), data=blobs(), out=tmp_path / "run")
    code, printed, _ = fedfleet("replay", done.out, "--json")
    assert code == 0 and "models" in json.loads(printed)["verified"]
    folder = unfinished(done, tmp_path / "killed")
    code, printed, _ = fedfleet("run", folder / "spec.toml", "--resume", "--out", folder, "--json")
    assert json.loads(printed)["digest"] == done.metrics["digest"]
    assert (folder / "model.safetensors").read_bytes() == (done.out / "model.safetensors").read_bytes()


@pytest.mark.parametrize("execute", EXECUTORS)
@pytest.mark.parametrize("loss", [focal, smooth])
def test_code_replays_and_resumes_when_it_is_trusted(execute, loss, tmp_path, fedfleet):
    done = ff.run(spec_for(execute), model=Net, data=blobs(), loss=loss, metrics={"r": share_right}, out=tmp_path / "run")
    trust = trust_of(done.out)
    code, printed, _ = fedfleet("replay", done.out, "--trust-code", trust, "--json")
    assert code == 0 and json.loads(printed)["digest"] == done.metrics["digest"]
    folder = unfinished(done, tmp_path / "killed")
    words = ("run", folder / "spec.toml", "--resume", "--out", folder, "--json")
    refused(fedfleet(*words), "not run unless you trust it")
    code, printed, _ = fedfleet(*words, "--trust-code", trust)
    assert json.loads(printed)["digest"] == done.metrics["digest"]
    assert json.loads((folder / "metrics.json").read_text())["own"] == done.metrics["own"]
    refused(fedfleet("replay", done.out, "--trust-code", "0" * 64), trust)


def test_python_resumes_with_what_is_given_again(coded, tmp_path):
    whole = {"model": Net, "data": blobs(), "loss": focal, "metrics": {"right": share_right}}
    for i, left_out in enumerate(({"data"}, set())):
        folder = unfinished(coded, tmp_path / str(i))
        given = {n: v for n, v in whole.items() if n not in left_out}
        again = ff.run(spec_for() if i else folder / "spec.toml", **given, out=folder, resume=True)
        assert again.metrics["digest"] == coded.metrics["digest"]
        assert again.metrics["own"] == coded.metrics["own"]
    folder = unfinished(coded, tmp_path / "trusted")
    again = ff.run(folder / "spec.toml", out=folder, resume=True, trust_code=trust_of(coded.out))
    assert again.metrics["digest"] == coded.metrics["digest"]
    assert ff.run(folder / "spec.toml", out=folder, resume=True).metrics["digest"] == coded.metrics["digest"], "finished"
    assert "models" in ff.replay(coded.out, model=Net, loss=focal)["verified"]


def other(outputs, labels):
    return focal(outputs, labels) * 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model": torch.nn.Linear(5, 2), "data": blobs()}, "differ from those of the run"),
        ({"model": row, "data": (blobs()[0] + 1, blobs()[1])}, "differ from those of the run"),
        ({"data": (blobs()[0] + 1, blobs()[1])}, "not the inputs of the run"),
        ({"model": Net, "loss": other}, "loss has changed since the run"),
        ({"model": Net, "loss": focal, "metrics": {"unheard": share_right}}, "started without a metric 'unheard'"),
    ],
)
def test_what_is_not_that_of_the_run_is_refused(coded, tmp_path, given, says):
    folder = unfinished(coded, tmp_path / "run")
    with pytest.raises(BadInput, match=says):
        ff.run(folder / "spec.toml", **given, out=folder, resume=True)


def test_layers_that_were_exchanged_are_refused(plain, tmp_path):
    folder = unfinished(plain, tmp_path / "run")
    model = row()
    model[1] = torch.nn.Tanh()
    with pytest.raises(BadInput, match="model has changed since the run"):
        ff.run(folder / "spec.toml", model=model, out=folder, resume=True)


def test_a_lambda_can_only_be_given_again(tmp_path, fedfleet):
    make = lambda: Net(3)  # noqa: E731
    done = ff.run(spec_for(), model=make, data=blobs(), out=tmp_path / "run")
    believes(fedfleet("replay", done.out, "--json"), "only you can give it again", "model=..")
    assert ff.replay(done.out, model=make)["ok"]
    folder = unfinished(done, tmp_path / "killed")
    refused(fedfleet("run", folder / "spec.toml", "--resume", "--out", folder), "only you can give it again")
    assert ff.run(folder / "spec.toml", model=make, out=folder, resume=True).metrics["digest"] == done.metrics["digest"]


def test_an_object_with_arguments_says_how_it_could_be_kept(tmp_path, fedfleet):
    done = ff.run(spec_for(), model=Net(3), data=blobs(), out=tmp_path / "run")
    believes(fedfleet("replay", done.out, "--json"), "functools.partial(Net, ..)")
    done = ff.run(spec_for(), model=functools.partial(Net, hidden=3), data=blobs(), out=tmp_path / "partial")
    assert replay_run(done.out, trust=trust_of(done.out))["ok"]


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_data_may_be_referred_to(kind, tmp_path, fedfleet):
    x, y, owner = blobs(owners=True)
    file = tmp_path / f"arrays.{kind}"
    if kind == "npz":
        np.savez_compressed(file, x=x, y=y, owner=owner)
    else:
        from safetensors.numpy import save_file

        save_file({"x": x, "y": y, "owner": owner}, file)
    done = ff.run(spec_for(), model=row(), data=file, out=tmp_path / "run", keep_data=False)
    assert done.metrics["digest"] == ff.run(spec_for(), model=row(), data=(x, y, owner)).metrics["digest"]
    assert not (done.out / "own/data.safetensors").exists()
    assert replay_run(done.out)["ok"]
    np.savez(tmp_path / "arrays.npz", x=x + 1, y=y, owner=owner)
    if kind == "npz":
        with pytest.raises(RunFailed, match="has changed since the run started"):
            replay_run(done.out)
    file.unlink()
    believes(fedfleet("replay", done.out, "--json"), "is not there", "data=..")
    assert ff.replay(done.out, data=(x, y, owner))["ok"]


def test_data_that_was_not_kept_is_asked_for(tmp_path, fedfleet):
    done = ff.run(spec_for(), model=row(), data=blobs(), out=tmp_path / "run", keep_data=False)
    believes(fedfleet("replay", done.out, "--json"), "keep_data=False", "data=..")
    folder = unfinished(done, tmp_path / "killed")
    again = ff.run(folder / "spec.toml", data=blobs(), out=folder, resume=True)
    assert again.metrics["digest"] == done.metrics["digest"]


def test_decisions_are_derived_without_the_code(coded):
    """The stand-in has all that decisions depend on; only what trains asks for the model, and is told why there is none."""
    spec, events, _ = open_run(coded.out)
    own = load_custom_task(coded.out, spec)
    assert "not run unless you trust it" in own.unusable_reason
    setup = assemble(spec, own.task)
    world, sizes = setup.world, setup.world.data.sizes(0)
    sent = [e for e in events if isinstance(e, TasksSent)]
    assert all((e.samples == 2 * sizes[e.clients]).all() for e in sent)
    assert all((e.bytes_down == 4 * (5 * 8 + 8 + 8 * 2 + 2)).all() for e in sent)
    with pytest.raises(BadInput, match="not run unless you trust it"):  # at the first model, and not before
        follow(
            setup.plan, events, world.keys, world.data.sizes,
            lambda command, fact: setup.executor(), lambda command: None,
        )  # fmt: skip
    with pytest.raises(BadInput, match="not run unless you trust it"):
        own.task.loss.compute(None, None)


def test_the_report_needs_no_code(coded, tmp_path, fedfleet, monkeypatch):
    folder = shutil.copytree(coded.out, tmp_path / "copy")
    (folder / "report.html").unlink()
    monkeypatch.setattr("fedfleet.app.runs.user_code.load_object", None)
    code, printed, _ = fedfleet("report", folder, "--json")
    assert code == 0 and json.loads(printed)["own"] == coded.metrics["own"]
    assert "right" in (folder / "report.html").read_text()
    assert ff.load(folder).clients["samples"].sum() > 0


MARKED = """
    import pathlib
    import torch

    pathlib.Path({mark!r}).write_text("executed")


    class Wide(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.leaf = torch.nn.Linear(5, 2)

        def forward(self, x):
            return self.leaf(x) * 2


    def loss(outputs, labels):
        return torch.nn.functional.cross_entropy(outputs, labels)
"""


@pytest.mark.parametrize("here", [True, False])
def test_code_is_never_executed_without_trust(here, tmp_path, fedfleet, monkeypatch):
    """Neither the kept source nor the module of that name on this machine: importing it would leave a mark."""
    mark, shelf = tmp_path / "mark", tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "marked_module.py").write_text(textwrap.dedent(MARKED.format(mark=str(mark))))
    monkeypatch.syspath_prepend(str(shelf))
    import marked_module  # pyright: ignore[reportMissingImports]

    done = ff.run(spec_for(), model=marked_module.Wide, data=blobs(), loss=marked_module.loss, out=tmp_path / "run")
    del sys.modules["marked_module"]
    mark.unlink()
    folder = unfinished(done, tmp_path / "killed")
    if not here:
        (shelf / "marked_module.py").unlink()
    believes(fedfleet("replay", done.out, "--json"), "not run unless you trust it")
    refused(fedfleet("run", folder / "spec.toml", "--resume", "--out", folder), "not run unless you trust it")
    refused(fedfleet("run", folder / "spec.toml", "--resume", "--out", folder, "--trust-code", "1" * 64), "not 1111")
    assert fedfleet("report", done.out)[0] == 0 and fedfleet("report", folder)[0] == 0
    refused(fedfleet("run", folder / "spec.toml", "--check"), "own")
    loaded = ff.load(done.out)
    assert loaded.clients["client"].tolist() == list(range(6)) and "marked_module" not in sys.modules
    assert not mark.exists()
    trust = trust_of(done.out)
    assert not mark.exists()
    assert replay_run(done.out, trust=trust)["digest"] == done.metrics["digest"]
    assert mark.exists()
    assert ("marked_module" in sys.modules) == here
    sys.modules.pop("marked_module", None)
    for name in [n for n in sys.modules if n.startswith("fedfleet_kept_")]:
        del sys.modules[name]


def test_a_module_of_that_name_with_other_code_is_not_taken(tmp_path, monkeypatch):
    """What is trusted is the source that was kept; what this machine holds under the name now is something else."""
    mark, shelf = tmp_path / "mark", tmp_path / "shelf"
    shelf.mkdir()
    text = textwrap.dedent(MARKED.format(mark=str(mark)))
    (shelf / "shifty_module.py").write_text(text)
    monkeypatch.syspath_prepend(str(shelf))
    import shifty_module  # pyright: ignore[reportMissingImports]

    done = ff.run(spec_for(), model=shifty_module.Wide, data=blobs(), out=tmp_path / "run")
    del sys.modules["shifty_module"]
    (shelf / "shifty_module.py").write_text("raise SystemExit('executed')\n")
    assert replay_run(done.out, trust=trust_of(done.out))["ok"]
    assert "shifty_module" not in sys.modules


def test_a_metric_that_fails_loses_nothing():
    with pytest.warns(UserWarning, match="your metric 'bad' failed: ZeroDivisionError"):
        done = ff.run(spec_for(), model=row(), data=blobs(), metrics={"bad": breaks, "nan": lambda o, t: np.nan})
    assert done.metrics["own"] == {"bad": None, "nan": None} and done.metrics["commits"] == 6


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"loss": 3}, "not a function"),
        ({"loss": lambda o, t: 1.0}, "it gave float for 3 samples"),
        ({"loss": lambda o, t: o[:2, 0]}, r"shape \(2,\) for 3 samples"),
        ({"loss": lambda o, t: o.detach().sum(1)}, "does not depend on the outputs"),
        ({"metrics": {"x": 3}}, "'x' is not a function"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_written(given, says, tmp_path):
    with pytest.raises(BadInput, match=says):
        ff.run(spec_for(), model=row(), data=blobs(), out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_a_loss_that_breaks_is_named():
    def broken(outputs, labels):
        raise KeyError("margin")

    with pytest.raises(RunFailed, match="your loss function, tried on the first samples, failed: KeyError"):
        ff.run(spec_for(), model=row(), data=blobs(), loss=broken)


def test_only_own_specs_are_reopened(tiny_run):
    assert not is_custom_task(tiny_run.spec) and load_custom_task(tiny_run.out, tiny_run.spec) is None
    assert UserInputs() == UserInputs(None, None, None, {})


def start(folder):
    """The run in a process of its own, forked."""
    given = {"model": Net, "data": blobs(), "loss": smooth, "out": folder, "resume": True}
    spec = {**spec_for(), "stop": {"rounds": 40}}
    process = multiprocessing.get_context("fork").Process(target=ff.run, args=(spec,), kwargs=given)
    process.start()
    return process


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(tmp_path):
    begun = time.monotonic()
    straight = start(tmp_path / "straight")
    straight.join()
    assert straight.exitcode == 0
    whole, died = time.monotonic() - begun, 0
    for i in range(12):
        process = start(tmp_path / str(i))
        process.join(whole * (0.15 + 0.1 * (i % 8)))
        process.kill()
        process.join()
        if process.exitcode == 0:
            continue  # faster than its killer
        again = start(tmp_path / str(i))
        again.join(60)
        assert again.exitcode == 0
        for name in ("model.safetensors", "own/own.json", "own/data.safetensors"):
            assert (tmp_path / str(i) / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()
        digests = [json.loads((tmp_path / f / "metrics.json").read_text())["digest"] for f in (str(i), "straight")]
        assert digests[0] == digests[1]
        died += 1
        if died == 3:
            return
    raise AssertionError(f"only {died} of 12 runs could be killed while they ran")
