"""The verbs of the command line: each is a Python call. Its signature and docstring are its options and its help."""

from __future__ import annotations

from fedfleet.app.cli.verb_records import Group, Verb
from fedfleet.app.terminal.answers import print_answer, say_unless_json

_API = "fedfleet.app.api"
_RUN = {"folder": "RUN"}
_WHO, _WAITING, _MACHINE = "Who may come in", "Waiting for devices", "The machine"
_HTTP = "Devices and browsers over HTTP"
_TLS_FILES = {"certificate": "--certificate FILE", "key": "--key FILE", "token_file": "--token-file FILE", "ca": "--ca FILE"}
_OWN = {
    "data": "--data PATH",
    "label": "--label COLUMN",
    "owner": "--owner COLUMN",
    "input": "--input COLUMN,..",
    "drop": "--drop COLUMN,..",
    "time": "--time COLUMN",
    "model": "--model FILE.py:NAME",
    "kind": "--kind KIND",
    "missing": "--missing RULE",
}
_OWN_PANEL = {"Your own data and model": tuple(_OWN)}
_SIGNING = {"trust_code": "--trust-code HASH", "sign": "--sign KEY"}

# In the order of `fedfleet --help`.
VERBS: dict[str, Verb | Group] = {
    "demo": Verb(f"{_API}.browser:demo"),
    "run": Verb(f"{_API}.train:run_spec", {"spec": "[SPEC]"}, {**_SIGNING, **_OWN, "track": "--track TOOL:WHERE"}, _OWN_PANEL),
    "study": Verb(
        f"{_API}.study:study",
        {"file": "FILE"},
        {**_OWN, "scale": "--scale NAME", "out": "--out DIR", "track": "--track TOOL:WHERE"},
        _OWN_PANEL,
        interrupted="interrupted; what has been run is kept: run the same command again to resume",
    ),
    "tune": Verb(
        f"{_API}.tune:tune",
        {"spec": "[SPEC]"},
        {**_OWN, "space": "--space FILE", "out": "--out DIR", "track": "--track TOOL:WHERE"},
        _OWN_PANEL,
        supplied={"on_trial": say_unless_json},
        interrupted="interrupted; what has been tried is kept: run the same command again to resume",
    ),
    "report": Verb(f"{_API}.report:report", {"of": "RUN|STUDY"}),
    "compare": Verb(f"{_API}.study:compare", {"runs": "RUN.."}, {"page": "--out PAGE"}),
    "dashboard": Verb(
        f"{_API}.browser:dashboard",
        {"runs": "[RUNS]"},
        _TLS_FILES,
        {"Beyond this machine": ("name", "token", "token_file", "certificate", "key")},
        supplied={"on_ready": print_answer},
    ),
    "explain": Verb(f"{_API}.audit:explain", _RUN, {**_SIGNING, "rounds": "--rounds N", "cache": "--cache DIR"}),
    "export": Verb(f"{_API}.audit:export", _RUN, {"to": "--to TOOL:WHERE", "onnx": "--onnx FILE"}),
    "replay": Verb(f"{_API}.audit:replay", _RUN, _SIGNING),
    "verify": Verb(f"{_API}.audit:verify", _RUN, {"signer": "--signer KEY.pub"}),
    "list": Verb(f"{_API}.parts:list_parts", {"kind": "KIND"}),
    "sample": Group(
        "Make a fleet: draw devices or states from a base with a sampler.",
        {
            "devices": Verb(f"{_API}.sample:devices", options={"page": "--picture"}),
            "states": Verb(f"{_API}.sample:states", options={"page": "--picture"}),
        },
    ),
    "fleet": Group(
        "Make files of devices and states from what real devices showed.",
        {
            "from-run": Verb(f"{_API}.fleet_files:from_run", _RUN, {"out": "--out FILE", "states": "--states FILE"}),
            "from-profiles": Verb(f"{_API}.fleet_files:from_profiles", {"files": "FILE..."}, {"out": "--out FILE"}),
        },
    ),
    "measure": Verb(f"{_API}.measure:measure", {"spec": "[SPEC]"}, {**_OWN, "page": "--picture"}, _OWN_PANEL),
    "predict": Verb(
        f"{_API}.predict:predict",
        {"spec": "[SPEC]"},
        {**_OWN, "sweep": "--sweep KEY=A..B", "page": "--out PAGE", "cache": "--cache DIR"},
        _OWN_PANEL,
    ),
    "shuffle": Verb(f"{_API}.shuffle:shuffle", {"file": "FILE"}, {"page": "--picture"}),
    "serve": Verb(
        f"{_API}.serve:serve",
        {"spec": "[SPEC]"},
        {
            **_TLS_FILES, **_SIGNING, **_OWN, "address": "--address HOST:PORT", "client_ca": "--client-ca FILE",
            "evidence": "--evidence NAME[:ARG]", "metrics": "--metrics HOST:PORT",
            "http": "--http [HOST:]PORT", "allow_origin": "--allow-origin ORIGIN",
        },
        {
            **_OWN_PANEL,
            _WHO: ("certificate", "key", "client_ca", "open_enrolment", "evidence"),
            _HTTP: ("http", "allow_origin", "page"),
            _WAITING: ("devices", "patience", "lease", "evaluate", "evaluate_seconds"),
            _MACHINE: ("transmitters", "hold", "keep_reports", "metrics", "drain_seconds", "log_level"),
        },
    ),
    "device": Verb(
        f"{_API}.device:device",
        options={
            **_TLS_FILES, "server": "--server HOST:PORT", "data": "--data FILE|FOLDER",
            "trust_code": "--trust-code HASH", "store": "--store DIR",
            "evidence": "--evidence FILE",
        },
    ),
    "edge": Verb(
        f"{_API}.edge:edge",
        options={
            **_TLS_FILES, "upstream": "--upstream HOST:PORT", "listen": "--listen HOST:PORT", "store": "--store DIR",
            "client_ca": "--client-ca FILE", "upstream_ca": "--upstream-ca FILE", "metrics": "--metrics HOST:PORT",
        },
        panels={
            "The server": ("upstream", "client", "token", "token_file", "tls", "upstream_ca"),
            "Its devices": (
                "listen", "certificate", "key", "client_ca", "open_enrolment", "patience", "lease", "transmitters", "hold",
            ),
        },
    ),
    "status": Verb(f"{_API}.serve:status", {"address": "[HOST:PORT]"}, {**_TLS_FILES, "server": "--server HOST:PORT"}),
    "trust": Verb(f"{_API}.access:trust", {"file": "FILE.py"}),
    "token": Verb(
        f"{_API}.access:token",
        _RUN,
        {"show": "--list", "revoke": "--revoke ID", "revoke_client": "--revoke-client CLIENT"},
    ),
    "certificate": Verb(
        f"{_API}.access:certificate",
        options={"out": "--out DIR", "host": "--host NAME", "client": "--client NAME"},
    ),
    "pool": Verb(f"{_API}.pool:pool", {"spec": "[SPEC]"}, {"out": "--out DIR"}),
    "stress": Verb(f"{_API}.stress:stress", options={"sweep": "--sweep N,N,.."}),
    "data": Verb(f"{_API}.parts:fetch_data", {"name": "[NAME]"}),
    "pretrain": Verb(f"{_API}.speed:pretrain", {"task": "TASK"}),
    "profile": Verb(f"{_API}.speed:profile", options={"device_id": "--id"}),
    "bench": Group("Measure speed on this machine.", {"train": Verb(f"{_API}.speed:bench_train")}),
    "version": Verb(f"{_API}.parts:version"),
}  # fmt: skip
