"""Lines out of what comes in pieces."""

from collections.abc import Iterator

LONGEST = 8192
"""Bytes. A longer line is cut into several."""


class Lines:
    """Keeps the half line at the end until the rest of it has come."""

    def __init__(self) -> None:
        self._half = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that are whole now."""
        half = self._half + data
        if b"\n" not in data and len(half) <= LONGEST:  # print() comes here with each of its arguments
            self._half = half
            return []
        *whole, half = half.split(b"\n")
        *more, self._half = pieces(half)
        return [text(piece) for line in whole for piece in pieces(line)] + [text(piece) for piece in more]

    def rest(self) -> list[str]:
        """The half line, which will not become whole."""
        half, self._half = self._half, b""
        return [text(half)] if half else []


def pieces(line: bytes) -> Iterator[bytes]:
    """The line, cut where it is too long, but not within a character."""
    start = 0
    while len(line) - start > LONGEST:
        end = start + LONGEST
        while line[end] & 0xC0 == 0x80 and end > start + LONGEST - 4:
            end -= 1
        yield line[start:end]
        start = end
    yield line[start:]


def text(line: bytes) -> str:
    """What is not UTF-8 becomes escapes."""
    return line.decode(errors="backslashreplace")
