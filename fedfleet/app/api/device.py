"""`fedfleet device`: taking part in a served run as one device.

A small device has this call and what it imports, and nothing else of FedFleet: see packaging/device.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fedfleet.app.terminal.answers import Answer, say
from fedfleet.app.terminal.value_checks import one_of
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.engines import ENGINES, EngineName, require_engine

if TYPE_CHECKING:
    from fedfleet.network.device.client_runtime import ClientRuntime
    from fedfleet.network.device.work import Fetch

ADDRESS = "127.0.0.1:50051"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_Seconds = Annotated[float, Ge(0.0)]


def device(
    *,
    server: str = ADDRESS,
    client: Annotated[int, Ge(0), Le(100_000_000)] | None = None,
    token: str | None = None,
    token_file: Path | None = None,
    data: Path | None = None,
    trust_code: str | None = None,
    engine: EngineName = "torch",
    store: Path | None = None,
    tls: bool = False,
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    max_bytes: Annotated[int, Ge(1)] = 2 << 30,
    max_steps: Annotated[int, Ge(1)] = 1_000_000,
    max_tasks: Annotated[int, Ge(1)] | None = None,
    max_seconds: _Seconds | None = None,
    min_noise: _Seconds = 0.0,
    patience: _Seconds = 600.0,
    evidence: Path | None = None,
    share_samples: bool = False,
) -> Answer:
    """Be one device: enrol at a server, then pull tasks, train on samples that stay here, and report until the run is over.

    Args:
        server: the server's address, HOST:PORT; a URL (https://HOST:PORT) calls over HTTP, without gRPC.
        client: which client of the fleet to be, from 0; default: as before, or a free one.
        token: the token that invites this device; also FEDFLEET_TOKEN or --token-file.
        token_file: a file that holds the token.
        data: your own samples, which stay here: a file like that of the server, if it serves own data (.csv, .tsv, .arff, .parquet,
            .npz or a folder); otherwise an .npz with arrays x and y, a .csv with a column called label, one sample a row, or a
            folder with one sub-folder for each class, called by its number, with .npy files (one sample each) or .csv files (one
            sample a row). A seeded fifth of them tests. Without it: the shard that the spec deals to this client, for rehearsals.
        trust_code: run the code of the server's own model, if this is its hash; it stays trusted on this machine.
        engine: what trains: "numpy" and "mnn" need no PyTorch and run no code of the run, since the model comes as a description.
        store: the folder for what this device keeps; default: a folder in ~/.local/state/fedfleet.
        tls: call with TLS, trusting whom the system trusts.
        ca: call with TLS, trusting this authority (PEM).
        certificate: this device's own certificate (PEM), if the server wants one.
        key: the private key of --certificate (PEM).
        max_bytes: the most bytes of one model or report.
        max_steps: the most training steps of one task.
        max_tasks: stop after that many tasks.
        max_seconds: stop after that many seconds of work.
        min_noise: decline tasks unless this device itself adds noise of at least so many times the clipping norm to its update
            (algorithm.private.use = "local"); default: 0, any run.
        patience: for how many seconds to try a server that went out of reach.
        evidence: evidence of this device's integrity, if the server asks for it.
        share_samples: let the edge move samples of this device to other devices of the same person, as shufflefl does.
    """
    chosen: EngineName = one_of("engine", engine, ENGINES)
    require_engine(chosen)
    for name in _ONE_THREAD:  # before numpy or torch is loaded: results must not depend on the number of threads
        os.environ[name] = "1"
    from fedfleet.network.device.caps import Caps
    from fedfleet.network.device.client_loop import DeviceOptions
    from fedfleet.network.device.device_process import LocalSetup, Trust, read_token, run_device

    options = DeviceOptions(
        client=client,
        token=read_token(token, token_file),
        evidence=b"" if evidence is None else evidence.read_bytes(),
        caps=Caps(max_bytes, max_steps, max_tasks, max_seconds, min_noise),
        patience=patience,
        share_samples=share_samples,
    )
    local = LocalSetup(store, data, Trust(tls, ca, certificate, key))
    summary = run_device(server, local, options, partial(_build_runtime, trust_code, chosen), say, _check_samples)
    tasks = f"{summary['tasks']} {'task' if summary['tasks'] == 1 else 'tasks'}"
    return Answer(summary, f"client {summary['client']} finished {tasks} (end: {summary['reason']})")


def _check_samples(config_bytes: bytes, data_path: Path) -> None:
    # only for a device with samples of its own: it loads their readers
    from fedfleet.app.assemble.device_runtime import check_own_samples

    check_own_samples(config_bytes, data_path)


def _build_runtime(
    trust_code: str | None, engine: EngineName, config_bytes: bytes, data_path: Path | None, fetch: Fetch
) -> ClientRuntime:
    # with the first work, and not before: it loads what trains
    from fedfleet.app.assemble.device_runtime import build_client_runtime

    return build_client_runtime(config_bytes, data_path, fetch, trust_code, engine)
