"""The chain over a journal: one link per flushed batch and per commit, each over everything before it, in all columns.

The digest names what a run did and is the same wherever it is repeated; remarks and diagnostics stay out of it. A link covers
those too: it is the hash of the link before, of the digest so far, and of what the digest leaves out since that link.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fedfleet.store.journal_rows import Kind, Values, digest_bytes, pack_row

_FORMAT = b"fedfleet/journal@3"


class Chain:
    """The digest, the number of rows and the last link of the rows taken so far."""

    __slots__ = ("_side_digest", "digest", "link", "linked_rows", "rows")

    def __init__(self, identity: str = "") -> None:
        self.digest = hashlib.sha256()
        self.rows = 0
        self.link = hashlib.sha256(_FORMAT + identity.encode()).digest()  # so that no run can lend its links to another
        self.linked_rows = 0  # how many rows the last link covers
        self._side_digest = hashlib.sha256()

    def add_row(self, row: Values, data: bytes) -> None:
        """Add a row; `data` are its digested bytes."""
        self.rows += 1
        self.digest.update(data)
        # What the digest leaves out: a row's note, and of a remark everything.
        note, is_remark = row[9], row[1] == Kind.NOTE
        if note is not None or is_remark:
            text = b"" if note is None else note.encode()
            extra = (pack_row(row) if is_remark else b"") + len(text).to_bytes(8, "little") + text
            self._side_digest.update(self.rows.to_bytes(8, "little") + extra)

    def add_link(self) -> bytes:
        """A link over all rows so far."""
        link = hashlib.sha256(self.link + self.digest.digest() + self.rows.to_bytes(8, "little"))
        link.update(self._side_digest.digest())
        self.link, self.linked_rows, self._side_digest = link.digest(), self.rows, hashlib.sha256()
        return self.link


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """How far a stored journal holds: its sound links by the number of rows they cover, and what is wrong after them."""

    rows: int
    digest: str
    link: str
    links: Mapping[int, str] = field(default_factory=dict[int, str])
    fault: str | None = None


def check_chain(identity: str, rows: Iterable[tuple[int, Values]], links: Mapping[int, bytes]) -> ChainCheck:
    """Follow the chain over numbered rows; the first batch that does not fit its link is the fault."""
    chain, sound = Chain(identity), dict[int, str]()

    def check_with_fault(why: str) -> ChainCheck:
        return ChainCheck(chain.rows, chain.digest.hexdigest(), chain.link.hex(), sound, why)

    if not all(type(n) is int and type(link) is bytes for n, link in links.items()):
        return check_with_fault("its links have unexpected content")
    last = max(links, default=0)
    for number, row in rows:
        if number != chain.rows + 1:
            return check_with_fault(f"row {chain.rows + 1} is missing")
        if number > last:
            return check_with_fault(f"row {number} and what follows it have no link")
        try:
            chain.add_row(row, digest_bytes(row))
        except (struct.error, TypeError, AttributeError, UnicodeError):
            return check_with_fault(f"row {number} has unexpected content")
        if number in links:
            first = chain.linked_rows + 1
            if chain.add_link() != links[number]:
                return check_with_fault(f"rows {first} to {number} do not fit their link")
            sound[number] = chain.link.hex()
    if chain.rows < last:
        return check_with_fault(f"the rows after {chain.rows} are missing, up to row {last}")
    return ChainCheck(chain.rows, chain.digest.hexdigest(), chain.link.hex(), sound)
