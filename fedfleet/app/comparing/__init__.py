"""Comparison: what differs between runs, and what can be said of it."""
