"""A person's own data and model as parameters of calls: each declared once, with the help of its option; and in refusals."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

OwnPath = Annotated[str | Path | Any, "Your own data, a file or a folder, instead of the task of the spec."]
OwnModel = Annotated[str | Any, "The model for your data: model.py:Net, net.onnx, or one that ships (linear, mlp, cnn, gpt, lstm)."]
LabelColumn = Annotated[Sequence[str] | str | None, "The column of the labels; may be repeated, for several outputs or labels."]
OwnerColumn = Annotated[str | None, "The column that says who made each sample: each owner becomes a client."]
InputColumns = Annotated[Sequence[str] | str | None, "The columns of the inputs, separated by commas; default: all others."]
DroppedColumns = Annotated[
    Sequence[str] | str | None,
    "Columns that are not read, separated by commas, such as numbers of rows; the inputs are all others.",
]
TimeColumn = Annotated[str | None, "The column that says when each sample was made, as a number or a date; it is no input."]
KindOfTask = Annotated[
    str | None, "What is predicted: classification, regression, multilabel, next_token, sequence_labels; default: by the labels."
]
MissingRule = Annotated[str | None, "What becomes of samples with missing values: error (the default), drop, or mean."]

_STAND_INS = {"input": "COLUMN,..", "drop": "COLUMN,..", "label": "COLUMN", "owner": "COLUMN", "time": "COLUMN", "kind": "KIND"}
_SETTING = re.compile(r"\btask\.(label|owner|input|drop|time|kind|missing)\b( ?= ?(\[[^\]]*\]|\.\.|'[^']*'|\"[^\"]*\"|\w+))?")


def with_option_names(text: str, flags: Mapping[str, str]) -> str:
    """A sentence about keys of the task, as somebody reads it who typed options: `task.label=..` becomes `--label COLUMN`.

    >>> with_option_names("use task.missing = \\"drop\\" or task.drop=['id', 'no']", {"missing": "--missing", "drop": "--drop"})
    'use --missing drop or --drop id,no'
    """

    def option(match: re.Match[str]) -> str:
        name, value = match[1], match[3]
        if name not in flags:
            return match[0]
        return flags[name] if value is None else f"{flags[name]} {_typed(name, value)}"

    return _SETTING.sub(option, text).replace("task.path:", f"{flags.get('data', 'task.path')}:")


def _typed(name: str, value: str) -> str:
    if value in ("..", "[..]"):
        return _STAND_INS.get(name, "VALUE")
    words = re.findall(r"'([^']*)'|\"([^\"]*)\"", value)
    return shlex.quote(",".join(first or second for first, second in words) if words else value)


def cure_options(cure: Mapping[str, str | Sequence[str]], flags: Mapping[str, str]) -> list[str]:
    """The arguments that cure a refusal, as words of the command line.

    >>> cure_options({"drop": ["id", "no"], "missing": "mean"}, {"drop": "--drop", "missing": "--missing"})
    ['--drop', 'id,no', '--missing', 'mean']
    """
    result = list[str]()
    for name, value in cure.items():
        result += [flags[name], value] if isinstance(value, str) else [flags[name], ",".join(value)]
    return result
