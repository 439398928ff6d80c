"""`fedfleet run`: train by a spec in virtual time, into a run folder. From Python, `fedfleet.run` does the same and more."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.app.terminal.answers import AS_JSON, LOG_LINES, Answer, Interrupted, warn
from fedfleet.app.terminal.own_options import (
    DroppedColumns,
    InputColumns,
    KindOfTask,
    LabelColumn,
    MissingRule,
    OwnerColumn,
    OwnModel,
    OwnPath,
    TimeColumn,
)

if TYPE_CHECKING:
    from fedfleet.app.spec import Spec


def run_spec(
    spec: Path | None = None,
    *overrides: str,
    data: OwnPath = None,
    label: LabelColumn = None,
    owner: OwnerColumn = None,
    model: OwnModel = None,
    input: InputColumns = None,
    drop: DroppedColumns = None,
    time: TimeColumn = None,
    kind: KindOfTask = None,
    missing: MissingRule = None,
    out: Path | None = None,
    resume: bool = False,
    check: bool = False,
    ray_address: str | None = None,
    trust_code: str | None = None,
    sign: Path | None = None,
    track: Sequence[str] = (),
    log_json: bool = False,
) -> Any:
    """Train by a spec in virtual time, and write a run folder with journal, model, metrics and report.

    Args:
        spec: a spec file in TOML; it may be left out where your own data are given.
        overrides: overrides of the spec, for example pace.cohort=20.
        out: the folder to write; default: runs/NAME-DIGEST.
        resume: go on from the last checkpoint in the folder.
        check: check the spec and stop.
        ray_address: train on the Ray cluster at this address.
        trust_code: run the code of an own model that lies in the folder, if this is its hash.
        sign: sign the finished run with this Ed25519 private key (OpenSSH or PEM).
        track: write to tensorboard:DIR, mlflow:URI, wandb:DIR or jsonl:FILE too; may be repeated.
        log_json: log every round on standard error as a line of JSON.
    """
    from fedfleet.app.api.own_task import Columns, take_task
    from fedfleet.app.spec import resolve

    LOG_LINES.set(log_json)
    words = list(overrides)
    if ray_address is not None:
        words += ["run.execute=ray", f"run.ray_address={ray_address}"]
    resolved = resolve(*take_task(spec, words, model, data, Columns(label, owner, input, drop, time, kind, missing)))
    if trust_code is not None:
        from fedfleet.app.runs.model_trust import trust_model

        trust_model(resolved, trust_code, out)
    if check:
        # With data of one's own the first word may be an override.
        return _check_spec(spec if spec is not None and (data is None or spec.exists()) else Path(data), resolved)
    from fedfleet.app.pages.report_page import write_report
    from fedfleet.app.runs import perform
    from fedfleet.app.runs.run_folder import refuse_absent
    from fedfleet.app.terminal.progress_bar import progress
    from fedfleet.app.tracking.run_follower import follow_run
    from fedfleet.app.tracking.sink import json_log, sinks_of

    sinks = [*sinks_of(track), *([json_log()] if log_json else [])]
    folder = out or Path("runs") / f"{resolved.name}-{resolved.digest[:10]}"
    if resume:
        refuse_absent(folder)
    try:
        with (
            progress(resolved.stop["rounds"], resolved.stop["commits"], quiet=AS_JSON.get() or log_json) as watch,
            follow_run(sinks, resolved, folder.name, lambda message: warn([message])) as follower,
        ):
            on_events = follower.combined_with(watch)
            finished_run = perform(resolved, folder, resume=resume, watch=on_events, trust=trust_code, key=sign)
            follower.end(finished_run.metrics)
    except KeyboardInterrupt:
        if not (folder / "run.db").is_file():
            raise Interrupted("interrupted before anything was kept; run the same command again to start") from None
        command = ["fedfleet", "run", str(spec), *words, "--resume", "--out", str(folder)]
        raise Interrupted(f"interrupted; resume with: {shlex.join(command)}") from None
    write_report(finished_run)
    return finished_run


def _check_spec(path: Path, spec: Spec) -> Answer:
    """What can be said of a spec before it runs."""
    from fedfleet.app.assemble import assemble, feasibility_warnings
    from fedfleet.app.assemble.edge_times import edge_times
    from fedfleet.app.assemble.private_noise import privacy_plan, privacy_plan_text
    from fedfleet.app.assemble.serve_checks import serve_refusal
    from fedfleet.app.spec.people import counting_note

    setup = assemble(spec)
    private, times = privacy_plan(setup.plan), edge_times(setup.plan, setup.world)
    result = {"ok": True, "spec_digest": spec.digest, "warnings": feasibility_warnings(setup)}
    result |= {} if setup.people is None else {"people": setup.people.people, "clients": setup.plan.clients}
    result |= {} if private is None else {"privacy": private}
    result |= {} if times is None else {"edge": asdict(times)}
    refusal = serve_refusal(setup)
    result |= {} if refusal is None else {"served": refusal}
    notes = [*([] if private is None else [privacy_plan_text(private)]), *([] if times is None or times.slow else [str(times)])]
    notes += [] if refusal is None else [f"fedfleet serve would refuse this spec: {refusal}"]
    notes = [*([] if setup.people is None else [f"data by owner: {setup.people}"]), *notes]
    lines = [f"{path} is valid; its digest is {spec.digest[:16]}", *notes]
    remarks = [*([note] if (note := counting_note(spec)) else []), *(f"WARNING: {warning}" for warning in result["warnings"])]
    return Answer(result, "\n".join(lines), remarks)
