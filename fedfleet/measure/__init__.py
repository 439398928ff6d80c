"""COUNTS: every number that we publish is a function of the journal."""
