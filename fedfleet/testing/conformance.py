"""What a check gives back: the rules that a part keeps, and a digest of all that it answered."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput


@dataclass(frozen=True, slots=True)
class Conformance:
    """A part that passed: its name, the rules that were checked, one sentence each, and the digest of all answers.

    Equal parts give equal digests in every process; `check_across_processes` compares them.
    """

    part: str
    checked: tuple[str, ...]
    digest: str

    def __str__(self) -> str:
        return "\n".join([f"{self.part} passed {len(self.checked)} checks:", *(f"- {sentence}" for sentence in self.checked)])


class CheckLog:
    """The rules that were checked so far, and the digest of what the part answered."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.sentences: dict[str, None] = {}
        self.hash = hashlib.sha256()

    def checked(self, sentence: str) -> None:
        """One more rule that the part keeps."""
        self.sentences[sentence] = None

    def answer(self, value: Any) -> str:
        """Add an answer to the digest, and give the digest of this answer alone."""
        digest = fingerprint(value)
        self.hash.update(digest.encode())
        return digest

    def end(self, quiet: bool) -> Conformance:
        """The result; it is printed unless `quiet`."""
        result = Conformance(self.part, tuple(self.sentences), self.hash.hexdigest())
        if not quiet:
            sys.stdout.write(f"{result}\n")
        return result


def fingerprint(value: Any) -> str:
    """A digest of every bit of records, trees, arrays and plain values: equal values, equal digests, in every process.

    >>> fingerprint({"w": np.zeros(2)}) == fingerprint({"w": np.zeros(2, np.float32)})
    False
    """
    digest = hashlib.sha256()
    _add(digest, value)
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        digest.update(f"array {array.dtype.str} {array.shape}|".encode())
        digest.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
    elif isinstance(value, Mapping):
        digest.update(b"table|")
        for key in sorted(value, key=str):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            digest.update(f"{key!r}:".encode())
            _add(digest, value[key])
    elif is_dataclass(value) and not isinstance(value, type):
        digest.update(type(value).__name__.encode())
        for field in fields(value):
            _add(digest, getattr(value, field.name))
    elif isinstance(value, list | tuple):
        digest.update(f"{len(value)} of|".encode())  # pyright: ignore[reportUnknownArgumentType]
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            _add(digest, item)
    elif callable(value):
        digest.update(b"a function|")  # two of the same code are different objects
    else:
        digest.update(f"{value!r}|".encode())


def check_across_processes(check: Callable[[], Conformance], *, quiet: bool = False) -> Conformance:
    """Call this check in two new processes in which Python hashes texts differently: what the part answers must be the same.

    It catches parts that use `hash()` of a text, or go through a set. `check` is a function without parameters at the top
    level of a file, which calls another check and returns its result. It takes some seconds.
    """
    name, module = getattr(check, "__qualname__", ""), getattr(check, "__module__", "")
    path = getattr(sys.modules.get(module), "__file__", None)
    if not name.isidentifier() or path is None:
        raise BadInput(
            f"check_across_processes: {check!r} cannot be called in another process; give a function at the top level of a file"
        )
    # A script would run again if it were imported by its name: only its functions are wanted.
    load = f"import runpy; space = runpy.run_path({path!r})" if module == "__main__" else f"import {module} as m; space = vars(m)"
    code = f"import sys; sys.path[:0] = {sys.path!r}; {load}; print('digest', space[{name!r}]().digest)"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, cwd=Path.cwd(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for seed in ("1", "2")
    ]  # fmt: skip
    ended = [process.communicate() for process in started]
    for process, (_, errors) in zip(started, ended, strict=True):
        assert process.returncode == 0, f"{name} must pass in another process too, and failed there: {errors.strip()[-400:]}"
    digests = [out.strip().rpartition(" ")[2] for out, _ in ended]
    assert digests[0] == digests[1], (
        f"{name}: the same part must answer the same in every process, and two processes with other text hashes (PYTHONHASHSEED) "
        "disagree; go through sorted(..) or a dict instead of a set, and use core.rng.hash_keys instead of hash()"
    )
    log = CheckLog(f"{name}, in two processes,")
    log.checked("it answers the same in processes whose text hashes differ")
    log.answer(digests[0])
    return log.end(quiet)
