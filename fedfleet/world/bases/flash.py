"""FLASH's files: AI-Benchmark scores of phones, speeds of 19 WiFi users, state traces.

Devices are the phones of raw_ai_benchmark_list.json or, where that is missing, of benchmark2score.json. FLASH itself knows
three phones and gives every other the training time of the nearest. Here the time is interpolated:

1. FLASH measured 1642, 588 and 179 ms of training for a batch of its FEMNIST CNN, on the phones that it calls Google Nexus S,
   Xiaomi Redmi Note 7 Pro and Google Pixel 4 in supported_devices.json.
2. Between these the logarithm of the time is linear in the logarithm of the phone's score: the CPU float score (192, 2057 and
   3212 for the three), or the overall AI score (383, 6702 and 33289) where only benchmark2score.json is at hand. Beyond them
   time is inversely proportional to the score, which is what a score means.
3. A batch is taken to have 10 samples, as in FLASH's own configuration for FEMNIST; its code does not say. Training counts as
   three times inference, as everywhere in FedFleet: seconds_per_sample = time / 10 / 3.

Each phone gets one of the users in speed_distri.json, by a hash of its name. FLASH draws a normal speed anew until it is not
negative; a phone's measured speeds are 15 quantiles of that distribution. FLASH divides bytes by 1024 on the way down and by
1000 on the way up, and calls the unit kb/s: its speeds are kilobytes a second, here of 1000 bytes both ways.

States come from state_traces.json: id -> {guid, model, messages}, each line of messages "YYYY-mm-dd HH:MM:SS<TAB>state". A
phone is ready while it is locked, on WiFi and charging; seconds count from 2020-01-02 00:00:00 without daylight saving. As in
FLASH a pair [s, e] covers second e too, a ready time that is still open at the last line does not count, and the trace
repeats from its first line to its last.
"""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.fleet import DeviceTable, StateTable, device_table
from fedfleet.core.rng import client_keys, uniforms
from fedfleet.world.bases.file_checks import StateRow, numbers, phases, read_json, state_table

BATCH_SECONDS = (1.642, 0.588, 0.179)
CPU_FLOAT_SCORES = (192.0, 2057.0, 3212.0)
AI_SCORES = (383.0, 6702.0, 33289.0)
SAMPLES_PER_BATCH = 10
TRAINING_OVER_INFERENCE = 3
SPEEDS_PER_DEVICE = 15
SLOWEST_KILOBYTES = 1.0  # FLASH redraws below 0; a little more than that keeps every transfer finite
KBIT_PER_KILOBYTE = 8.0
ORIGIN = datetime(2020, 1, 2)
NAN = float("nan")

# state -> the condition that it changes, and to what; None: a state that readiness does not depend on
_MEANINGS: dict[str, tuple[str, bool] | None] = {
    "battery_charged_on": ("charging", True),
    "battery_charged_off": ("charging", False),
    "wifi": ("wifi", True),
    **dict.fromkeys(("unknown", "2g", "3g", "4g", "5g"), ("wifi", False)),
    "screen_lock": ("locked", True),
    "screen_unlock": ("locked", False),
    "screen_on": None,
    "screen_off": None,
}


def devices(path: str) -> DeviceTable:
    """The scored phones of FLASH's folder, each with the speeds of one of its WiFi users."""
    ids, seconds, memory = _phones(Path(path))
    users = _users(str(Path(path) / "speed_distri.json"))
    chosen = (uniforms(0, "flash speed", client_keys(ids)) * len(users)).astype(np.int64)
    down = [users[user][0] for user in chosen]
    up = [users[user][1] for user in chosen]
    return device_table(ids, down, seconds, up, memory_mb=np.array(memory))


def states(path: str) -> StateTable:
    """The state traces of FLASH's folder; phones that are never ready are left out.

    FOLDER#skip leaves out phones with lines that cannot be read, as FLASH does, instead of refusing them.
    """
    return states_and_left_out(path)[0]


