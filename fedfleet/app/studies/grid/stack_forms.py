"""The forms in which a study's stacked runs compute: chosen once, kept in its folder, so that no later choice changes a bit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.app.spec import Spec
from fedfleet.app.studies.grid.joint_jobs import form_for, shape_of
from fedfleet.core.errors import BadInput
from fedfleet.store.files import write_atomically

if TYPE_CHECKING:
    from fedfleet.executors.stacked.form_choice import Form

FILE = "forms.json"
Choose = Callable[[Spec], "Form | None"]


def load_forms(folder: Path, specs: Sequence[Spec], choose: Choose = form_for) -> list[list[Any] | None]:
    """For each run the name of its form and the threads; None where it has none to choose.

    Which form is fastest is measured, and a busy machine may measure otherwise: what was chosen first stays.
    """
    path = folder / FILE
    try:
        known: dict[str, list[Any]] = dict(json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {})
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{path} cannot be read ({error}); restore it, or choose another folder with --out") from None
    result = dict(known)
    for spec in specs:
        if spec.run["execute"] == "stacked" and shape_of(spec) not in result:
            form = choose(spec)
            if form is not None:
                result[shape_of(spec)] = [form.name, form.threads]
    if result != known:
        write_atomically(path, (json.dumps(result, indent=1) + "\n").encode())
    return [result.get(shape_of(spec)) if spec.run["execute"] == "stacked" else None for spec in specs]
