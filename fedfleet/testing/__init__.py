"""Public conformance checks: run them over your own parts before you register them."""
