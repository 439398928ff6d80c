"""The frame of a page."""

import re
from pathlib import Path

import pytest

from fedfleet.app.pages.html import details_block, key_figures, page, style, table, topline, write_page
from fedfleet.core.errors import BadInput


def test_a_page_is_one_file_that_fetches_nothing():
    text = page("A & B", ["<p>x</p>"])
    assert "<title>A &amp; B</title>" in text and "<p>x</p>" in text
    assert "<style>" in text and "--d1" in text
    for word in ("<script", "<link", "http://", "https://", "@import"):
        assert word not in text


def test_text_is_escaped():
    text = table(["name", "what"], [["<x>", "prose"]], words=[1])
    assert "<td>&lt;x&gt;</td>" in text and '<th scope="col" class="words">what</th>' in text
    assert '<td class="words" data-h="what">prose</td>' in text, "on phones a row carries the words of the head with it"


def test_rows_lead_to_their_runs_and_pages_to_their_neighbours():
    text = table(["run", "n"], [["a", "1"], ["b", "2"]], links=["runs/a&b/report.html", ""])
    assert '<a href="runs/a&amp;b/report.html">a</a>' in text and text.count("<a ") == 1
    assert '<a href="../index.html">all runs</a>' in topline("run <x>", [("all runs", "../index.html")])
    assert "run &lt;x&gt;" in page("t", [], top=topline("run <x>")) and "<b>FedFleet</b>" in page("t", [])


def test_key_figures_ring_alarms_and_gloss_their_words():
    text = key_figures([("!0 %", "worst tenth", 'of "all"'), ("3 h", "time", "")])
    assert '<dd class="bad">0 %</dd>' in text and '<abbr title="of &quot;all&quot;">worst tenth</abbr>' in text
    assert "<dt>time</dt><dd>3 h</dd>" in text and "&lt;s&gt;" in details_block("<s>", "inside")


def contrast(a, b):
    """As WCAG 2 reckons it, of two colours like #aabbcc."""

    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    low, high = sorted((light(a), light(b)))
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_read_on_their_paper_in_both_modes():
    light, dark = re.findall(r":root \{ (--paper:[^}]+)\}?", style())[:2]
    for tokens in (dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", block)) for block in (light, dark)):
        for name in ("ink", "soft", "link", "d1", "d2", "d3", "d4", "d5"):
            assert contrast(tokens[name], tokens["paper"]) >= 4.5, name
        assert contrast(tokens["d6"], tokens["paper"]) >= 3.0, "a fill, never text"
        for name in ("d1", "d2", "d3", "d4", "d5"):
            assert contrast(tokens["paper"], tokens[name]) >= 4.5, "words on a fill"
        assert contrast(tokens["ink"], tokens["wash"]) >= 4.5 and contrast(tokens["soft"], tokens["card"]) >= 4.5


def test_a_folder_whose_name_is_no_text_has_a_page_all_the_same():
    assert "caf\\udce9" in page("FedFleet: caf\udce9", []).encode().decode()


def test_a_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("the old one")
    whole = Path.replace

    def cut_off(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", cut_off)
    with pytest.raises(BadInput, match=r"cannot write .*report.html: No space left on device; free some space"):
        write_page(path, "the new one")
    assert path.read_text() == "the old one" and [*tmp_path.iterdir()] == [path]
    monkeypatch.setattr(Path, "replace", whole)
    write_page(path, "the new one")
    assert path.read_text() == "the new one" and [*tmp_path.iterdir()] == [path]
