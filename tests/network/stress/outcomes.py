"""Stress runs that nobody carried out."""

from fedfleet.network.stress.meters import Usage
from fedfleet.network.stress.raw_grpc import RawRate
from fedfleet.network.stress.stress_run import Outcome


def tally(**changed):
    """What one generator might have seen."""
    plain = {
        "updates": 30,
        "checks": 30,
        "fetched_bytes": 0,
        "statuses": {"SAFE": 30},
        "failures": {},
        "cpu_seconds": 0.06,
    }
    return {**plain, "check": {"100": 30}, "hand": {"120": 30}, **changed}


def outcome(stress, *, committed=(5.0, 6.0, 8.0), peak_mb=100.0, raw=None, tallies=None):
    """An outcome of these moments."""
    seen = Usage(60.0, peak_mb, 3, {1: 0.5}, {1: 0.2})
    return Outcome(
        stress.with_defaults(),
        list(committed),
        tallies or [tally()],
        seen,
        {"unary": RawRate(20.0, 1.5)} if raw is None else raw,
    )
