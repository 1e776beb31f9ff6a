"""Durations as people write them: "500ms", "30s", "1h30m", "7d"."""

import re
from itertools import pairwise

LONGEST = 10 * 365 * 86_400.0
"""Ten years, in seconds: anything longer is a slip of the keyboard."""

# In milliseconds, because 1001 * 0.001 is not 1.001.
_UNITS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
# Large units first, each once: "5m1h" and "5m5m" are slips that must not be added up.
_DURATION = re.compile("".join(f"(?:(?P<{unit}>{_NUMBER}){unit})?" for unit in _UNITS))
_SPELLED_OUT = {
    "weeks?|wks?": "w",
    "days?": "d",
    "hours?|hrs?": "h",
    "minutes?|mins?": "m",
    "milliseconds?|millis|msecs?": "ms",
    "seconds?|secs?": "s",
}


def parse(text: str) -> float:
    """The seconds that `text` means: numbers with the units w, d, h, m, s, ms, as in "90s", "1.5h" or "1h30m".

    Raises ValueError, in one line that proposes the mend: no unit, an unknown one, negative, over ten years.
    """
    seconds = _seconds(text)
    if seconds is None:
        raise ValueError(_mend(text))
    if seconds > LONGEST:
        raise ValueError(f'"{_clipped(text)}" is longer than ten years')
    return seconds


def text(seconds: float) -> str:
    """The short form of `seconds` to the millisecond, which `parse` reads back: "1h30m", "1.5s", "500ms".

    Never fails: what `parse` would refuse becomes "-2m", "inf" or "nan".
    """
    if not abs(seconds) < 1e15:
        return str(seconds)
    left = round(abs(seconds) * 1000)
    if left < 1000:
        return f"{round(seconds * 1000)}ms" if left else "0s"
    sign, parts = "-" if seconds < 0 else "", ""
    # Weeks are left out: "10d" says more than "1w3d".
    for unit in ("d", "h", "m"):
        count, left = divmod(left, _UNITS[unit])
        parts += f"{count}{unit}" if count else ""
    return sign + parts + (f"{left / 1000:g}s" if left else "")


def _seconds(text: str) -> float | None:
    found = _DURATION.fullmatch(text)
    if not found or not text:
        return None
    return sum(float(number) * _UNITS[unit] for unit, number in found.groupdict().items() if number) / 1000


def _mend(text: str) -> str:
    plain = re.sub(r"\s", "", text).lower()
    for words, unit in _SPELLED_OUT.items():
        plain = re.sub(rf"(?<=[0-9])(?:{words})(?![a-z])", unit, plain)
    said = _clipped(text)
    if re.match("-[0-9.]", plain):
        return f'"{said}" is negative; the shortest duration is "0s"'
    if re.fullmatch(_NUMBER, plain):
        return f'{_clipped(plain)} has no unit; write "{_clipped(plain)}s"'
    # "1h30" means minutes: the next finer unit than the one before.
    for coarse, fine in pairwise(_UNITS):
        if re.search(rf"[0-9]{coarse}{_NUMBER}$", plain):
            plain += fine
            break
    if _seconds(plain) is not None:
        return f'"{said}" is not a duration; write "{_clipped(plain)}"'
    return f'"{said}" is not a duration; write a number with ms, s, m, h, d or w, such as "30s" or "1h30m"'


def _clipped(text: str) -> str:
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= 40 else f"{text[:39]}…"
