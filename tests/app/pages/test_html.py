"""The frame of a page."""

from fedfleet.app.pages.html import figure, page, table, tiles


def test_a_page_is_one_file_that_fetches_nothing():
    text = page("A & B", ["<p>x</p>"])
    assert "<title>A &amp; B</title>" in text and "<p>x</p>" in text
    assert "<style>" in text and "--c1" in text
    for word in ("<script", "<link", "http://", "https://", "@import"):
        assert word not in text


def test_text_is_escaped():
    assert "&lt;x&gt;" in figure("<svg/>", "<x>") and "<svg/>" in figure("<svg/>", "<x>")
    assert "&lt;x&gt;" in tiles([("<x>", "1")])
    text = table(["name", "what"], [["<x>", "prose"]], words=[1])
    assert (
        "<td>&lt;x&gt;</td>" in text
        and '<td class="words">prose</td>' in text
        and '<th class="words">what</th>' in text
    )
