"""PNG images without an imaging library: grey, colour or palette, up to 8 bits a sample, not interlaced."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np

from fedfleet.core.trees import Array

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_PIXELS = 2**26  # a few kilobytes can promise gigabytes
# Colour type -> samples per pixel, and how many of them are kept (alpha is dropped).
_GREY, _RGB, _PALETTE, _GREY_ALPHA, _RGB_ALPHA = 0, 2, 3, 4, 6
_SAMPLES = {_GREY: (1, 1), _RGB: (3, 3), _PALETTE: (1, 1), _GREY_ALPHA: (2, 1), _RGB_ALPHA: (4, 3)}


@dataclass(frozen=True, slots=True)
class Header:
    """What the first chunk says."""

    width: int
    height: int
    depth: int
    colour: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of pixels."""
        return (self.width * _SAMPLES[self.colour][0] * self.depth + 7) // 8


def decode_png(data: bytes) -> Array:
    """The image as bytes 0..255, [height, width, 1] when grey and [height, width, 3] in colour; ValueError if it is none."""
    header, palette, packed = _chunks(data)
    expected = header.height * (header.row_bytes + 1)
    raw = zlib.decompressobj().decompress(packed, expected)
    if len(raw) != expected:
        raise ValueError(f"the PNG holds {len(raw)} bytes of pixels instead of {expected}")
    rows = np.frombuffer(raw, np.uint8).reshape(header.height, -1)
    samples, used = _SAMPLES[header.colour]
    step = max(samples * header.depth // 8, 1)
    flat = rows[:, 1:] if not rows[:, 0].any() else _unfilter(rows, step)
    values = _unpack(flat, header).reshape(header.height, header.width, samples)[:, :, :used]
    if header.colour == _PALETTE:
        if palette is None or values.max(initial=0) >= len(palette):
            raise ValueError("the PNG uses a colour that its palette does not have")
        return palette[values[:, :, 0]]
    if header.depth < 8:  # grey of few bits spans the whole range
        values = values * np.uint8(255 // (2**header.depth - 1))
    return np.ascontiguousarray(values)


def _chunks(data: bytes) -> tuple[Header, Array | None, bytes]:
    """The header, the palette and the joined pixel data, every checksum verified."""
    if not data.startswith(SIGNATURE):
        raise ValueError("it does not begin like a PNG")
    header, palette, packed, at = None, None, [], len(SIGNATURE)
    while at + 12 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        check = data[at + 8 + length : at + 12 + length]
        if len(check) < 4 or zlib.crc32(kind + body) != int.from_bytes(check, "big"):
            raise ValueError("the PNG is damaged: a checksum is wrong")
        if kind == b"IHDR":
            header = _header(body)
        elif kind == b"PLTE":
            palette = np.frombuffer(body, np.uint8).reshape(-1, 3)
        elif kind == b"IDAT":
            packed.append(body)
        elif kind == b"IEND":
            break
        at += 12 + length
    if header is None or not packed:
        raise ValueError("the PNG ends before its pixels")
    return header, palette, b"".join(packed)


def _header(body: bytes) -> Header:
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
    few = depth in (1, 2, 4) and colour in (_GREY, _PALETTE)
    if colour not in _SAMPLES or not (depth == 8 or few):
        raise ValueError(f"PNGs of colour type {colour} with {depth} bits a sample are not read")
    if interlaced:
        raise ValueError("interlaced PNGs are not read")
    if not 0 < width * height <= MOST_PIXELS:
        raise ValueError(f"a PNG of {width} x {height} pixels is not read")
    return Header(width, height, depth, colour)


def _unfilter(rows: Array, step: int) -> Array:
    """Undo the filters, row by row: each byte was stored as its difference from a guess by left, above and corner."""
    above = np.zeros(rows.shape[1] - 1, np.uint8)
    unfiltered = np.empty((len(rows), len(above)), np.uint8)
    for i, row in enumerate(rows):
        line = row[1:]
        if row[0] == 0:
            above = line
        elif row[0] == 1:
            above = _running_sums(line, step)
        elif row[0] == 2:
            above = line + above
        elif row[0] in (3, 4):
            predict = _mean if row[0] == 3 else _paeth
            above = _undo_guess(line, above, step, predict)
        else:
            raise ValueError(f"the PNG uses filter {row[0]}, which does not exist")
        unfiltered[i] = above
    return unfiltered


def _running_sums(line: Array, step: int) -> Array:
    padded = np.zeros(-(-len(line) // step) * step, np.uint8)
    padded[: len(line)] = line
    return np.cumsum(padded.reshape(-1, step), axis=0, dtype=np.uint8).reshape(-1)[: len(line)]


def _undo_guess(line: Array, above: Array, step: int, predict) -> Array:
    """The two filters that need the byte before: one after the other, in plain Python."""
    stored, up = line.tolist(), above.tolist()
    out = [0] * step + stored  # the bytes left of the first pixel count as zero
    corner = [0] * step + up
    for i, value in enumerate(stored):
        out[i + step] = (value + predict(out[i], up[i], corner[i])) & 255
    return np.array(out[step:], np.uint8)


def _mean(left: int, up: int, corner: int) -> int:
    del corner
    return (left + up) >> 1


def _paeth(left: int, up: int, corner: int) -> int:
    """Whichever of the three is nearest to left + up - corner."""
    to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    if to_left <= to_up and to_left <= to_corner:
        return left
    return up if to_up <= to_corner else corner


def _unpack(flat: Array, header: Header) -> Array:
    """One byte per sample, from rows that pack several samples of few bits into a byte."""
    if header.depth == 8:
        return flat
    bits = np.unpackbits(flat, axis=1).reshape(header.height, -1, header.depth)
    weights = (1 << np.arange(header.depth - 1, -1, -1)).astype(np.uint8)
    values = (bits * weights).sum(axis=2, dtype=np.uint8)
    return values[:, : header.width]
