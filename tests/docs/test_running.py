"""A page that lies is found: a command that fails, output that differs, a page that never ends."""

import time

import pytest

from tests.docs.pages import ROOT, blocks_of
from tests.docs.running import fresh_copy, run_page, says

pytestmark = pytest.mark.slow


def console(text, mark=""):
    return f"{mark}```console\n{text}\n```\n"


def faults(text, tmp_path, *, soak=False, seconds=20.0):
    (tmp_path / "root").mkdir()
    return run_page(blocks_of(text, "a.md"), tmp_path / "root", tmp_path / "scratch", soak=soak, seconds=seconds)


def test_a_page_that_is_true(tmp_path):
    page = "<!-- file: data/a.txt -->\n```text\nhello\n```\n" + console("$ cat data/a.txt\nhello\n$ cd data\n$ ls\na.txt")
    assert faults(page, tmp_path) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("$ echo 94 h\n95 h", "and the page says"),
        ("$ false", "ended with 1"),
        ("false\ntrue", "ended with 1"),
        ("$ exit 3\n$ true", "did not end well"),
        ("$ true\nfedfleet: this is refused", "ended with 0"),
    ],
)
def test_a_page_that_lies(text, told, tmp_path):
    result = faults(console(text), tmp_path)
    assert result and told in result[0]


def test_mistakes_and_what_varies_are_pages_too(tmp_path):
    page = console("$ sh -c 'echo fedfleet: no such key; exit 2'\nfedfleet: no such ...\n$ seq 9\n1\n..\n9")
    assert faults(page, tmp_path) == []


def test_accuracies_may_be_a_little_off_and_times_may_not():
    printed = "2.2 days, 80 rounds\naccuracy 91.6 % (12.3 s)\nclients 50.0 %\nend\n"
    assert says("2.2 days, 80 rounds\naccuracy 90.1 % (... s)\n..\nend", printed)
    assert not says("2.2 days, 80 rounds\naccuracy 80.0 % (... s)\n..", printed)
    assert not says("2.3 days, 80 rounds\n..", printed)
    assert not says("2.2 days, 80 rounds\n..\nclients 60.0 %\nend", printed)


def test_long_blocks_wait_for_the_soak(tmp_path):
    page = console("false", "<!-- runs: soak -->\n")
    assert faults(page, tmp_path) == []
    assert run_page(blocks_of(page, "a.md"), tmp_path / "root", tmp_path / "again", soak=True, seconds=20)


def test_what_a_page_leaves_running_ends_with_it(tmp_path):
    before = time.monotonic()
    assert faults(console("$ sleep 60 &\n$ echo on\non"), tmp_path) == []
    assert (
        "more than 1 s"
        in run_page(blocks_of(console("$ sleep 60"), "a.md"), tmp_path / "root", tmp_path / "late", soak=False, seconds=1.0)[-1]
    )
    assert time.monotonic() - before < 20


def test_a_fresh_copy_has_what_is_kept_and_nothing_that_was_made(tmp_path):
    copy = fresh_copy(tmp_path / "copy")
    assert (copy / "README.md").read_text() == (ROOT / "README.md").read_text()
    assert (copy / "fedfleet/app/demo").is_dir()
    assert not any((copy / name).exists() for name in (".git", "runs", "demo", "site"))
    assert (copy / ".venv/bin/python").exists()
