"""A person's own data and model as parameters of calls: each declared once, with the help of its option."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

OwnPath = Annotated[str | Path | Any, "Your own data, a file or a folder, instead of the task of the spec."]
OwnModel = Annotated[str | Any, "The model for your data: model.py:Net, or one that ships (linear, mlp, cnn, gpt, lstm)."]
LabelColumn = Annotated[Sequence[str] | str | None, "The column of the labels; may be repeated, for several outputs or labels."]
OwnerColumn = Annotated[str | None, "The column that says who made each sample: each owner becomes a client."]
KindOfTask = Annotated[
    str | None, "What is predicted: classification, regression, multilabel, next_token, sequence_labels; default: by the labels."
]
MissingRule = Annotated[str | None, "What becomes of samples with missing values: error (the default), drop, or mean."]
