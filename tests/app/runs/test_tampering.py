"""Falsified run folders: nothing that is changed is accepted, whoever changed it, and it is said in one sentence."""

import random
import shutil
import struct

import pytest

import fedfleet
from fedfleet.app.pages.report_page import report_run
from fedfleet.app.runs import perform
from fedfleet.app.runs.folder_seals import verify_run
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import resolve
from fedfleet.core.errors import FedFleetError
from fedfleet.store import journal as journals
from tests.app.runs.flipping import flip, sealed_files
from tests.app.runs.tampering import LIES, SPEC, UNSEALED, tampered, text

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    done = perform(resolve(SPEC), tmp_path_factory.mktemp("honest") / "out")
    kinds = {row[1] for row in journals.rows_of(done.out / "run.db")}
    assert {4, 7, 11, 12} <= kinds, "the run should have arrivals, dropped tasks, failed rounds and commits"
    return done.out


def test_an_honest_run_passes(honest):
    assert replay_run(honest)["not_verified"] == ["wall_seconds", "remarks", "checkpoints"]
    assert replay_run(honest, quick=True)["ok"] and verify_run(honest)["sealed"]


def refuses(check, folder):
    with pytest.raises(FedFleetError) as wrong:
        check(folder)
    assert "\n" not in str(wrong.value) and len(str(wrong.value)) < 500
    return str(wrong.value)


@pytest.mark.parametrize("change", [*LIES, *UNSEALED])
def test_whatever_is_changed_is_found_without_training(honest, tmp_path, change):
    folder = tampered(honest, tmp_path / "out", {**LIES, **UNSEALED}[change], sealed=False)
    refuses(lambda f: replay_run(f, quick=True), folder)
    refuses(verify_run, folder)
    refuses(lambda f: perform(resolve(SPEC), f, resume=True), folder)


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_although_everything_is_sealed_anew(honest, tmp_path, lie):
    try:
        folder = tampered(honest, tmp_path / "out", LIES[lie], sealed=True)
    except (TypeError, AttributeError, struct.error, FedFleetError):
        assert lie in ("no time", "words for a number", "bytes for a text", "conditions that are none")
        return  # not even a forger can seal this: rows must have bytes to be hashed
    refuses(replay_run, folder)


def test_the_row_that_lies_is_named_although_everything_is_sealed_anew(honest, tmp_path):
    folder = tampered(honest, tmp_path / "out", LIES["a quicker device"], sealed=True)
    arrived = next(i for i, row in enumerate(journals.rows_of(honest / "run.db"), 1) if row[1] == 4)
    assert f"row {arrived} of the journal is wrong" in refuses(replay_run, folder)
    folder = tampered(honest, tmp_path / "raw", LIES["a quicker device"], sealed=False)
    assert f"row {arrived} of the journal is wrong" in refuses(replay_run, folder)
    assert "do not fit their link" in refuses(lambda f: replay_run(f, quick=True), folder)


def test_a_run_with_versions_that_are_not_here_is_no_lie_but_not_verified(honest, tmp_path):
    folder = tampered(honest, tmp_path / "out", text("executor.json", '"numpy": "', '"numpy": "9.'), sealed=True)
    assert "models" in replay_run(folder)["verified"]  # they come out the same all the same
    folder = tampered(folder, tmp_path / "lied", LIES["another model"], sealed=True)
    result = replay_run(folder)
    assert {"models", "scores"} <= set(result["not_verified"])
    assert "numpy 9." in result["because"]
    refuses(lambda f: perform(resolve(SPEC), f, resume=True), shutil.copytree(folder, tmp_path / "b", ignore=_no_seal))


def _no_seal(folder, names):
    return [n for n in names if n == "seal.json"]


@pytest.mark.parametrize("seed", range(24))
def test_flipped_bits_of_a_finished_run_are_found(honest, tmp_path, seed):
    folder, draw = shutil.copytree(honest, tmp_path / "out"), random.Random(seed)
    flip(folder / draw.choice(sealed_files(folder)), draw)
    refuses(lambda f: replay_run(f, quick=True), folder)


@pytest.mark.parametrize("lie", LIES)
def test_whoever_only_looks_at_a_forged_run_sees_it_or_one_sentence(honest, tmp_path, lie):
    """Verify, report and load run nothing again, so that a forger who seals anew can fool them; a traceback he never gets."""
    folder = tampered(honest, tmp_path / "out", LIES[lie], sealed=lie not in ("no time", "words for a number", "bytes for a text"))
    for look in (verify_run, report_run, fedfleet.load):
        try:
            look(folder)
        except FedFleetError as error:
            said = str(error)
        else:
            said = ""
        assert "\n" not in said
