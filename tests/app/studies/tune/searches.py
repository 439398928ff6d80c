"""What tests of searches share: a tiny spec with a space, and searches of it."""

import copy
import tomllib

from fedfleet.app.studies.tune.search_file import search_of
from tests.app.specs import TINY

SPACE = {"algorithm.lr": {"low": 0.01, "high": 1.0, "log": True}, "algorithm.batch": [8, 16]}


def table(tune=None, **changes):
    """The tiny spec as a table, with [tune]."""
    result = tomllib.loads(TINY)
    result["run"]["execute"] = "inline"
    result["stop"]["rounds"] = 3
    asked = {"trials": 3, "space": copy.deepcopy(SPACE), **(tune or {})}
    return {**result, "tune": asked, **changes}


def searched(tune=None, **changes):
    """The search of such a table."""
    return search_of(table(tune, **changes), "tiny")
