"""Weights & Biases as far as it is used here: what `wandb.init` answers, with the names and the limits of its public interface."""

import json
import re
from pathlib import Path
from types import ModuleType

PROJECT = re.compile(r"[^/\\#?%:]{1,128}")


class Settings:
    """Settings by name; one that W&B does not have is refused, as there."""

    def __init__(self, *, silent=False, console="auto"):
        self.silent, self.console = silent, console


class Summary(dict):
    """What a run says at its end."""


class Run:
    """A run that remembers, and writes its files below its folder when it ends."""

    def __init__(self, asked):
        self.asked, self.rows, self.summary, self.exit_code, self.step = asked, {}, Summary(), None, -1

    def log(self, data, step=None):
        assert self.exit_code is None, "the run has ended"
        assert step >= self.step, "steps must not fall: W&B drops such rows"
        self.step = step
        self.rows.setdefault(step, {}).update(data)

    def finish(self, exit_code=None):
        self.exit_code = exit_code
        folder = Path(self.asked["dir"]) / "wandb" / f"offline-run-{self.asked['name']}"
        folder.mkdir(parents=True)
        (folder / "rows.json").write_text(json.dumps(self.rows))


def stand_in():
    """A module to stand at `wandb` in sys.modules; its runs are in `runs`."""
    module = ModuleType("wandb")
    module.runs, module.Settings = [], Settings

    def init(*, project, name, dir, mode, config, reinit, save_code, settings):
        assert mode == "offline" and Path(dir).is_dir(), "W&B takes another folder where this one is missing"
        assert PROJECT.fullmatch(project), project
        assert isinstance(settings, Settings) and not save_code
        json.dumps(config, allow_nan=False)
        module.runs.append(Run({"project": project, "name": name, "dir": dir, "config": config, "reinit": reinit}))
        return module.runs[-1]

    module.init = init
    return module
