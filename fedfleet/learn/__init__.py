"""WHAT: local objectives, folds, server rules. `zoo` names the methods."""
