"""The files of the page that makes a browser a device, held in memory: `/join` and what lies under `/join/`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

PAGE_FOLDER = Path(__file__).parents[1] / "page"
JOIN, INDEX = "/join", "index.html"
_KINDS = {
    ".html": b"text/html; charset=utf-8", ".js": b"text/javascript; charset=utf-8", ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml", ".png": b"image/png", ".ico": b"image/x-icon", ".json": b"application/json",
    ".wasm": b"application/wasm", ".webmanifest": b"application/manifest+json",
}  # fmt: skip
# Scripts and workers of this server alone, none inside the page, no frame around it, and no address of it in what it asks. The page
# makes one loop of WebAssembly, which is not a script and sees only the numbers that it is given.
PAGE_HEADERS = (
    b"Content-Security-Policy: default-src 'self'; worker-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'; script-src 'self' 'wasm-unsafe-eval'\r\nReferrer-Policy: no-referrer\r\n"
)


class PageFile(NamedTuple):
    """Its bytes and type."""

    data: bytes
    kind: bytes


def page_files(folder: Path = PAGE_FOLDER) -> dict[str, PageFile]:
    """All files of the page by their paths; of other types none is served."""
    files = {
        f"{JOIN}/{path.name}": PageFile(path.read_bytes(), _KINDS[path.suffix])
        for path in sorted(folder.glob("*"))
        if path.suffix in _KINDS and path.is_file()
    }
    index = files.get(f"{JOIN}/{INDEX}")
    return files | ({} if index is None else {JOIN: index, f"{JOIN}/": index})
