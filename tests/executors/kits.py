"""What workers rebuild in tests: real or toy parts that leave marks, take their time, raise or die when they are told to.

A recipe's text is one line of JSON with what shall go wrong, then a spec (none: the toy).
"""

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from fedfleet.executors.worker_jobs import Recipe
from fedfleet.testing.toys import consensus, opaque_executor


def misled(spec="", **says):
    """A recipe for this module's `kit`."""
    return Recipe("tests.executors.kits:kit", f"{json.dumps(says, default=str)}\n{spec}")


def kit(text):
    """Algorithm and executor, with the trouble that the first line asks for."""
    line, _, spec = text.partition("\n")
    says = json.loads(line)
    if "matrix" in says:
        return matrix(says["matrix"])
    if spec:
        from fedfleet.app.assemble import rebuild_for_worker

        algorithm, inner = rebuild_for_worker(spec)
    else:
        algorithm, inner = consensus(remembers=True), opaque_executor()

    def train(jobs):
        for job in jobs:
            if "marks" in says:
                first = not list(Path(says["marks"]).glob(f"{job.task}-*"))
                (Path(says["marks"]) / f"{job.task}-{os.getpid()}").touch()
                if first and job.task == says.get("holds"):
                    time.sleep(60)  # until someone kills this process
            time.sleep(says.get("pauses", {}).get(str(job.client), says.get("pause", 0)))
            if job.client == says.get("raises"):
                raise KeyError("out of luck")
            if job.client == says.get("dies"):
                os.kill(os.getpid(), signal.SIGKILL)
            yield from inner.train([job])

    return algorithm, replace(inner, train=train)


def matrix(name):
    """Every cell of the matrix of passes: which one, and whose, a job's settings say."""
    from fedfleet.executors.inline import inline
    from fedfleet.testing.passes import pass_of
    from tests.testing.models import TASKS

    task = TASKS[name]()
    names = list(task.init(0))
    return replace(consensus(), local=lambda client, settings: pass_of(int(settings["case"]), client, names)), inline(task)


def beginners(folder, task):
    """The processes that began this task."""
    return {int(path.name.partition("-")[2]) for path in Path(folder).glob(f"{task}-*")}


def dies_once(piece, tell):
    """A worker of a study that is killed in the middle of the first runs that anybody does."""
    from fedfleet.app.studies.grid.study_worker import work

    mark = Path(piece["runs"][0]["out"]).parent / "killed"

    def told(body):
        if not mark.exists():
            mark.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        tell(body)

    return work(piece, told)
