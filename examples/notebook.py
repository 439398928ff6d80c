# ---
# jupyter:
#   jupytext:
#     text_representation:
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A run, looked at from Python
#
# As a notebook: `jupytext --to ipynb examples/notebook.py`, or the one that `make docs` puts beside the site. As a script: `python
# examples/notebook.py`.

# %%
import tempfile

import fedfleet

folder = tempfile.mkdtemp()
spec = {
    "seed": 3,
    "task": "digits_logreg",
    "world": {"clients": 40, "model_bytes": 1e8, "devices": {"use": "spread", "link": 1.5}, "data": {"use": "dirichlet"}},
    "pace": {"use": "deadline", "cohort": 10, "seconds": 60.0},
    "stop": {"rounds": 15},
}  # fmt: skip

# %% [markdown]
# ## Before anything is trained
#
# How hard is this fleet, and what will come of it? `print(hard)` and `print(foretold)` say more; `foretold.curve` has its band.

# %%
hard = fedfleet.measure(spec, seeds=1)
print(hard.verdict)
foretold = fedfleet.predict(spec, cache=f"{folder}/reference")
assert foretold.accuracy is not None  # as it is for other tasks than classification
print(f"about {foretold.accuracy.value:.1%}, {foretold.commits.value:.0f} models. {foretold.left_out['sentence']}")

# %% [markdown]
# ## Train
#
# `result.rounds` and `result.clients` are plain columns: `pandas.DataFrame(result.rounds)` is a table with a row for each round.

# %%
result = fedfleet.run(spec, out=f"{folder}/hurried")
print(f"{result.metrics['accuracy']:.1%} after {result.metrics['virtual_seconds'] / 3600:.1f} h of virtual time")
print("accuracy by round:", [round(float(value), 2) for value in result.rounds["accuracy"]])

# %% [markdown]
# ## Who took part
#
# A client is left out if no report of theirs ever entered a model.

# %%
left_out = (result.clients["folded"] == 0).sum()
print(f"{left_out} of {len(result.clients['folded'])} never took part")

# %% [markdown]
# ## The same, waiting for everybody
#
# Words override keys of the spec. `compare` says what differs, at the end and at equal virtual time, and how sure that is.

# %%
patient = fedfleet.run(spec, "pace.use=readiness", "pace.cohort=10", out=f"{folder}/patient")
found = fedfleet.compare([result, patient])
print(found.verdict.sentence)

# %% [markdown]
# ## A better learning rate
#
# Three trials, the spec as it stands among them; `tuned.best` are the values, `tuned.page` is a page to show.

# %%
tuned = fedfleet.tune(spec, space={"algorithm.lr": [0.1, 0.5, 1.0]}, sampler="grid", trials=3, out=f"{folder}/tuned")
print(tuned)
print(fedfleet.report(tuned).page)

# %% [markdown]
# ## The model
#
# Plain arrays by the names of the module's `state_dict`.

# %%
for name, value in result.params.items():
    print(name, value.shape, value.dtype)
