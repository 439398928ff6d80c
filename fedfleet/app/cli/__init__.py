"""The command line: the entry point, the verbs, and what every verb needs on a terminal."""
