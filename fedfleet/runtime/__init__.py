"""ACTS: runtimes and executors. Only here does anything wait, spawn, or read a clock."""
