"""Studies: questions answered with runs, each repeatable by one command."""
