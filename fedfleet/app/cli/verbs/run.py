"""`fedfleet run`: train by a spec in virtual time."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import LOG_LINES, AsJson, Interrupted, SigningKey, TrustCode, answer, say, warn


def run(
    spec: Annotated[Path, typer.Argument(help="A spec file in TOML.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Overrides of the spec, for example pace.cohort=20."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write; default: runs/NAME-DIGEST.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in the folder.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Check the spec and stop.")] = False,
    ray_address: Annotated[str | None, typer.Option(help="Train on the Ray cluster at this address.")] = None,
    trust_code: TrustCode = None,
    sign: SigningKey = None,
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOOL:WHERE", help="Write to tensorboard:DIR, mlflow:URI or jsonl:FILE too; may be repeated."
        ),
    ] = None,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log every round on standard error as a line of JSON.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train by a spec in virtual time, and write a run folder with journal, model, metrics and report."""
    from fedfleet.app.spec import load_spec

    LOG_LINES.set(log_json)
    if ray_address is not None:
        words = [*(words or ()), "run.execute=ray", f"run.ray_address={ray_address}"]
    resolved = load_spec(spec, words or ())
    if check:
        from fedfleet.app.assemble import assemble, feasibility_warnings

        result = {"ok": True, "spec_digest": resolved.digest, "warnings": feasibility_warnings(assemble(resolved))}
        answer(result, as_json, lambda a: f"{spec} is valid; its digest is {a['spec_digest'][:16]}")
        warn(result["warnings"])
        return
    from fedfleet.app.pages.report_page import write_report
    from fedfleet.app.runs import perform
    from fedfleet.app.runs.run_folder import refuse_absent
    from fedfleet.app.terminal.progress_bar import progress
    from fedfleet.app.terminal.text import run_text
    from fedfleet.app.tracking.jsonlines import json_log
    from fedfleet.app.tracking.run_follower import follow_run
    from fedfleet.app.tracking.sink import sinks_of

    sinks = [*sinks_of(track or ()), *([json_log()] if log_json else [])]
    folder = out or Path("runs") / f"{resolved.name}-{resolved.digest[:10]}"
    if resume:
        refuse_absent(folder)
    try:
        with (
            progress(resolved.stop["rounds"], resolved.stop["commits"], quiet=as_json or log_json) as watch,
            follow_run(sinks, resolved, folder.name, lambda said: warn([said])) as follower,
        ):
            on_events = follower.combined_with(watch)
            finished_run = perform(resolved, folder, resume=resume, watch=on_events, trust=trust_code, key=sign)
            follower.end(finished_run.metrics)
    except KeyboardInterrupt:
        if not (folder / "run.db").is_file():
            raise Interrupted("interrupted before anything was kept; say the same again to begin") from None
        command = ["fedfleet", "run", str(spec), *(words or ()), "--resume", "--out", str(folder)]
        raise Interrupted(f"interrupted; resume with: {shlex.join(command)}") from None
    write_report(finished_run)
    answer(finished_run.answer(), as_json, lambda a: run_text(a, finished_run.metrics))
    warn(finished_run.metrics["warnings"])
    if not finished_run.metrics["commits"]:
        if not finished_run.metrics["warnings"]:
            message = (
                f"no model was made in {finished_run.metrics['rounds']} rounds; "
                f"stopped by {finished_run.metrics.get('stopped_by')}"
            )
            say(message, "error")
        raise typer.Exit(1)  # a run that made no model is a failed one, however orderly it ended
