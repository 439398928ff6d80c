"""A tiny spec for tests of the application."""

TINY = """
seed = 3
[task]
use = "digits_logreg"
[world]
clients = 12
data = { use = "dirichlet", alpha = 0.5 }
devices = { use = "spread" }
[pace]
use = "readiness"
cohort = 4
[stop]
rounds = 6
[run]
checkpoint_every = 2
"""


def written(folder, text=TINY, name="spec.toml"):
    """The spec as a file in this folder."""
    path = folder / name
    path.write_text(text)
    return path
