"""Which public datasets can be fetched: where their files are, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedfleet.app.terminal.text import size


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file: its path in the dataset's folder, where it comes from, and its size and hash where they are known."""

    name: str
    url: str
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class PublicDataset:
    """Files that belong together; `use` says how to refer to them in FedFleet, with {at} for the folder."""

    summary: str
    terms: str
    files: tuple[RemoteFile, ...]
    use: tuple[str, ...] = ()


_GITHUB = "https://raw.githubusercontent.com"
_FEDSCALE = f"{_GITHUB}/SymbioticLab/FedScale/master/benchmark/dataset/data/device_info"
_FLASH = f"{_GITHUB}/PKU-Chengxu/FLASH/HEAD"
_FLHETBENCH = f"{_GITHUB}/Carkham/FLHetBench/HEAD"
_CASES = f"{_FLHETBENCH}/bench/cached_sample_data"
_CAPACITY_SHA = "477f61049443987318fc5667cafa059b3b420eb0e03ccb5ceb3262d20e059e53"
_BEHAVIOUR_SHA = "d0b6f81a01f0ea5f7ec432583f5afe93b1e72424db4c1affa88c484f15901662"

DATASETS: dict[str, PublicDataset] = {
    "fedscale": PublicDataset(
        "computing and link speed of 500,000 phones, charging times of 107,749",
        "Apache-2.0; cite FedScale, AI-Benchmark, MobiPerf and FLASH",
        (
            RemoteFile("client_device_capacity", f"{_FEDSCALE}/client_device_capacity", 39_369_071, _CAPACITY_SHA),
            RemoteFile("client_behave_trace", f"{_FEDSCALE}/client_behave_trace", 25_640_150, _BEHAVIOUR_SHA),
        ),
        ("fedscale:{at}",),
    ),
    "flash": PublicDataset(
        "AI-Benchmark scores of 333 phones, speeds of 19 WiFi users, state traces of 1,000 phones",
        "BSD-2-Clause; cite FLASH",
        (
            RemoteFile("speed_distri.json", f"{_FLASH}/models/speed_distri.json", 3_441),
            *(
                RemoteFile(name, f"{_FLASH}/models/utils/device_util/{name}", n)
                for name, n in (("raw_ai_benchmark_list.json", 169_981), ("benchmark2score.json", 8_211))
            ),
            RemoteFile("state_traces.json", f"{_FLASH}/data/state_traces.json"),
        ),
        ("flash:{at}",),
    ),
    "flhetbench": PublicDataset(
        "four device cases and four state cases of 100 clients, the 1,000 cached timers, training latencies",
        "no licence stated; the device cases hold MobiPerf's records with places and network names: do not pass them on",
        (
            *(
                RemoteFile(f"device/case{i}.json", f"{_CASES}/device/case{i}.json", n)
                for i, n in enumerate((169_865, 166_903, 169_241, 169_766), 1)
            ),
            *(
                RemoteFile(f"state/state_case{i}.json", f"{_CASES}/state/case{i}.json", n)
                for i, n in enumerate((629, 695, 679, 693), 1)
            ),
            RemoteFile("state/cached_timers.json", f"{_FLHETBENCH}/data/cached_timers.json", 881_628),
            RemoteFile("latency/training_latency.json", f"{_FLHETBENCH}/data/training_latency.json", 113_200),
        ),
        ("flhetbench:{at}/device/case1.json", "flhetbench:{at}/state/cached_timers.json#{at}/state/state_case1.json"),
    ),
}


def describe_datasets() -> dict[str, Any]:
    """The datasets that can be fetched; the answer of `fedfleet data`."""
    return {
        "datasets": [
            {
                "name": name,
                "summary": dataset.summary,
                "terms": dataset.terms,
                "files": [{"name": f.name, "url": f.url, "bytes": f.size, "sha256": f.sha256} for f in dataset.files],
            }
            for name, dataset in DATASETS.items()
        ]
    }


def datasets_text(answer: dict[str, Any]) -> str:
    """The datasets that can be fetched."""
    lines = []
    for d in answer["datasets"]:
        total = size(sum(f["bytes"] or 0 for f in d["files"]))
        more = "" if all(f["bytes"] for f in d["files"]) else " and more"
        lines += [f"{d['name']:<12} {d['summary']}", f"{'':<12} {len(d['files'])} files, {total}{more}; {d['terms']}"]
    return "\n".join([*lines, "fetch one with: fedfleet data NAME"])
