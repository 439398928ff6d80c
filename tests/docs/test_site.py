"""The site: every page is in it, it builds without a warning, and it asks nobody for anything."""

import re
import subprocess
import sys

import pytest

from docs.take_pictures import PHONE, PICTURES
from tests.docs.pages import PAGES, ROOT, name_of


def test_every_page_is_in_the_site():
    index = (ROOT / "docs/index.md").read_text()
    listed = re.findall(r"^[\w./*-]+$", index, re.M)
    for page in PAGES:
        path = page.relative_to(ROOT).with_suffix("")
        told = f"../{path}" if path.parts[0] != "docs" else str(path.relative_to("docs"))
        folder = told.rsplit("/", 1)[0] + "/*"
        assert told in listed or folder in listed or told == "index", f"{name_of(page)} is in no list of docs/index.md"


def test_the_site_names_no_machine_beyond_itself():
    for name in ("conf.py", "style.css"):
        assert not re.search(r"https?://|@import|url\(", (ROOT / "docs" / name).read_text())


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    to = tmp_path_factory.mktemp("site")
    words = ["-q", "-W", "-d", to / "kept", "-c", "docs", "-b", "html", ".", to / "site"]
    done = subprocess.run([sys.executable, "-m", "sphinx", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return to / "site"


@pytest.mark.soak
def test_the_site_builds_and_asks_nobody_for_anything(site):
    asked = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=["'](?:https?:)?//""")
    result = sorted(site.rglob("*.html"))
    assert len(result) > 40
    assert [page.name for page in result if asked.search(page.read_text())] == []
    sheets = [path for path in site.rglob("*.css") if re.search(r"url\([\"']?(?:https?:)?//|@import", path.read_text())]
    assert sheets == []
    assert "docs/index.html" in (site / "index.html").read_text()


def test_every_picture_is_shown_is_small_and_can_be_taken_again():
    there = {path.name: path.stat().st_size for path in (ROOT / "docs/pictures").iterdir()}
    assert there.keys() == {*PICTURES, PHONE}
    text = "".join(page.read_text() for page in PAGES)
    assert [name for name in there if f"pictures/{name})" not in text] == []
    assert max(there.values()) < 150_000 and sum(there.values()) < 1_000_000


def test_the_gallery_shows_every_picture_with_the_commands_that_make_its_page():
    gallery = (ROOT / "docs/gallery.md").read_text()
    assert [name for name in PICTURES if f"pictures/{name})" not in gallery] == []
    lines = gallery.splitlines()
    assert [command for picture in PICTURES.values() for command in picture.commands if command not in lines] == []
