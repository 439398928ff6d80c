"""Proofs that take long: `make soak` runs them, `make test` runs a sample of each elsewhere."""

import os

collect_ignore_glob = [] if os.environ.get("FEDFLEET_SOAK") else ["test_*.py"]
