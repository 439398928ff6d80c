"""How the pages become a site: Sphinx, furo and MyST, from the checkout's root, without the network (`make docs`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fedfleet

project = "FedFleet"
version = release = fedfleet.__version__
copyright = "the authors of FedFleet"
extensions = ["myst_parser"]

# The root of the checkout is the root of the site, so that a link works on a page as it does beside the code.
root_doc = "docs/index"
include_patterns = [
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md", "docs/*.md", "studies/*.md", "benchmarks/RESULTS.md",
    "examples/deploy/README.md",
]  # fmt: skip
exclude_patterns = [".*", "site", "demo", "runs", "build", "dist", "fedfleet", "tests", "docs/pictures/**"]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
# Without the network there is no MathJax: formulas are written so that they read as text.
html_math_renderer = "plain"
html_theme = "furo"
html_title = "FedFleet"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_show_sphinx = False
html_copy_source = False
# Fences of `console` hold commands and what they print, which no lexer has to understand.
highlight_language = "none"


def write_front(app: Any, failed: Exception | None) -> None:
    """The site's own address leads to its first page."""
    if failed is None and app.builder.name == "html":
        to = "docs/index.html"
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={to}"><title>FedFleet</title>'
        (Path(app.outdir) / "index.html").write_text(f'{page}<a href="{to}">FedFleet</a>')


def write_plain(writer: Any, node: Any) -> None:
    """A formula as its own text."""
    writer.body.append(f"<code>{writer.encode(node.astext())}</code>")
    from docutils.nodes import SkipNode

    raise SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("plain", (write_plain, None), (write_plain, None))
    app.connect("build-finished", write_front)