def states_and_left_out(path: str) -> tuple[StateTable, int]:
    """The states, and how many phones were left out because they are never ready or, with #skip, cannot be read."""
    folder, _, option = path.partition("#")
    if option not in ("", "skip"):
        raise BadInput(f"{path}: there is no option {option!r}{suggest_name(option, ['skip'])}")
    file = str(Path(folder) / "state_traces.json")
    loaded = read_json(file)
    if not isinstance(loaded, dict) or not loaded:
        raise BadInput(f"{file}: a table of id -> trace is expected")
    rows: list[StateRow] = []
    for key, row in loaded.items():
        try:
            start, end, ready = _trace(row, f"{file}: state {key}")
        except BadInput as error:
            if option == "skip":
                continue
            raise BadInput(f"{error}; {folder}#skip leaves out such phones, as FLASH does") from None
        if ready:
            spans = phases(ready, start, end, f"{file}: state {key}")
            rows.append((str(row.get("guid", key)), start, end - start, spans))
    if not rows:
        raise BadInput(f"{file}: none of its {len(loaded)} phones is ever ready")
    return state_table(rows), len(loaded) - len(rows)


def seconds_per_sample(score: float, scores: tuple[float, float, float] = CPU_FLOAT_SCORES) -> float:
    """Inference seconds of FLASH's FEMNIST CNN on a phone with this score, by the rule above.

    >>> [round(1000 * seconds_per_sample(score), 2) for score in (96, 192, 2057, 3212, 6424)]
    [109.47, 54.73, 19.6, 5.97, 2.98]
    """
    inside = min(max(score, scores[0]), scores[-1])
    batch = math.exp(float(np.interp(math.log(inside), np.log(scores), np.log(BATCH_SECONDS))))
    return batch * (inside / score) / SAMPLES_PER_BATCH / TRAINING_OVER_INFERENCE


def _phones(folder: Path) -> tuple[list[str], list[float], list[float]]:
    """Names, seconds per sample and megabytes of memory of all phones in the folder's score file."""
    benchmark, scored = folder / "raw_ai_benchmark_list.json", folder / "benchmark2score.json"
    if benchmark.is_file():
        return _phones_from_benchmark(str(benchmark))
    if not scored.is_file():
        raise BadInput(f"{folder} has neither {benchmark.name} nor {scored.name}: it is not a folder with FLASH's files")
    rows = read_json(str(scored))
    if not isinstance(rows, dict) or not rows:
        raise BadInput(f"{scored}: a table of phone -> AI score is expected")
    result = [numbers([score], f"{scored}: phone {name}: AI score", positive=True)[0] for name, score in rows.items()]
    return list(rows), [seconds_per_sample(score, AI_SCORES) for score in result], [NAN] * len(rows)


def _phones_from_benchmark(file: str) -> tuple[list[str], list[float], list[float]]:
    rows = read_json(file)
    if not isinstance(rows, list) or not rows:
        raise BadInput(f"{file}: a list of phones is expected")
    ids, seconds, memory, seen = [], [], [], {}
    for i, row in enumerate(rows):
        name = row.get("Model") if isinstance(row, dict) else None
        if not isinstance(name, str) or not name.strip():
            raise BadInput(f"{file}: row {i} has no Model")
        where = f"{file}: row {i}, phone {name}"
        # Some models were measured twice, with other processors: the second becomes a phone of its own.
        seen[name] = seen.get(name, 0) + 1
        ids.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
        seconds.append(seconds_per_sample(_from_text(row.get("CPU_F_AI_Score"), "", f"{where}: CPU_F_AI_Score")))
        memory.append(NAN if row.get("RAM") is None else 1024.0 * _from_text(row["RAM"], "GB", f"{where}: RAM"))
    return ids, seconds, memory


