"""BiasPrompt: a frozen backbone of which only the fast weights are trained and sent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedfleet.core.limits import Share, Width
from fedfleet.core.parts import Algorithm, Task


@dataclass(frozen=True, slots=True)
class FastWeights:
    """Gives a task prompts, and freezes everything but them, the biases and the head."""

    length: int
    border: float

    def __call__(self, task: Task, seed: int) -> Task:
        """The task as BiasPrompt trains it."""
        from fedfleet.tasks.frozen_weights import freeze
        from fedfleet.tasks.prompts import add_prompts, fast_weights

        prompted_task = add_prompts(task, self.length, self.border)
        return freeze(prompted_task, fast_weights(prompted_task), seed)


def with_bias_prompt(algorithm: Algorithm, *, prompt_length: Width = 12, border: Share = 0.134) -> Algorithm:
    """BiasPrompt: train and send only the biases, the prompts and the head of a pretrained model; the server has momentum.

    FLHetBench (Zhang et al. 2024), supplement. Vision transformers get `prompt_length` tokens in each layer, after the class
    token and replaced from layer to layer (VPT-deep, Jia et al. 2022), Xavier-uniform at first; other models of pictures or
    windows a learnt border of this share of the side (30 of 224 pixels in Bahng et al. 2022), zero at first. All else is frozen:
    it never travels and is not charged. The released code takes prompts of 12 tokens in its scripts, 50 in its parser, and forces
    server_momentum = 0.9 beside local rates of 1e-3 and server_lr = 1, which at our local rate overshoots.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> from fedfleet.tasks.digits import digits_vit
    >>> method = with_bias_prompt(fedavg(), prompt_length=2)
    >>> task = method.adapt(digits_vit()(0), 0)
    >>> [n for n in task.init(0) if n.startswith(("prompts", "head", "layers.0.attention"))][:4]
    ['layers.0.attention.qkv.bias', 'layers.0.attention.out.bias', 'prompts.0.table', 'prompts.1.table']
    """
    return replace(algorithm, name="biasprompt", adapt=FastWeights(prompt_length, border))
