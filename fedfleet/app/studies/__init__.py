"""Several runs: studies over a grid, comparisons, searches and predictions."""
