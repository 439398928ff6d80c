"""`fedfleet list`, `data` and `version`: which parts and datasets there are, and which version this is."""

from __future__ import annotations

from pathlib import Path

from fedfleet import __version__
from fedfleet.app.terminal.answers import AS_JSON, Answer
from fedfleet.core.errors import BadInput
from fedfleet.core.registry import KINDS

# What people call the parts of a kind.
_SYNONYMS = {
    "methods": "algorithms", "models": "tasks", "datasets": "tasks", "samplers": "devices", "compressors": "codecs",
    "compression": "codecs", "aggregators": "folds", "aggregation": "folds", "pace": "policies", "pacing": "policies",
    "strategies": "algorithms", "optimizers": "algorithms",
    "optimisers": "algorithms", "clients": "devices", "schedulers": "policies", "choose": "selectors", "selection": "selectors",
}  # fmt: skip


def list_parts(kind: str | None = None) -> Answer:
    """List the parts of a kind, with their parameters; of tasks also whether their data are here.

    Args:
        kind: one of: algorithms, selectors, policies, codecs, folds, attacks, privacy, devices, states, faults, energy, partitions,
            users, edges, evidence, tasks.
    """
    if kind is None:
        raise BadInput(f"give the kind of part to list: fedfleet list KIND, with one of {', '.join(KINDS)}")
    synonym = _SYNONYMS.get(kind.lower().replace("-", "_"))
    if synonym is not None:
        raise BadInput(f"there is no kind of part called {kind!r}; did you mean {synonym!r}? fedfleet list {synonym}")
    from fedfleet.app.spec.parameter_text import describe_parts, parts_text

    return Answer(describe_parts(kind), parts_text)


def fetch_data(name: str | None = None, *, to: Path | None = None) -> Answer:
    """Fetch a public dataset into a folder of its own, checked and resumable; without a name, list the datasets.

    Args:
        name: the dataset to fetch; without a name, all are listed.
        to: the folder to fetch into; default: $FEDFLEET_DATA, else ./data.
    """
    from fedfleet.app.datasets.catalogue import datasets_text, describe_datasets
    from fedfleet.app.datasets.fetch import fetch_dataset, fetch_text

    if name is None:
        return Answer(describe_datasets(), datasets_text)
    return Answer(fetch_dataset(name, to, quiet=AS_JSON.get()), fetch_text)


def version() -> Answer:
    """Print the version."""
    return Answer({"version": __version__}, f"fedfleet {__version__}")
