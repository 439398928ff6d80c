"""A real server of a toy plan: `python -m tests.network.toy_server FOLDER TOY OPTIONS [--resume] [--most-bytes=N]`.

What `fedfleet serve` does, less what needs a spec: the run folder with its lock, journal, key and registry, the model at the end.
With `--most-bytes` no file may grow larger.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from fedfleet.core.errors import FedFleetError
from fedfleet.network.evaluation.evaluators import EvalContext
from fedfleet.network.security.enrolment import Registry, Terms
from fedfleet.network.security.secrets import run_key
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.recovery import recover
from fedfleet.network.server.serve import ServerStopped, serve
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.store import journal as journals
from fedfleet.store.files import save_tree
from fedfleet.store.lock import hold_lock
from fedfleet.testing.toys import opaque_executor
from tests.network.evaluation.thread import ThreadEvaluator
from tests.network.toys import Toy, from_text, noising_of, plan_of, world_for


def main() -> None:
    """Serve, and answer as the command line would: 0, or one sentence and 1 or 2, or 130 when it was stopped."""
    folder, toy, told, *words = sys.argv[1:]
    options: dict[str, Any] = json.loads(told)
    for word in words:
        if word.startswith("--most-bytes="):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then writing fails, as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(word.split("=")[1]), resource.RLIM_INFINITY))
    opened, tls = bool(options.pop("open_enrolment", True)), options.pop("tls", None)
    try:
        served_to_the_end(Path(folder), from_text(toy), ServeOptions(**options), opened=opened, tls=tls, resume="--resume" in words)
    except FedFleetError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.exit_code) from None
    except ServerStopped as why:
        sys.stderr.write(f"{why}\n")
        raise SystemExit(130) from None


def served_to_the_end(
    folder: Path, toy: Toy, options: ServeOptions, *, opened: bool, tls: dict[str, str] | None = None, resume: bool
) -> None:
    """Serve a toy in this folder."""
    plan, world = plan_of(toy), world_for(toy)
    (folder / "wire").mkdir(parents=True, exist_ok=True, mode=0o700)
    with hold_lock(folder):
        back = None
        if resume and (folder / "run.db").exists():
            journal, back = recover(plan, world, folder)
            for damage in back.damages:
                sys.stderr.write(f"{damage}\n")
        else:
            journal = journals.create(folder / "run.db", "toy")
        key = run_key(folder / "wire" / "run.key")
        registry = Registry(folder / "wire" / "devices.db", key, Terms(toy.clients, open=opened))
        judge = ThreadEvaluator(EvalContext(plan, world, opaque_executor()))
        try:
            run = ServedRun(
                plan, world, judge, registry, key, lambda client: b"{}", journal, folder, "toy", noising_of(toy, folder)
            )
            state = serve(run, options, recovery=back, tls=tls)
            journal.flush()
            save_tree(folder / "model.safetensors", state.server.params)
        finally:
            registry.close()
            journal.close()


if __name__ == "__main__":
    main()
