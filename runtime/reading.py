"""Reads TOML tables into msgspec Structs and notes every problem on the way, not only the first.

msgspec checks the values, one field at a time; this module walks the fields and says in TOML's words what is wrong.
"""

import json
import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from . import duration
from .errors import ConfigError


class Section(msgspec.Struct, frozen=True):
    """A table of the file. Its fields are the keys; a field without a default is required."""

    @classmethod
    def clashes(cls, sound: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yields (key, problem) where fields do not fit each other; `sound` lacks those that are wrong alone."""
        return iter(())


@dataclass(frozen=True)
class Check:
    """Stands in a field's `Annotated`: called with the converted value, raises ValueError to refuse it."""

    call: Callable[[Any], object]


@dataclass(frozen=True)
class Parse:
    """Stands in a field's `Annotated`: called with the TOML value before msgspec sees it, or raises ValueError."""

    call: Callable[[object], object]


def _duration(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'must be a duration such as "30s", not {_kind(value)}')
    return duration.parse(str(value))


Seconds = Annotated[float, Parse(_duration)]
"""A float in seconds, written in the file as "30s" or "1h30m"."""


def _size(value: object) -> int:
    units = {"K": 10, "M": 20, "G": 30}
    written = re.fullmatch(r"([0-9]+)([KMG])(i?B)?", value) if isinstance(value, str) else None
    if written is None or not int(written[1]):
        raise ValueError('must be a size such as "512M" or "2G"')
    return int(written[1]) << units[written[2]]


Size = Annotated[int, Parse(_size)]
"""An int in bytes, written in the file as "512M" or "2G", of 1,024s."""

S = TypeVar("S", bound=Section)


class Refused(Exception):
    """A value is unusable and the reader has noted why."""


class Reader:
    """Collects in `problems` what is wrong with `file`, one line each."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.problems: list[str] = []

    def note(self, keys: tuple[str, ...], what: str) -> None:
        """Notes a problem with the value at `keys`."""
        self.problems.append(one_line(f"{self.file}: {_dotted(keys)}: {what}"))

    def section(self, kind: type[S], table: object, keys: tuple[str, ...] = ()) -> S:
        """`table` as a `kind`. Raises Refused when something in it was noted."""
        if not isinstance(table, dict):
            self.note(keys, f"must be a table, not {_kind(table)}")
            raise Refused
        noted = len(self.problems)
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        for key in table:
            if key not in fields:
                self.note((*keys, key), _unknown(key, table[key], list(fields), keys))
        sound: dict[str, Any] = {}
        for key, field in fields.items():
            if key in table:
                with suppress(Refused):
                    sound[field.name] = self.value(field.type, table[key], (*keys, key))
            elif field.required:
                self.note((*keys, key), "is required")
            else:
                sound[field.name] = _default(field)
        for key, problem in kind.clashes(sound):
            self.note((*keys, key), problem)
        if len(self.problems) > noted:
            raise Refused
        return kind(**sound)

    def value(self, kind: Any, raw: object, keys: tuple[str, ...]) -> Any:
        """`raw` as a `kind`. Raises Refused when something in it was noted."""
        if _is_section(kind):
            return self.section(kind, raw, keys)
        if get_origin(kind) is dict and _is_section(get_args(kind)[1]):
            name, section = get_args(kind)
            return self._named(name, section, raw, keys)
        marks = list(_marks(kind))
        try:
            for mark in marks:
                raw = mark.call(raw) if isinstance(mark, Parse) else raw
            value = msgspec.convert(raw, kind)
            for mark in marks:
                if isinstance(mark, Check):
                    mark.call(value)
        except msgspec.ValidationError as error:
            self.note(keys, _translated(str(error), kind, raw))
        except ValueError as error:
            self.note(keys, str(error))
        except RecursionError:
            self.note(keys, "nested too deeply")
        else:
            return value
        raise Refused

    def _named(self, name: Any, kind: type[S], raw: object, keys: tuple[str, ...]) -> dict[str, S]:
        if not isinstance(raw, dict):
            self.note(keys, f"must be a table of tables, not {_kind(raw)}")
            raise Refused
        noted, found = len(self.problems), {}
        for key, table in raw.items():
            with suppress(Refused):
                self.value(name, key, (*keys, key))
            with suppress(Refused):
                found[key] = self.section(kind, table, (*keys, key))
        if len(self.problems) > noted:
            raise Refused
        return found


def document(file: Path) -> dict[str, Any]:
    """The TOML in `file`. Raises ConfigError, in one line, when it cannot be read or is not TOML."""
    try:
        text = file.read_bytes().decode()
        if text.startswith("\ufeff"):
            raise ConfigError(one_line(f"{file}: starts with a byte order mark; save it as UTF-8 without one"))
        return tomllib.loads(text)
    except OSError as error:
        problem = error.strerror or "cannot be read"
        raise ConfigError(one_line(f"{file}: {problem[0].lower()}{problem[1:]}")) from None
    except UnicodeDecodeError as error:
        row = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(one_line(f"{file}: line {row}: not UTF-8 text")) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(one_line(f"{file}: {_located(str(error), text)}")) from None
    except (ValueError, RecursionError):
        raise ConfigError(one_line(f"{file}: not usable TOML: nested too deeply, or a number too long")) from None


def one_line(text: str) -> str:
    """`text` with all that breaks a line or that a terminal obeys or cannot encode written as an escape."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in text
    )


