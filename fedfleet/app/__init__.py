"""PEOPLE: the spec, the command line, reports."""
