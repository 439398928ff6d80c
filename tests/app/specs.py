"""What tests of the application share: a tiny spec, and what a refusal looks like."""

import json

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


def fleet(folder, n=30):
    """A devices file and a states file of n clients, who share seven devices and five states."""
    devices = [
        {"id": f"d{i % 7}", "down_kbps": [20000 + 1000 * (i % 7), 50000], "up_kbps": None, "seconds_per_sample": 0.05}
        for i in range(n)
    ]
    states = [{"id": f"s{i % 5}", "start": 0, "end": 86400, "ready": [[i % 5 * 100, 40000 + i % 5 * 100]]} for i in range(n)]
    for name, rows in (("devices", devices), ("states", states)):
        (folder / f"{name}.json").write_text(json.dumps({"format": f"fedfleet/{name}@1", name: rows}))
    return folder / "devices.json", folder / "states.json"


def refused(answer, *mentions):
    """The command refused its input: exit code 2, one sentence on standard error that mentions these words."""
    code, out, err = answer
    assert code == 2, (out, err)
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    assert "Traceback" not in err
    for mention in mentions:
        assert mention in err, err
