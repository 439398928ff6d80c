"""Pages of predictions: the curve foretold with its band, who will be left out, what cannot be seen; and a sweep's trade-off."""
def prediction_page(a,b): return ""
def sweep_page(a,b): return ""
