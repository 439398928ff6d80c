"""Foreign pickles: plain data is read, whatever else is in them is refused by name and never run."""

import contextlib
import os
import pickle
import random
import tracemalloc

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.world.bases.fedscale import read_pickle

PLAIN = {
    1: {"active": [0, 300, 2**40, -5], "finish_time": 86400, "model": "Ä-100"},
    "b": (1.5, None, True, b"\x00\xff", 10**30, [], {}, ()),
}


def written(folder, content):
    path = folder / "some_pickle"
    path.write_bytes(content)
    return str(path)


def refused(folder, content, *mentions):
    path = written(folder, content)
    with pytest.raises(BadInput) as told:
        read_pickle(path)
    for mention in (path, *mentions):
        assert mention in str(told.value)


class Runs:
    """Pickles as a call of what it is given."""

    def __init__(self, call, *words):
        self.call, self.words = call, words

    def __reduce__(self):
        return self.call, self.words


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_plain_data_is_read(tmp_path, protocol):
    assert read_pickle(written(tmp_path, pickle.dumps(PLAIN, protocol))) == PLAIN


def test_sets_are_read(tmp_path):
    assert read_pickle(written(tmp_path, pickle.dumps([{1, 2}, frozenset("a")], 4))) == [{1, 2}, frozenset("a")]


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_old_protocols_are_read_too(tmp_path, protocol):
    old = {"a": [1, 2.5, "x", None, True, 2**70, (1,), (1, 2), (1, 2, 3, 4), {}]}
    assert read_pickle(written(tmp_path, pickle.dumps(old, protocol))) == old


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("kind", ["f8", ">f8", "f4", "i8", ">i4", "u2", "i1", "?"])
def test_numpy_scalars_become_plain_numbers(tmp_path, protocol, kind):
    given = {7: np.array([1], kind)[0], 8: np.array([0], kind)[0]}
    result = read_pickle(written(tmp_path, pickle.dumps(given, protocol)))
    assert result == {7: 1, 8: 0}
    assert {type(v) for v in result.values()} <= {int, float, bool}


def test_numpy_scalars_as_old_numpy_wrote_them(tmp_path):
    new = pickle.dumps({1: {"computation": np.float64(153.0), "communication": np.float64(2209.615982329485)}}, 3)
    old = new.replace(b"numpy._core.multiarray", b"numpy.core.multiarray").replace(b"\x89\x88\x87", b"K\x00K\x01\x87")
    assert read_pickle(written(tmp_path, old)) == {1: {"computation": 153.0, "communication": 2209.615982329485}}


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_wants_to_run_a_command_is_refused_and_nothing_runs(tmp_path, protocol):
    trace = tmp_path / "it-ran"
    evil = pickle.dumps({1: {"computation": Runs(os.system, f"touch {trace}")}}, protocol)
    refused(tmp_path, evil, f"{os.system.__module__}.system", "nothing was run")
    assert not trace.exists()
    pickle.loads(evil)
    assert trace.exists(), "the attack itself is real"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Runs(eval, "1/0"), "builtins.eval"),
        (np.zeros(3), "_reconstruct"),
        (np.float64(1.0).dtype.type, "numpy.float64"),
        (random.Random(0), "random.Random"),
        (ValueError("x"), "builtins.ValueError"),
        (len, "builtins.len"),
        (1j, "builtins.complex"),
    ],
    ids=lambda v: v if isinstance(v, str) else type(v).__name__,
)
def test_other_globals_are_refused_by_name(tmp_path, value, name):
    refused(tmp_path, pickle.dumps([value], 4), name)


@pytest.mark.parametrize(
    ("content", "mention"),
    [
        (b"(ios\nsystem\n.", "os.system"),  # an instance in protocol 0
        (b"Pname\n.", "opcode"),  # a persistent id
        (b"\x82\x01.", "opcode"),  # an extension code
        (b"cnumpy\ndtype\n)\x81.", "opcode"),  # an instance of a class
        (b"\x80\x04}}b.", "completes"),
        (b"\x80\x04X\x01\x00\x00\x00ab.", "pickle"),
        (b"cnumpy\ndtype\n(X\x01\x00\x00\x00OtR.", "not a plain number"),
        (b"cnumpy\ndtype\n(X\x02\x00\x00\x00f8tRN\x85b.", "byte order"),
        (b"cnumpy.core.multiarray\nscalar\n(NNtR.", "needs a type"),
        (b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(X\x02\x00\x00\x00f8tRC\x01xtR.", "8 bytes"),
        (b"\x80\x04]", "pickle"),
        (b"", "pickle"),
        (b"{}", "opcode"),
        (b"\x80\x09N.", "protocol"),
        (b"N.N.", "follows"),
        (b"\x80\x04\x8e" + b"\xff" * 8 + b".", "pickle"),  # bytes without end
        (b"\x80\x04}]]s.", "unhashable"),
    ],
)
def test_what_is_not_plain_data_is_refused(tmp_path, content, mention):
    refused(tmp_path, content, mention)


def test_a_pickle_that_is_cut_anywhere_is_refused(tmp_path):
    whole = pickle.dumps(PLAIN | {9: np.float64(2.5)}, 4)
    for length in range(len(whole)):
        refused(tmp_path, whole[:length])


def test_garbage_is_read_or_refused_and_never_crashes(tmp_path):
    draw = random.Random(7)
    whole = pickle.dumps(PLAIN | {9: np.float64(2.5)}, 3)
    for _ in range(600):
        mutated = bytearray(whole if draw.random() < 0.7 else draw.randbytes(60))
        for _ in range(draw.randrange(1, 6)):
            mutated[draw.randrange(len(mutated))] = draw.randrange(256)
        with contextlib.suppress(BadInput):
            read_pickle(written(tmp_path, bytes(mutated)))


def test_a_few_bytes_do_not_take_gigabytes(tmp_path):
    path = written(tmp_path, b"\x80\x03]r\xff\xff\xff\x7f.")  # an empty list, to be remembered as number 2^31
    tracemalloc.start()
    try:
        assert read_pickle(path) == []
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


def test_size_is_bounded_and_files_must_be_there(tmp_path):
    path = written(tmp_path, pickle.dumps(list(range(1000))))
    with pytest.raises(BadInput, match="at most 100 are read"):
        read_pickle(path, largest_bytes=100)
    with pytest.raises(BadInput, match="there is no file"):
        read_pickle(str(tmp_path / "absent"))
    with pytest.raises(BadInput, match="cannot be read"):
        read_pickle(str(tmp_path))
