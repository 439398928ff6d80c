"""Who may read what a run writes: only its owner, in the folder of a served run."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def private_files() -> Iterator[None]:
    """Whatever this process and its children create meanwhile, only its owner can read: by the mode of creation."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def creation_mode(folder: Path) -> int:
    """The mode of a new file in this folder: private in a private folder, else what the process would make.

    So what is written into the folder of a served run later, a report for instance, is private too.
    """
    return 0o666 if stat.S_IMODE(folder.stat().st_mode) & 0o077 else 0o600
