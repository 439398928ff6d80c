"""How long frames of HTTP/2 may be: looked at as they begin, since `h2` looks at a frame when all of it is there."""

from __future__ import annotations

from fedfleet.network.frontend.http_exchange import MAX_HEAD_BYTES

_PREFACE_BYTES, _FRAME_HEAD_BYTES, _MAX_FRAME_BYTES = 24, 9, 1 << 14
_HEADERS, _CONTINUATION, _END_HEADERS = 1, 9, 4


class FrameSizes:
    """Follows the frames of one connection, from its preface on."""

    def __init__(self) -> None:
        self._left, self._head, self._block_bytes = _PREFACE_BYTES, b"", 0

    def fit(self, data: bytes) -> bool:
        """Are the frames that go on or begin in these bytes as short as they must be, and heads of requests too?"""
        at, end = 0, len(data)
        while at < end:
            if self._left:
                step = min(self._left, end - at)
                self._left -= step
                at += step
                continue
            step = min(_FRAME_HEAD_BYTES - len(self._head), end - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == _FRAME_HEAD_BYTES:
                length, kind, flags = int.from_bytes(self._head[:3], "big"), self._head[3], self._head[4]
                if kind in (_HEADERS, _CONTINUATION):
                    self._block_bytes += length
                    if length > _MAX_FRAME_BYTES or self._block_bytes > MAX_HEAD_BYTES:
                        return False
                    if flags & _END_HEADERS:
                        self._block_bytes = 0
                elif length > _MAX_FRAME_BYTES:
                    return False
                self._left, self._head = length, b""
        return True