def quoted(text: str) -> str:
    """`text` as a TOML string for a message, never long."""
    return json.dumps(text if len(text) <= 60 else f"{text[:59]}…", ensure_ascii=False)


def suggestion(word: str, words: list[str]) -> str:
    """'; did you mean "…"?' for the closest of `words`, or nothing."""
    close = get_close_matches(word, words, 1)
    return f"; did you mean {quoted(close[0])}?" if close else ""


def _unknown(key: str, value: object, known: list[str], keys: tuple[str, ...]) -> str:
    if close := suggestion(key, known):
        return f"unknown key{close}"
    # TOML splits [pool.a.b] at both dots.
    if isinstance(value, dict) and len(keys) == 2:
        return f"unknown key; a name with a dot is written [{_dotted(keys[:1])}.{quoted(f'{keys[1]}.{key}')}]"
    return f"unknown key; known here: {', '.join(known)}"


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def _marks(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Annotated:
        yield from kind.__metadata__
    elif get_origin(kind) in (typing.Union, types.UnionType):
        for part in get_args(kind):
            yield from _marks(part)


def _translated(message: str, kind: Any, raw: object) -> str:
    if " - at `" in message:
        return f"must be {_expected(kind)}"
    if "Invalid enum value" in message and isinstance(raw, str):
        choices = [choice for choice in _choices(kind) if isinstance(choice, str)]
        return f"must be {_expected(kind)}, not {quoted(raw)}{suggestion(raw, choices)}"
    if ", got `" in message or "Invalid enum value" in message:
        return f"must be {_expected(kind)}, not {_kind(raw)}"
    marks = list(_marks(kind))
    written = duration.text if any(isinstance(mark, Parse) for mark in marks) else str
    for mark in marks:
        if isinstance(mark, msgspec.Meta) and mark.ge is not None:
            most = "" if mark.le is None else f" and at most {written(mark.le)}"
            return f"must be at least {written(mark.ge)}{most}"
    return message


def _expected(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Annotated:
        return _expected(kind.__origin__)
    if origin is Literal:
        return " or ".join(map(quoted, get_args(kind)))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_expected(part) for part in get_args(kind) if part is not type(None))
    if origin is tuple:
        return f"an array of {_expected(get_args(kind)[0]).removeprefix('a ')}s"
    return {str: "a string", int: "a whole number", bool: "true or false"}.get(kind, "a table")


def _choices(kind: Any) -> Iterator[object]:
    for part in get_args(kind):
        yield from _choices(part) if get_args(part) else (part,)


def _kind(value: object) -> str:
    names = {str: "a string", bool: "a boolean", int: "a number", float: "a decimal number", dict: "a table"}
    return names.get(type(value), "an array" if isinstance(value, list) else "a date or time")


def _dotted(keys: tuple[str, ...]) -> str:
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", key) else quoted(key) for key in keys)


def _located(message: str, text: str) -> str:
    what, _, where = message.rpartition(" (at ")
    # Before Python 3.14 tomllib keeps the place only in its message, and none for the end.
    if where == "end of document)":
        where = f"line {text.count(chr(10)) + 1}, column {len(text) - text.rfind(chr(10))})"
    return f"{where[:-1]}: {what}"
