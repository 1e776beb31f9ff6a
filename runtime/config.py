"""The configuration: where it is found, and one line for each thing that is wrong with it. Its sections: `sections.py`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import field

from . import checks, places
from .errors import ConfigError
from .reading import Reader, Refused, Section, document, one_line
from .sections import LONGEST_NAME, Backoff, Database, Name, Pool, Retention, Schedule, Supervisor

__all__ = [
    "MOST_WORKERS",
    "PACKAGED",
    "Backoff",
    "Config",
    "Database",
    "Pool",
    "Retention",
    "Schedule",
    "Supervisor",
    "find",
    "load",
    "resolve",
]

MOST_WORKERS = 3000
"""The sum of `concurrency` over all pools that the board has room for."""

PACKAGED = Path(__file__).parent.parent / "config" / "skipjack.toml"
"""The default that runs as it is."""


class _File(Section, frozen=True):
    database: Database = Database()
    supervisor: Supervisor = Supervisor()
    retention: Retention = Retention()
    pools: dict[Name, Pool] = field(name="pool", default_factory=dict)
    schedules: dict[Name, Schedule] = field(name="schedule", default_factory=dict)

    @classmethod
    def clashes(cls, sound: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        pools = sound.get("pools", {})
        hooks = [hook(name) for name, pool in pools.items() if pool.on_dead]
        for name in hooks:
            if name in pools:
                yield "pool", f"{name} is the type of the jobs for an on_dead, and no pool can have it"
            if len(name.encode()) > LONGEST_NAME:
                yield "pool", f"{name} is the type of the jobs for an on_dead, and longer than {LONGEST_NAME} bytes"
        workers = sum(pool.concurrency for pool in pools.values()) + len(hooks)
        if workers > MOST_WORKERS:
            yield "pool", f"the concurrency of all pools is {workers} together; at most {MOST_WORKERS}"


class Config(_File, frozen=True, kw_only=True):
    """A whole configuration, checked. All durations are floats in seconds; `pools` are by job type."""

    path: Path
    """The file it was read from, absolute."""


def hook(type_: str) -> str:
    """The type of the jobs that tell of failed and dead jobs of `type_`, and the name of the pool for them."""
    return f"{type_}.on_dead"


def find(explicit: Path | None, environ: Mapping[str, str]) -> Path:
    """The file to load: `explicit` (-c), $SKIPJACK_CONFIG, ./skipjack.toml, ./config/skipjack.toml or the packaged one.

    An empty variable counts as unset. Raises ConfigError when a file that was named does not exist.
    """
    variable = environ.get("SKIPJACK_CONFIG")
    named = explicit or (Path(variable) if variable else None)
    if named is None:
        return next(filter(_exists, (Path("skipjack.toml"), Path("config/skipjack.toml"))), PACKAGED)
    if not _exists(named):
        raise ConfigError(one_line(f"{named}: no such file (named by {'-c' if explicit else '$SKIPJACK_CONFIG'})"))
    return named


def load(path: Path, environ: Mapping[str, str]) -> Config:
    """The configuration in `path`; $SKIPJACK_DATABASE_URL overrides its URL unless the variable is empty.

    Raises ConfigError with all problems, each one line that begins with the file or the variable, none with a password.
    """
    reader, config = Reader(path), None
    table = document(path)
    with suppress(Refused):
        config = Config(**msgspec.structs.asdict(reader.section(_File, table)), path=path.absolute())
    url = environ.get("SKIPJACK_DATABASE_URL")
    try:
        checks.url(url or "")
    except ValueError as error:
        reader.problems.append(one_line(f"SKIPJACK_DATABASE_URL: {error}"))
    if config is None or reader.problems:
        raise ConfigError(*reader.problems)
    replace = msgspec.structs.replace
    # A path need not be UTF-8, but the name goes to places that are.
    name = config.supervisor.name or os.fsencode(config.path).decode(errors="backslashreplace")
    database = replace(config.database, url=url or config.database.url)
    if database.url == "embedded":
        folder = database.data_dir or places.state_dir(name) / "postgres"
        database = replace(database, data_dir=str(config.path.parent / folder))
    pools = {
        name: pool if pool.keep_done is not None else replace(pool, keep_done=config.retention.keep_done)
        for name, pool in config.pools.items()
    }
    hooks = {hook(name): pool.hook for name, pool in pools.items() if pool.hook is not None}
    return replace(config, database=database, supervisor=replace(config.supervisor, name=name), pools=pools | hooks)


def resolve(explicit: Path | None) -> Config:
    """The configuration that applies to this process: `load` of what `find` finds."""
    return load(find(explicit, os.environ), os.environ)


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        # It is there but out of reach: `load` says why.
        return True
    return True
