"""What single values of the configuration must look like. Each check raises ValueError with one line that says how."""

import ipaddress
import json
import re
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from .reading import Check, quoted, suggestion


def length(least: int, most: int) -> Check:
    """A check for text of `least` to `most` bytes without control characters."""

    def check(text: str) -> None:
        if not least <= len(text.encode()) <= most or re.search(r"[\x00-\x1f\x7f-\x9f]", text):
            raise ValueError(f"must be {least} to {most} bytes long, without control characters")

    return Check(check)


def schema(name: str) -> None:
    """A schema that needs no quotes in anybody's SQL."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name):
        raise ValueError(f"{quoted(name)} must be 1 to 63 of a-z, 0-9 and _, and not begin with a digit")
    if name.startswith("pg_") or name == "information_schema":
        raise ValueError(f"{quoted(name)} is reserved by PostgreSQL")


PLAIN = re.compile(r"postgres(ql)?://([^@/]*@)?[^@?]*(\?.*)?|(?!postgres(ql)?://).*", re.DOTALL)
"""A URL in which every "@" stands where libpq looks for it; or keywords."""


def url(text: str) -> None:
    """ "embedded", "" or what libpq takes. The message never holds a part of `text`: it may be the password."""
    if text in ("", "embedded"):
        return
    try:
        # libpq would stop reading at the NUL.
        if "\0" in text:
            raise ValueError("it holds a NUL")
        given = conninfo_to_dict(text)
        # else a part of the password would be taken for the host, the port or the database, and stand in every error
        if not PLAIN.fullmatch(text) or not re.fullmatch(r"[0-9,]*", str(given.get("port", ""))):
            raise ValueError("a port is a number, and in a URL @ and / of a password are written %40 and %2F")
    except (psycopg.Error, ValueError) as error:
        # libpq quotes what it cannot read; a quote within that is why this goes from the first to the last.
        reason = re.sub(r'".*"', '"…"', str(error).strip(), flags=re.DOTALL)
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeError) else reason
        forms = '"embedded", "", a URL like "postgresql://user@host/database" or keywords like "host=… dbname=…"'
        raise ValueError(f"must be {forms}: {reason}{suggestion(text, ['embedded'])}") from None


def reference(name: str) -> None:
    """ "module:name", both with dots if need be. Nothing is imported."""
    module, _, attribute = name.partition(":")
    if all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        return
    package, _, last = name.rpartition(".")
    mend = f"{package}:{last}" if package and last and ":" not in name else "app.jobs:send_email"
    raise ValueError(f'{quoted(name)} is not of the form "module:name"; write it like {quoted(mend)}')


def references(names: tuple[str, ...]) -> None:
    """Each a `reference`."""
    for name in names:
        reference(name)


def command(words: tuple[str, ...]) -> None:
    """A program and its arguments, as execve takes them."""
    if not words or not words[0]:
        raise ValueError('must be a program and its arguments, like ["pg_dump", "-Fc", "app"]')
    if any("\0" in word for word in words):
        raise ValueError("holds a NUL, which no argument can hold")


def either(work: str | tuple[str, ...]) -> None:
    """A `reference`, or a `command`."""
    if isinstance(work, str):
        reference(work)
    else:
        command(work)


def payload(value: dict[str, Any]) -> None:
    """What jsonb can hold; TOML's dates, inf and nan are no JSON."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError("must be JSON: dates and times as strings, no inf or nan") from None
    if len(text) > 1 << 20:
        raise ValueError("is larger than 1,048,576 bytes; store it elsewhere and give a reference")
    if re.search(r"(?<!\\)(\\\\)*\\u0000", text):
        raise ValueError("holds a NUL, which PostgreSQL's jsonb refuses")


def payloads(values: tuple[dict[str, Any], ...]) -> None:
    """Each one a `payload`."""
    for value in values:
        payload(value)


def listen(text: str) -> None:
    """An `address`, or "" for none."""
    if text:
        address(text)


def address(text: str) -> tuple[str, int]:
    """Host and port of "127.0.0.1:9464", "localhost:9464" or "[::1]:9464"; the host comes without brackets."""
    host, _, port = text.rpartition(":")
    if re.fullmatch(r"[0-9]{1,5}", port) and int(port) < 65536:
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else ""
        if _is_ip(bare, 6) or _is_ip(host, 4) or re.fullmatch(r"(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9._-]{0,252}", host):
            return bare or host, int(port)
        if _is_ip(host, 6):
            raise ValueError(f'{quoted(text)} is ambiguous; write "[{host}]:{port}"')
    raise ValueError(f'{quoted(text)} is not host:port; write it like "127.0.0.1:9464" or "[::1]:9464", "" for none')


def _is_ip(host: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(host).version == version
    except ValueError:
        return False
