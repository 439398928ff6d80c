"""The page's forms of bytes: safetensors, CRC-32C, HMAC-SHA-256, held against other implementations."""

import hmac
import json
import re
import struct

import numpy as np
import pytest

from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.network.protocol.frames import crc32c
from tests.network.harness import ROOT
from tests.network.page.node import PAGE, run_script

SUMS = """
import { crc32c } from "$PAGE/crc32c.js";
import { equalBytes, hmac, sha256 } from "$PAGE/sha256.js";
const bytes = (text) => Uint8Array.from(Buffer.from(text, "hex")), hex = (data) => Buffer.from(data).toString("hex");
console.log(JSON.stringify(told.cases.map(([key, text]) => ({
  crc: crc32c(bytes(text)), sha: hex(sha256(bytes(text))), mac: hex(hmac(bytes(key), bytes(text))),
}))));
const equal = (a, b) => equalBytes(bytes(a), bytes(b));
const wrong = equal("0102", "0103") || equal("01", "0101") || equal("", "01") || !equal("0102", "0102");
if (wrong) throw new Error("bytes are compared wrongly");
"""


def test_checksums_and_signatures_are_those_of_other_implementations(tmp_path):
    rng = np.random.default_rng(4)
    cases = [(rng.bytes(32), b"123456789"), (rng.bytes(100), b"")]
    cases += [(rng.bytes(32), rng.bytes(n)) for n in (1, 3, 55, 56, 63, 64, 65, 1000)]
    found = run_script(SUMS, tmp_path, cases=[(key.hex(), text.hex()) for key, text in cases])
    assert found[0]["crc"] == 0xE3069283  # the check value of this checksum
    for (key, text), result in zip(cases, found, strict=True):
        assert result["crc"] == crc32c(text)
        assert result["mac"] == hmac.digest(key, text, "sha256").hex()


TENSORS = """
import { readFileSync, writeFileSync } from "node:fs";
import { readTensors, writeTensors } from "$PAGE/tensors.js";
const tensors = readTensors(new Uint8Array(readFileSync(`${told.folder}/in`)));
writeFileSync(`${told.folder}/out`, writeTensors(tensors));
console.log(JSON.stringify([...tensors].map(([name, t]) => [name, t.type, t.shape])));
"""


def test_tensors_come_back_as_they_were(tmp_path):
    tree = {
        "a.b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "häh": np.array(2.5, np.float64),
        "n": np.array([2**53 + 1, -1]),
        "none": np.zeros((0, 3), np.float32),
        "small": np.array([1, 2, 3], np.uint8),
    }
    (tmp_path / "in").write_bytes(pack_tree(tree))
    found = run_script(TENSORS, tmp_path)
    assert sorted(found) == sorted([name, value.dtype.str, list(value.shape)] for name, value in tree.items())
    again = unpack_tree((tmp_path / "out").read_bytes())
    assert again.keys() == tree.keys()
    for name, value in tree.items():
        assert again[name].dtype == value.dtype and np.array_equal(again[name], value)


def test_the_bytes_of_the_protocols_example_are_written(tmp_path):
    text = """
    import { crc32c } from "$PAGE/crc32c.js";
    import { writeTensors } from "$PAGE/tensors.js";
    const bytes = writeTensors(new Map([["w", { data: Float32Array.of(0.5, -1), shape: [2], type: "<f4" }]]));
    console.log(JSON.stringify([bytes.length, crc32c(bytes)]));
    """
    assert run_script(text, tmp_path) == [72, 0x8BD8F2F4]  # as in docs/reference/protocol.md


def broken(header, body=b"\0" * 8):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
BROKEN = {
    "short": b"abc",
    "long header": struct.pack("<Q", 2**60) + b"{}",
    "no JSON": broken(b"{]"),
    "no object": broken(b"[]", b""),
    "a hole": broken({"w": {**GOOD, "data_offsets": [4, 12]}}, b"\0" * 12),
    "an overlap": broken({"v": GOOD, "w": GOOD}),
    "too much": broken({"w": GOOD}, b"\0" * 9),
    "too little": broken({"w": GOOD}, b"\0" * 4),
    "another size": broken({"w": {**GOOD, "shape": [3]}}),
    "a negative shape": broken({"w": {**GOOD, "shape": [-1, -2]}}),
    "a type": broken({"w": {**GOOD, "dtype": "F8"}}),
    "no entry": broken({"w": None}),
}


def test_whatever_is_wrong_with_tensors_is_refused(tmp_path):
    text = """
    import { Refused } from "$PAGE/refused.js";
    import { readTensors } from "$PAGE/tensors.js";
    const results = told.cases.map((text) => {
      try {
        readTensors(Uint8Array.from(Buffer.from(text, "hex")));
        return "read";
      } catch (error) {
        return error instanceof Refused ? "refused" : String(error);
      }
    });
    console.log(JSON.stringify(results));
    """
    found = run_script(text, tmp_path, cases=[data.hex() for data in BROKEN.values()])
    assert dict(zip(BROKEN, found, strict=True)) == dict.fromkeys(BROKEN, "refused")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"algorithm": {"use": "scaffold"}}, "the method 'scaffold'"),
        ({"algorithm": {"up": ["int8"]}}, "the setting 'up'"),
        ({"algorithm": {"optimiser": "adam"}}, "the optimiser 'adam'"),
        ({"algorithm": {"lr": "fast"}}, "the setting 'lr'"),
        ({"frozen": "ab"}, "frozen weights"),
        ({"reading": {"kind": "regression"}}, "of the kind 'regression'"),
        ({"described": {"refused": "it has an odd layer"}}, "it has an odd layer"),
        ({"described": {"model": "lstm"}}, "cannot compute lstm"),
        ({"form": 2}, "a format"),
    ],
)
def test_what_a_sheet_asks_beyond_this_page_is_refused_by_name(change, why, tmp_path):
    operations = [{"name": "relu", "inputs": [0]}]
    model = {"version": 1, "sample": {"shape": [3], "type": "<f4"}, "leaves": {}, "trained": [], "constants": {}, "output": 1}
    text = json.dumps({**model, "operations": operations})
    if change.get("described", {}).get("model") == "lstm":
        change = {"described": {"model": text.replace("relu", "lstm")}}
    how = {"use": "fedavg", "lr": 0.1, "epochs": 1, "batch": 4, "optimiser": "sgd", "feedback": False, "bound": 1024.0}
    sheet = {
        "form": 1, "seed": 1, "key": "ff", "frozen": "", "inputs": {"classes": 3}, "described": {"model": text}, "algorithm": how,
    }  # fmt: skip
    text = """
    import { readMethod, readSheet } from "$PAGE/method.js";
    const why = (sheet) => {
      try {
        readMethod(readSheet(new TextEncoder().encode(JSON.stringify(sheet))));
      } catch (error) {
        return error.message;
      }
    };
    console.log(JSON.stringify([why(told.sheet) ?? null, why(told.changed)]));
    """
    changed = {**sheet, **change, "algorithm": {**how, **change.get("algorithm", {})}}
    good, found = run_script(text, tmp_path, sheet=sheet, changed=changed)
    assert good is None and why in found


def test_the_page_has_the_colours_of_all_pages():
    tokens = (ROOT / "fedfleet" / "app" / "pages" / "tokens.css").read_text()
    known = {tuple(pair) for pair in re.findall(r"(--\w+):(#\w+)", tokens)}
    own = [tuple(pair) for pair in re.findall(r"(--\w+):(#\w+)", (PAGE / "page.css").read_text())]
    assert len(own) > 20 and {*own} <= known
