"""Search: the best values of some keys of a spec, with early stopping."""
