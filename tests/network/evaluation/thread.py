"""An evaluator in a thread of the server's own process: for plans that no spec names."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from fedfleet.core.trees import Tree
from fedfleet.network.evaluation.evaluators import EvalContext, EvalResult, evaluate_model


@dataclass(slots=True)
class ThreadEvaluator:
    """Evaluates one model after the other."""

    context: EvalContext
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "judge"))

    async def evaluate(self, version: int, params: Tree, clients: bool) -> EvalResult:
        """How this model does, with all clients' own test samples too if that is asked."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, evaluate_model, self.context, version, params, clients)

    async def close(self) -> None:
        """Let the thread go; a model that is being judged is not waited for."""
        self.thread.shutdown(wait=False, cancel_futures=True)
