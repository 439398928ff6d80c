"""Models whose forward() gives an object with logits, as those of Hugging Face do: seen from outside, they give the logits."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from fedfleet.core.errors import BadInput

# First arguments of such models; tokens are looked up, so they must be whole numbers.
_TOKENS = ("input_ids", "decoder_input_ids")
_FIRST = (*_TOKENS, "pixel_values", "input_values", "input_features", "inputs_embeds")


class LogitsModel(nn.Module):
    """A model that is called with its input by name, and of whose answer only the logits count; the model itself is `.model`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.argument = first_argument(model)
        self.options = _options_of(model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = x.long() if self.argument in _TOKENS else x
        answer = self.model(**{self.argument: value}, **self.options) if self.argument else self.model(value, **self.options)
        return logits_of(answer)


def needs_wrapping(model: nn.Module, x: Any) -> bool | None:
    """Does forward() give an object or a dictionary with logits, or take its input by a name of Hugging Face? None: it cannot be
    tried, because its parameters have no numbers; what a model cannot do is said elsewhere."""
    if isinstance(model, LogitsModel):
        return False
    if first_argument(model) in _FIRST and hasattr(model, "config"):
        return True
    if any(nn.parameter.is_lazy(v) or v.is_meta for v in model.parameters()):
        return None
    was_training = model.training
    try:
        with torch.no_grad():
            answer = model.eval()(torch.as_tensor(x))
    except Exception:
        return False
    finally:
        model.train(was_training)
    return _logits(answer) is not None


def logits_of(answer: Any) -> torch.Tensor:
    """The logits of such an answer; a tensor stands for itself."""
    if isinstance(answer, torch.Tensor):
        return answer
    logits = _logits(answer)
    if logits is None:
        raise BadInput(
            f"model: it gives a {type(answer).__name__} without logits; choose a model with a head for the task, such as "
            "AutoModelForSequenceClassification or AutoModelForCausalLM"
        )
    return logits


def first_argument(model: nn.Module) -> str:
    """The name of the first argument of forward(); "" if it takes any number of arguments."""
    try:
        parameters = list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return ""
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return named[0] if named and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL else ""


def _options_of(model: nn.Module) -> dict[str, Any]:
    """Options that keep a model from making what nobody reads: past keys and values of a text."""
    try:
        known = inspect.signature(model.forward).parameters
    except (TypeError, ValueError):
        return {}
    return {"use_cache": False} if "use_cache" in known else {}


def _logits(answer: Any) -> torch.Tensor | None:
    found = answer.get("logits") if isinstance(answer, Mapping) else getattr(answer, "logits", None)
    return found if isinstance(found, torch.Tensor) else None
