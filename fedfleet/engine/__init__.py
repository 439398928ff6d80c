"""DECIDES: the coordinator as pure functions. No clock, no thread, no input or output, no logger."""