def _from_text(value: Any, unit: str, where: str) -> float:
    """A positive number that the file has as text, such as "3744" or "0.75GB"."""
    try:
        result = float(value.strip().removesuffix(unit)) if isinstance(value, str) else value
    except ValueError:
        raise BadInput(f"{where}: {value!r} is not a number{' of ' + unit if unit else ''}") from None
    return numbers([result], where, positive=True)[0]


def _users(file: str) -> list[tuple[list[float], list[float]]]:
    """The speeds of each user in kbit/s, down and up, in the order of their names."""
    loaded = read_json(file)
    if not isinstance(loaded, dict) or not loaded:
        raise BadInput(f"{file}: a table of user -> speeds is expected")
    result = []
    for name, row in sorted(loaded.items()):
        where = f"{file}: user {name}"
        if not isinstance(row, dict):
            raise BadInput(f"{where}: a table with down_u, down_sigma, up_u and up_sigma is expected")
        result.append((_speeds(row, "down", where), _speeds(row, "up", where)))
    return result


def _speeds(row: dict[str, Any], way: str, where: str) -> list[float]:
    """Evenly spaced quantiles of the normal distribution above the slowest speed, in kbit/s."""
    mean = numbers([row.get(f"{way}_u")], f"{where}: {way}_u", positive=True)[0]
    spread = numbers([row.get(f"{way}_sigma")], f"{where}: {way}_sigma")[0]
    if mean < SLOWEST_KILOBYTES:
        raise BadInput(f"{where}: {way}_u: {mean:g} is below {SLOWEST_KILOBYTES:g} kB/s")
    if spread == 0:
        return [mean * KBIT_PER_KILOBYTE] * SPEEDS_PER_DEVICE
    normal = NormalDist(mean, spread)
    below = normal.cdf(SLOWEST_KILOBYTES)
    shares = [below + (i + 0.5) / SPEEDS_PER_DEVICE * (1.0 - below) for i in range(SPEEDS_PER_DEVICE)]
    return [KBIT_PER_KILOBYTE * max(SLOWEST_KILOBYTES, normal.inv_cdf(share)) for share in shares]


def _trace(row: Any, where: str) -> tuple[float, float, list[list[float]]]:
    """First and last second of a trace, and its ready pairs."""
    if not isinstance(row, dict) or not isinstance(row.get("messages"), str):
        raise BadInput(f"{where}: it has no messages")
    holds = {"charging": False, "wifi": False, "locked": False}
    start = last = since = None
    ready: list[list[float]] = []
    for number, line in enumerate(row["messages"].split("\n"), 1):
        if not line.strip():
            continue
        second, change = _event(line, f"{where}: line {number}")
        if last is not None and second < last:
            raise BadInput(f"{where}: line {number} goes back in time")
        start, last = second if start is None else start, second
        holds.update([change] if change else [])
        if all(holds.values()):
            since = second if since is None else since
        elif since is not None:
            ready.append([since, second])
            since = None
    if start is None or last is None:
        return 0.0, 0.0, []
    # A pair that begins with the last second has no room in the period.
    return start, last, [pair for pair in ready if pair[0] < last]


def _event(line: str, where: str) -> tuple[float, tuple[str, bool] | None]:
    """When, in seconds since the origin, and which condition changes."""
    moment, tab, word = line.strip().partition("\t")
    moment, word = moment.strip(), word.strip().lower()
    try:
        if not tab or len(moment) != 19 or moment[10] != " ":  # fromisoformat alone would take other spellings too
            raise ValueError
        second = (datetime.fromisoformat(moment) - ORIGIN).total_seconds()
        if word.endswith("%"):
            float(word[:-1])
            return second, None
    except ValueError:
        raise BadInput(f"{where}: {line.strip()!r} is not 'YYYY-mm-dd HH:MM:SS<TAB>state'") from None
    if word not in _MEANINGS:
        raise BadInput(f"{where}: there is no state {word!r}{suggest_name(word, _MEANINGS)}")
    return second, _MEANINGS[word]
