"""What a hostile server may ask of a page: nothing beyond the caps, and nothing that this page does not know."""

import json

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for
from fedfleet.app.spec import resolve
from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.security.secrets import sign_config
from tests.network.page.node import run_script
from tests.network.page.test_engine import table

# A server that enrols a device, sends one task and then ends the run; its calls are those of `Connection`.
PLAY = """
import { readFileSync } from "node:fs";
import { Device } from "$PAGE/device.js";
import { Trainer } from "$PAGE/trainer.js";
import { writeTensors } from "$PAGE/tensors.js";
import { capsFrom } from "$PAGE/caps.js";
import { crc32c } from "$PAGE/crc32c.js";

const base64 = (data) => Buffer.from(data).toString("base64"), values = new Map();
const width = told.width, model = new Uint8Array(readFileSync(`${told.folder}/model`)), asked = [], reports = [];
const held = new Map(["train", "test"].flatMap((part) => [
  [`${part}_x`, { data: new Float32Array(40 * width).fill(0.5), shape: [40, width], type: "<f4" }],
  [`${part}_y`, { data: new BigInt64Array(40), shape: [40], type: "<i8" }],
]));
const offered = { name: "m", nbytes: String(model.length), crc32c: crc32c(model) };
const work = { kind: "TRAIN", task: "7", nonce: "AAAA", round: 0, model: offered };
const connection = {
  bytesUp: 0, bytesDown: 0, authorization: "",
  identify() { this.authorization = "known"; },
  enrol: async () => ({
    client: 3, run: "r", secret: base64(told.secret), sheet: base64(told.sheet),
    signature: base64(Buffer.from(told.signature, "hex")),
  }),
  shard: async () => writeTensors(held),
  serving: async () => ({}), down: async () => 1, up: async () => ({}), profile: async () => ({}), leave: async () => ({}),
  check: async () => (asked.push(1) > 1 ? { over: { reason: "played" } } : { work: { ...work, ...told.work } }),
  call: async (method, path, { took }) => (took(model, { status: 200 }), { status: 200 }),
  ask: async (method, path, { headers, body }) => {
    reports.push({ ...JSON.parse(headers["FedFleet-Report"]), nbytes: body.length });
    return { status: "SAFE" };
  },
};
const store = {
  get: async (name) => values.get(name), set: async (name, value) => void values.set(name, value),
  delete: async (name) => void values.delete(name),
};
const device = new Device({ connection, store, trainer: new Trainer(), caps: capsFrom(told.caps), tell: () => {}, patience: 1 });
if (!told.measures) device.measured = {};
let over;
try {
  over = await device.run();
} catch (error) {
  over = `${error.constructor.name}: ${error.message}`;
}
console.log(JSON.stringify({ over, reports }));
"""


def played(folder, *, work=None, caps=None, change=None, model=None, signature=None, measures=False):
    setup = assemble(resolve(table({"use": "digits_mlp"}, {"use": "fedavg"})))
    config = json.loads(client_config_for(setup, 1))
    if change is not None:
        change(config)
    sheet, secret = json.dumps(config), b"s" * 32
    (folder / "model").write_bytes(pack_tree(setup.plan.params) if model is None else model)
    signed = sign_config(secret, sheet.encode()) if signature is None else signature
    return run_script(
        PLAY, folder, sheet=sheet, secret=secret.decode(), signature=signed.hex(), width=64, work=work or {}, caps=caps or {},
        measures=measures,
    )  # fmt: skip


def test_what_stays_within_the_caps_is_done(tmp_path):
    found = played(tmp_path)
    assert found["over"] == "played"
    (report,) = found["reports"]
    assert report["weight"] == 40 and report["nbytes"] > 4 * 4810 and report["stats"]["steps"] == 6


@pytest.mark.parametrize(
    ("work", "caps", "why"),
    [
        ({"model": {"name": "m", "nbytes": str(10**12), "crc32c": 0}}, {}, "the model has 1000000000000 bytes"),
        ({"steps": 10**9}, {}, "the task has 1000000000 steps, and this device does 5000 at most"),
        ({"steps": 60}, {"samples": 500}, "the task trains on 960 samples, and this device on 500 at most"),
        ({}, {"steps": 5}, "the task has 6 steps, and this device does 5 at most"),
        ({"settings": {"spy": 1.0}}, {}, "the setting 'spy' of a task"),
        ({"rows": [1, 2]}, {}, "changes the samples"),
        ({"steps": 5000}, {"minutes": 1e-5}, "longer than this device may train"),
    ],
)
def test_a_task_beyond_the_caps_is_declined_by_its_reason(work, caps, why, tmp_path):
    (report,) = played(tmp_path, work=work, caps=caps)["reports"][:1]
    assert why in report["declined"] and report["nbytes"] == 0


def larger(config):
    """A model whose one convolution pads a sample to a picture of 40 GB."""
    config["described"]["model"] = json.dumps(
        {
            "version": 1, "sample": {"shape": [1, 8, 8], "type": "<f4"}, "trained": ["w"], "constants": {}, "output": 1,
            "leaves": {"w": {"shape": [10, 1, 1, 1], "type": "<f4"}},
            "operations": [
                {
                    "name": "convolution", "inputs": [0, "w"],
                    "settings": {"stride": [1, 1], "padding": [50000, 50000], "dilation": [1, 1], "groups": 1},
                }
            ],
        }
    )  # fmt: skip


def test_a_model_that_needs_more_memory_than_a_batch_gets_ends_before_it_is_taken(tmp_path):
    found = played(tmp_path, change=larger, measures=True)
    assert found["over"].startswith("Refused: one batch needs more than 512 MB of memory")


def test_a_model_beyond_the_caps_is_refused_before_anything_is_computed(tmp_path):
    found = played(tmp_path, caps={"megabytes": 0.01})
    assert found["over"].startswith("Refused: the model has 19240 bytes") and not found["reports"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: c["algorithm"].update(use="scaffold"), "the method 'scaffold'"),
        (lambda c: c["algorithm"].update(epochs=-1), "the setting 'epochs'"),
        (lambda c: c["data"].update(use="own"), "samples of your own"),
    ],
)
def test_a_sheet_that_this_page_cannot_follow_ends_with_the_reason(change, why, tmp_path):
    found = played(tmp_path, change=change)
    assert found["over"].startswith("Refused: ") and why in found["over"] and not found["reports"]


def test_a_sheet_that_is_not_signed_for_this_device_is_not_read(tmp_path):
    found = played(tmp_path, signature=bytes(32))
    assert "not signed for this device" in found["over"] and not found["reports"]


def test_a_model_of_other_shapes_is_declined(tmp_path):
    import numpy as np

    (report, *_) = played(tmp_path, model=pack_tree({"1.weight": np.zeros((2, 2), np.float32)}))["reports"]
    assert "do not have the shape" in report["declined"]
