"""The command line. Each verb has its own function; all heavy imports happen inside them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from fedfleet import __version__
from fedfleet.app import fleet_verbs, shuffle_verb  # noqa: F401  (their verbs join the application)
from fedfleet.app.words import AsJson, answer, app
from fedfleet.core.errors import FedFleetError

# Newer typers carry a click of their own, so its exceptions are found by way of typer's.
_USAGE: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


def main() -> NoReturn:
    """The entry point: every refusal is one sentence and an exit code."""
    try:
        code = app(standalone_mode=False)
    except _USAGE as wrong:
        sys.exit(_usage(wrong))
    except FedFleetError as wrong:
        typer.echo(f"fedfleet: {wrong}", err=True)
        sys.exit(wrong.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("fedfleet: interrupted", err=True)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(wrong: Any) -> int:
    """Say what is wrong with the words of the command line, in one sentence."""
    text, context = wrong.format_message().strip(), getattr(wrong, "ctx", None)
    if type(wrong).__name__ == "NoArgsIsHelpError":  # its message is the help itself
        typer.echo(text, err=True)
    else:
        typer.echo(
            f"fedfleet: {text.rstrip('.?')}. See: {context.command_path if context else 'fedfleet'} --help", err=True
        )
    return 2


@app.command()
def run(
    spec: Annotated[Path, typer.Argument(help="A spec file in TOML.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Overrides, such as pace.cohort=20.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write; default: runs/NAME-DIGEST.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in the folder.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Check the spec and stop.")] = False,
    ray_address: Annotated[str | None, typer.Option(help="Train on the Ray cluster at this address.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train by a spec in virtual time, and write a run folder with journal, model, metrics and report."""
    from fedfleet.app.spec import load_spec

    if ray_address is not None:
        words = [*(words or ()), "run.execute=ray", f"run.ray_address={ray_address}"]
    resolved = load_spec(spec, words or ())
    if check:
        from fedfleet.app.assemble import assemble

        assemble(resolved)
        answer(
            {"ok": True, "spec_digest": resolved.digest}, as_json, lambda a: f"{spec} is fine: {a['spec_digest'][:16]}"
        )
        return
    from fedfleet.app.progress import progress
    from fedfleet.app.report import write_report
    from fedfleet.app.runs import perform
    from fedfleet.app.show import shown_run

    folder = out or Path("runs") / f"{resolved.name}-{resolved.digest[:10]}"
    try:
        with progress(resolved.stop["rounds"], quiet=as_json) as watch:
            done = perform(resolved, folder, resume=resume, watch=watch)
    except KeyboardInterrupt:
        typer.echo(f"fedfleet: interrupted; resume with: {_resume_words(spec, words or [], folder)}", err=True)
        raise typer.Exit(130) from None
    write_report(done)
    answer(done.answer(), as_json, lambda a: shown_run(a, done.metrics))


def _resume_words(spec: Path, words: list[str], folder: Path) -> str:
    return " ".join(["fedfleet run", str(spec), *words, "--resume --out", str(folder)])


@app.command()
def replay(folder: RunFolder, as_json: AsJson = False) -> None:
    """Rebuild the final state of a run from its journal, and verify every decision and every model on the way."""
    from fedfleet.app.replays import replay_run
    from fedfleet.app.show import shown_replay

    answer(replay_run(folder), as_json, shown_replay)


@app.command("list")
def list_parts(
    kind: Annotated[
        str,
        typer.Argument(help="algorithms, selectors, policies, codecs, folds, devices, states, partitions or tasks."),
    ],
    as_json: AsJson = False,
) -> None:
    """List the parts of a kind, with their parameters."""
    from fedfleet.app.show import shown_parts
    from fedfleet.app.tables import describe
    from fedfleet.core.registry import builder, names, summary

    items = [
        {"name": name, "summary": summary(builder(kind, name)), "parameters": describe(builder(kind, name))}
        for name in names(kind)
    ]
    answer({"kind": kind, "items": items}, as_json, shown_parts)


@app.command()
def report(folder: RunFolder, as_json: AsJson = False) -> None:
    """Write the report of a run as one HTML file, and print its measures; works while the run is still going on."""
    from fedfleet.app.report import report_run
    from fedfleet.app.show import shown_metrics

    metrics = report_run(folder)
    answer(metrics, as_json, shown_metrics)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder to write; an earlier demo there is replaced.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Three fleets from mild to severe, FedAvg under two pacing policies on each, one HTML report. About a minute."""
    from fedfleet.app.demo import run_demo
    from fedfleet.app.show import shown_demo

    answer(run_demo(out, quiet=as_json), as_json, shown_demo)


@app.command()
def serve(
    spec: Annotated[Path, typer.Argument(help="A spec file in TOML; its world gives the data only, reality the rest.")],
    words: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write; default: runs/NAME-wire-DIGEST.")] = None,
    address: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1:50051",
    devices: Annotated[
        int | None, typer.Option(help="Wait for so many devices before round 1; default: the cohort.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve a run to real device processes over gRPC. A first skeleton: no TLS, and a killed server starts again."""
    from fedfleet.app.network import serve_run
    from fedfleet.app.show import shown_run

    done = serve_run(spec, words or [], out, address, devices)
    answer(done.answer(), as_json, lambda a: shown_run(a, done.metrics))


@app.command()
def device(
    client: Annotated[int, typer.Option(help="Which client of the fleet this device is.")],
    server: Annotated[str, typer.Option(help="The server's address.")] = "127.0.0.1:50051",
    as_json: AsJson = False,
) -> None:
    """Be one device: enrol at a server, pull tasks, train, report, until the run is over."""
    from fedfleet.app.network import run_device

    answer(run_device(server, client), as_json, lambda a: f"client {a['client']}: {a['tasks']} tasks done")


@app.command()
def data(
    name: Annotated[str | None, typer.Argument(help="A dataset; without it, what there is.")] = None,
    to: Annotated[Path | None, typer.Option(help="Where to; default: $FEDFLEET_DATA, else ./data.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a public dataset, checked and resumable, into a folder of its own; without a name, list what there is."""
    from fedfleet.app.fetch import fetch_dataset, listed, shown_datasets, shown_fetch

    if name is None:
        answer(listed(), as_json, shown_datasets)
    else:
        answer(fetch_dataset(name, to, quiet=as_json), as_json, shown_fetch)


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version."""
    answer({"version": __version__}, as_json, lambda a: f"fedfleet {a['version']}")


if __name__ == "__main__":
    main()
