"""A processor share without cgroups: a process that has used its budget is stopped until the budget has grown again.

Pure: the controller brings the clock, the processor time that each process has used, and the signals.
"""

from __future__ import annotations

from dataclasses import dataclass

PERIOD = 0.1  # seconds of budget that an idle process may save up


@dataclass(slots=True)
class CpuBudget:
    """The processor seconds that a process may still use: they grow with time by `share`, up to what one period gives.

    It may run into debt by what it uses between two looks; the debt is paid before it runs again, so the mean share is kept.
    """

    share: float
    at: float
    used: float
    credit: float = 0.0

    def may_run(self, now: float, used: float) -> bool:
        """Whether the process may run from now on, which by now has used that much processor time in its life."""
        self.credit += self.share * (now - self.at) - (used - self.used)
        self.credit = min(self.credit, self.share * PERIOD)
        self.at, self.used = now, used
        return self.credit >= 0.0
