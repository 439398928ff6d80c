"""Seconds per round of other simulators on the same work, in one run on one machine."""
