"""Studies: a grid of runs with seeds, kept, run side by side, and analysed."""
