"""Statistics over runs: means, paired comparisons, correlations, times that were not reached."""
