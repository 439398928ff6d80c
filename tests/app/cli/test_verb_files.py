"""A verb with a Python twin is one road: few files lie between what is typed and what is printed."""

import ast
from importlib import import_module
from inspect import getsourcefile
from pathlib import Path

import pytest

import fedfleet as package
from fedfleet.app.cli import call_parameters, verbs

MOST = 4
RESULTS = {
    "measure": ("Measured",), "predict": ("Predicted", "Swept"), "compare": ("Comparison",), "study": ("Studied",),
    "tune": ("Tuned",), "report": ("Reported",),
}  # fmt: skip


def files_of(verb: str) -> set[Path]:
    """The files that a verb crosses without the work itself: its entry, its options, the call, the record with JSON and text."""
    call = verbs.VERBS[verb].call.partition(":")[0]
    homes = [call, *(package._HOME[name] for name in RESULTS[verb])]
    files = {Path(getsourcefile(import_module(home))) for home in homes}
    for home in homes[1:]:  # a record may leave its JSON or its text to a module of its own
        for function in ast.walk(ast.parse(Path(getsourcefile(import_module(home))).read_text())):
            if isinstance(function, ast.FunctionDef) and function.name in ("to_dict", "__str__"):
                inner = [node for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
                files |= {Path(getsourcefile(import_module(node.module))) for node in inner}
    return files | {Path(getsourcefile(verbs)), Path(getsourcefile(call_parameters))}


@pytest.mark.parametrize("verb", RESULTS)
def test_a_verb_crosses_few_files(verb):
    files = files_of(verb)
    assert len(files) <= MOST, sorted(file.name for file in files)
