"""Models of the shape that Hugging Face gives its models, and data for them; made of PyTorch alone."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

TOKENS, PLACES = 7, 6
RNG = np.random.default_rng(0)
TEXT = RNG.integers(0, TOKENS, (60, PLACES + 1))
READ, NEXT = TEXT[:, :-1], TEXT[:, 1:]
TOPIC = TEXT[:, 0] % 3


@dataclass
class Answer:
    """As a `ModelOutput`: an object with logits among other things."""

    logits: torch.Tensor
    loss: None = None


class LanguageModel(nn.Module):
    """Looks tokens up, has positions that do not depend on the batch, dropout, a constant buffer, and a head tied to its table."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.config = SimpleNamespace(model_type="stand-in", problem_type=None)
        self.embed, self.positions = nn.Embedding(TOKENS, 4), nn.Embedding(PLACES, 4)
        self.drop, self.head = nn.Dropout(dropout), nn.Linear(4, TOKENS, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.triu(torch.full((PLACES, PLACES), -torch.inf), 1), persistent=False)

    def forward(self, input_ids=None, attention_mask=None, use_cache=True, labels=None):
        assert input_ids.dtype == torch.int64
        assert not use_cache, "nobody reads past keys"
        place = torch.arange(input_ids.shape[1])[None]
        h = self.drop(self.embed(input_ids) + self.positions(place))
        return Answer(self.head(torch.softmax(h @ h.transpose(1, 2) + self.mask, -1) @ h))


class Classifier(nn.Module):
    """Gives a dictionary, and calls its input as it likes."""

    def __init__(self, classes=3):
        super().__init__()
        self.body, self.classifier = nn.Linear(PLACES, 8), nn.Linear(8, classes)

    def forward(self, values):
        return {"logits": self.classifier(torch.tanh(self.body(values))), "hidden": None}


def untied(model):
    """The names of a model's state, and of what it trains."""
    return sorted(model.state_dict()), sorted(n for n, _ in model.named_parameters())
