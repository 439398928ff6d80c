"""Small files in public formats, made by the tests."""

import json
import struct
import wave
import zlib

import numpy as np

SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # colour type -> samples per pixel


def png(values, *, depth=8, colour=0, filters=(0,), palette=None, interlaced=0):
    """Encode samples [height, width, n] (or [height, width]) as PNG; `filters` are used by rows in turn."""
    values = np.asarray(values)
    height, width = values.shape[:2]
    rows = values.reshape(height, -1)
    if depth < 8:
        bits = (rows[:, :, None] >> np.arange(depth - 1, -1, -1)) & 1
        rows = np.packbits(bits.reshape(height, -1).astype(np.uint8), axis=1)
    step = max(SAMPLES[colour] * depth // 8, 1)
    raw, above = b"", [0] * rows.shape[1]
    for i, row in enumerate(rows.astype(int).tolist()):
        kind = filters[i % len(filters)]
        raw += bytes([kind]) + bytes(_filtered(row, above, step, kind))
        above = row
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    packed = zlib.compress(raw)
    body = [(b"IHDR", header)] + ([(b"PLTE", bytes(np.asarray(palette, np.uint8)))] if palette is not None else [])
    body += [(b"IDAT", packed[:7]), (b"tIME", b"1234567"), (b"IDAT", packed[7:]), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in body)


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _filtered(row, above, step, kind):
    """The specification's five filters, byte by byte."""
    out = []
    for i, value in enumerate(row):
        left = row[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        p = left + above[i] - corner
        nearest = min((abs(p - left), 0, left), (abs(p - above[i]), 1, above[i]), (abs(p - corner), 2, corner))[2]
        guess = [0, left, above[i], (left + above[i]) // 2, nearest][kind]
        out.append((value - guess) % 256)
    return out


def idx(array):
    """An IDX file of bytes."""
    array = np.asarray(array, np.uint8)
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def wav(path, samples, rate=16_000, channels=1):
    """A 16-bit WAV file of numbers in [-1, 1]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.asarray(samples) * 32767).astype("<i2").tobytes())


def leaf(path, users):
    """LEAF's JSON: {user: (x, y)}."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {user: {"x": x, "y": y} for user, (x, y) in users.items()}
    text = {"users": list(users), "num_samples": [len(y) for _, y in users.values()], "user_data": data}
    path.write_text(json.dumps(text))


def written(path, data):
    """Bytes or text at this path, its folders made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path
