"""KEEPS: what a run folder is: journal, checkpoints of client memory, seals, locks, noise sources."""
