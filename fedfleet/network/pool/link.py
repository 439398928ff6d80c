"""One direction of an emulated link: when bytes may pass (a token bucket, paced by deadlines) and when they arrive (a fixed delay).

Pure: the relay brings the clock. Pacing by deadlines means that a timer that fires late delays nothing that follows: what was due
in the meantime passes at once, as far as the credit goes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

CREDIT_SECONDS = 0.020  # of the rate: bytes that may pass at once after the link was idle, or a timer was late
_PIECE_SECONDS = 0.005  # of the rate: pieces are small beside the credit
_LEAST_PIECE, _LARGEST_PIECE = 256, 1 << 16


@dataclass(slots=True)
class Link:
    """A rate in bytes a second (None: unlimited) and a delay in seconds; the state is one number, the time at which all is paid."""

    rate: float | None = None
    delay: float = 0.0
    paid: float = -math.inf

    @property
    def piece(self) -> int:
        """How many bytes should pass at once, at most."""
        wanted = _LARGEST_PIECE if self.rate is None else int(self.rate * _PIECE_SECONDS)
        return min(_LARGEST_PIECE, max(_LEAST_PIECE, wanted))

    def departure(self, nbytes: int, now: float) -> float:
        """When these bytes, which are ready now, may pass. By any time t the bytes that passed are at most rate t + credit."""
        if self.rate is None:
            return now
        self.paid = max(self.paid, now) + nbytes / self.rate
        return max(now, self.paid - CREDIT_SECONDS)
