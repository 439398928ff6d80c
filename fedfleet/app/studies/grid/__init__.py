"""Studies: a grid of runs with seeds, kept, run in parallel, and analysed."""
