"""Every command of every page does what the page says: all are understood, the quick ones executed here, the rest by make soak."""

import contextlib
import fcntl
import json
import re
import shlex
import tempfile
from pathlib import Path

import pytest

from tests.deploy.commands import check_words
from tests.docs.pages import PAGES, ROOT, blocks, commands_of, is_run, name_of
from tests.docs.running import fresh_copy, run_page
from tests.docs.tables import faults

pytestmark = pytest.mark.slow

# A line that a reader would paste into a terminal.
PASTED = re.compile(r"^\s*(\$ |\.venv/bin/|fedfleet [a-z]|make [a-z]|pip install|python |docker |helm )", re.M)
QUICK = [page for page in PAGES if any(is_run(block, soak=False) for block in blocks(page))]
LONG = [page for page in PAGES if any(is_run(b, soak=True) and not is_run(b, soak=False) for b in blocks(page))]


@contextlib.contextmanager
def alone(page):
    """Pages that serve all listen on the port that is the default: one at a time."""
    with (Path(tempfile.gettempdir()) / "fedfleet-pages.lock").open("w") as lock:
        if "fedfleet serve" in page.read_text():
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def words_of(text):
    """Every `fedfleet ..` of some lines of shell, a command over several lines as one."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|;|\bdo\b", line):
            result = re.match(r"\s*(?:[A-Z_]+=\S+ )?fedfleet (.*?)(?:\s[&>|#].*)?$", part)
            if result:
                yield shlex.split(result[1])


@pytest.mark.parametrize("page", QUICK, ids=name_of)
def test_the_commands_of_a_page_do_as_it_says(page, tmp_path):
    root = fresh_copy(tmp_path / "fedfleet")
    assert run_page(blocks(page), root, tmp_path / "said", soak=False, seconds=240) == []
    if name_of(page) == "README.md":  # whose story docs/how-to/first-run.md tells in full
        first = (ROOT / "docs/how-to/first-run.md").read_text()
        never = json.loads((root / "runs/hurried/metrics.json").read_text())["participation"]["never"]
        assert all(f"{never} of 100 clients never took part" in text for text in (first, page.read_text()))
        report = (root / "runs/hurried/report.html").read_text()  # of which tutorial.md shows a picture
        assert "the model learnt from 57 clients that hold 56 % of the data" in report


@pytest.mark.soak
@pytest.mark.parametrize("page", LONG, ids=name_of)
def test_the_long_commands_of_a_page_do_as_it_says(page, tmp_path):
    root = fresh_copy(tmp_path / "fedfleet")
    with alone(page):
        assert run_page(blocks(page), root, tmp_path / "said", soak=True, seconds=1800) == []
    assert faults(page.read_text(), root) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_is_understood(page):
    for block in blocks(page):
        if block.language in ("console", "text"):
            for command in commands_of(block):
                for words in words_of(command.line):
                    check_words([word.replace("$seed", "1").replace("$client", "1") for word in words])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_to_be_pasted_is_executed_or_says_why_not(page):
    for block in blocks(page):
        if block.language in ("", "sh", "bash", "shell", "text"):
            assert not PASTED.search(block.text) or block.mark == "not run", (
                f"{block.place}: commands belong in a console block, or need <!-- not run: REASON --> above a text block"
            )
        assert block.mark != "not run" or len(block.value) > 10, f"{block.place}: say why it is not run"
        assert block.mark != "runs" or (block.language, block.value) == ("console", "soak"), block.place


def test_pages_on_serving_have_commands_to_be_understood():
    for name in ("how-to/serve", "how-to/security", "how-to/deploy", "how-to/operate"):
        page = next(page for page in PAGES if name_of(page) == f"docs/{name}.md")
        assert any(words for block in blocks(page) for words in words_of(block.text)), name


def test_words_are_found_wherever_a_line_has_them():
    text = "for s in 1 2; do fedfleet run a.toml seed=$s & done; wait\nKEY=a fedfleet serve \\\n  b.toml  # so\n"
    assert list(words_of(text)) == [["run", "a.toml", "seed=$s"], ["serve", "b.toml"]]
