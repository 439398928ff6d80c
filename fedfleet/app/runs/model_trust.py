"""The code of a spec's own model: trusted by its hash, and kept in the folder of each run that it trains."""

from __future__ import annotations

from pathlib import Path

from fedfleet.app.spec import Spec
from fedfleet.core.errors import BadInput
from fedfleet.store.files import write_atomically
from fedfleet.tasks.model_code import code_name, read_code
from fedfleet.tasks.onnx_model import is_onnx
from fedfleet.tasks.trusted_code import source_hash, trust, trusted_source

FOLDER = "code"


def has_model_code(spec: Spec) -> bool:
    """Does the spec name code, and not only parts that ship?"""
    return bool(spec.task.get("code")) and not spec.has_custom_task and not is_onnx(str(spec.task["model"]))


def trust_model(spec: Spec, digest: str | None, folder: Path | None = None) -> None:
    """Trust the code of a spec's model if `digest` is its hash. Its source is in its file, or in the run's folder."""
    if digest is None or not has_model_code(spec):
        return
    wanted = spec.task["code"]
    if digest != wanted:
        raise BadInput(f"--trust-code: the code of this run's model has the hash {wanted}, not {digest}")
    source = _source(spec, folder)
    if source is None:
        raise BadInput(
            f"task.model: the code with the hash {wanted} is neither in {spec.task['model']} nor in the run's folder; restore the "
            "file"
        )
    trust(source)


def keep_model_code(spec: Spec, folder: Path) -> None:
    """Keep the source in the folder of a run, for whoever audits or resumes it elsewhere."""
    if not has_model_code(spec):
        return
    source = _source(spec, folder)
    path = folder / FOLDER / f"{spec.task['code']}.py"
    if source is not None and not path.is_file():
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, source.encode())


def _source(spec: Spec, folder: Path | None) -> str | None:
    """The source with this spec's hash, from wherever it is."""
    digest, named = spec.task["code"], code_name(spec.task["model"])
    found = trusted_source(digest)
    if found is not None:
        return found
    files = [Path(named.file)] if named is not None and named.file else []
    files += [folder / FOLDER / f"{digest}.py"] if folder is not None else []
    for file in files:
        if file.is_file() and source_hash(text := read_code(str(file))) == digest:
            return text
    return None
