"""`fedfleet data`: fetch public datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer


def data(
    name: Annotated[str | None, typer.Argument(help="The dataset to fetch; without a name, all are listed.")] = None,
    to: Annotated[
        Path | None, typer.Option(help="The folder to fetch into; default: $FEDFLEET_DATA, else ./data.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a public dataset into a folder of its own, checked and resumable; without a name, list the datasets."""
    from fedfleet.app.datasets.catalogue import describe_datasets
    from fedfleet.app.datasets.fetch import fetch_dataset
    from fedfleet.app.terminal.text import datasets_text, fetch_text

    if name is None:
        answer(describe_datasets(), as_json, datasets_text)
    else:
        answer(fetch_dataset(name, to, quiet=as_json), as_json, fetch_text)
