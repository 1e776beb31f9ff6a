"""The sections of the configuration file: what may stand in each, and how its keys must fit each other.

Every duration is a float in seconds.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from . import checks, cron, duration
from .reading import Check, Seconds, Section, Size

LONGEST_NAME = 200
"""Bytes."""
Name = Annotated[str, checks.length(1, LONGEST_NAME)]


class Database(Section, frozen=True):
    """Where the jobs are. `repr` leaves out the URL, which may hold a password."""

    url: Annotated[str, Check(checks.url)] = "embedded"
    """"embedded", "" for the PG* variables, or anything that libpq takes."""
    schema: Annotated[str, Check(checks.schema)] = "skipjack"
    prepare: bool = True
    """Whether statements are prepared, and settings kept by the session; false for a pooler in transaction mode."""
    listen_url: Annotated[str, Check(checks.url)] = ""
    """Where to hear of new jobs if `url` leads to a pooler, past it; "" to ask once a second then."""
    data_dir: Annotated[str, checks.length(0, 4095)] = ""
    """The embedded database's folder; `load` fills in one below the state folder of this name."""

    @property
    def directory(self) -> Path:
        """The embedded database's folder."""
        return Path(self.data_dir)

    def __repr__(self) -> str:
        return f"Database(schema={self.schema!r}, data_dir={self.data_dir!r})"


class Supervisor(Section, frozen=True):
    """The parent process of this host."""

    app: Name = "main"
    """Supervisors with one app own the same schedules."""
    name: Name = ""
    """One instance per name and host; `load` fills in the file's absolute path."""
    grace: Seconds = 30.0
    """Seconds that running jobs have to end at a stop."""
    listen: Annotated[str, Check(checks.listen)] = "127.0.0.1:9464"
    """Host and port for metrics and health; "" for none."""
    migrate: bool = True
    """Whether the start migrates the schema."""
    boot_deadline: Annotated[Seconds, Meta(ge=1)] = 60.0
    """Seconds after which a child that is not ready is replaced."""

    @property
    def address(self) -> tuple[str, int] | None:
        """`listen` as host (IPv6 without brackets) and port, or None."""
        return checks.address(self.listen) if self.listen else None


class Retention(Section, frozen=True):
    """When finished jobs are cleared away, and what becomes of them. Durations in seconds."""

    schedule: Name = "*/5 * * * *"
    """Cron, in UTC."""
    keep_done: Seconds = 604_800.0
    """How long a done job is kept; 0 removes it within about a second. A pool may say otherwise."""
    archive: bool = False
    """Whether done jobs go to job_archive instead of being deleted."""
    keep_archive: Seconds = 7_776_000.0
    """How long they stay there."""
    keep_dead: Seconds | None = None
    """How long failed and dead jobs are kept; None: until somebody decides."""

    @classmethod
    def clashes(cls, sound: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        match sound:
            case {"schedule": str(expression)}:
                yield from refusal("schedule", cron.check, expression, "UTC")


class Backoff(Section, frozen=True):
    """The pause before a retry: doubles from `base` up to `cap`, both in seconds."""

    base: Seconds = 2.0
    cap: Seconds = 3600.0

    @classmethod
    def clashes(cls, sound: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        match sound:
            case {"base": base, "cap": cap} if base > cap:
                yield "cap", f'must be at least base, "{duration.text(base)}"'


class Pool(Section, frozen=True):
    """The workers of one job type."""

    handler: Annotated[str, Check(checks.reference)] | None = None
    """"module:name", not imported here; or `command`, one of them."""
    command: Annotated[tuple[str, ...], Check(checks.command)] | None = None
    """A program and its arguments, run for each job without a shell."""
    concurrency: Annotated[int, Meta(ge=1, le=1024)] = 1
    lease: Annotated[Seconds, Meta(ge=1)] = 60.0
    """Seconds for which a claim holds unless renewed."""
    heartbeat: Annotated[Seconds, Meta(ge=0.1)] = 0.0
    """Seconds between renewals; left out it becomes a quarter of the lease."""
    timeout: Annotated[Seconds, Meta(ge=0.001)] | None = None
    """Seconds that one attempt may take."""
    max_attempts: Annotated[int, Meta(ge=1, le=32767)] = 10
    max_jobs: Annotated[int, Meta(ge=1)] | None = None
    """Jobs after which a worker is replaced."""
    max_rss: Size | None = None
    """Bytes of memory from which on a worker is replaced, between two jobs."""
    backoff: Backoff = Backoff()
    claim: Annotated[int, Meta(ge=1, le=1000)] | Literal["auto"] = 1
    """Jobs taken per claim."""
    keep_done: Seconds | None = None
    """Seconds that a done job is kept; `load` fills in the one of [retention]."""
    durability: Literal["full", "relaxed"] = "full"
    on_lease_lost: Literal["kill", "finish"] = "kill"
    at_boot: Annotated[tuple[dict[str, Any], ...], Check(checks.payloads)] = ()
    """Payloads of jobs that every start of a supervisor enqueues, like cron's @reboot."""
    on_dead: Annotated[str | tuple[str, ...], Check(checks.either)] | None = None
    """A handler, or a program, for a job that tells of each job of this type that fails or dies; see `hook`."""
    unavailable: Annotated[tuple[str, ...], Check(checks.references)] = ()
    """Exception types, "module:name", that count as infrastructure errors too."""

    def __post_init__(self) -> None:
        if not self.heartbeat:
            msgspec.structs.force_setattr(self, "heartbeat", self.lease / 4)

    @property
    def hook(self) -> "Pool | None":
        """The pool that runs `on_dead`: one worker, and retries of its own. It has no hook itself."""
        match self.on_dead:
            case str(handler):
                return Pool(handler=handler, keep_done=self.keep_done)
            case tuple(command):
                return Pool(command=command, keep_done=self.keep_done)
        return None

    @classmethod
    def clashes(cls, sound: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        match sound:
            case {"lease": lease, "heartbeat": heartbeat} if lease < 3 * heartbeat - 1e-6:
                yield "lease", f'must be at least three heartbeats, "{duration.text(3 * heartbeat)}"'
        match sound:
            case {"handler": None, "command": None}:
                yield "handler", 'is required, or command = ["program", "argument"] in its place'
            case {"handler": str(), "command": tuple()}:
                yield "command", "stands beside handler; keep one of them"
            case {"command": tuple(), "unavailable": (_, *_)}:
                yield "unavailable", "is for handlers; a command says so with exit code 75"


def refusal(key: str, check: Callable[..., None], *values: Any) -> Iterator[tuple[str, str]]:
    """(key, problem) if `check` refuses these values."""
    try:
        check(*values)
    except cron.SlotError as error:
        yield "timezone" if error.reason == "zone" else key, str(error)


class Schedule(Section, frozen=True):
    """A job that comes by itself: by `cron` or `every`, exactly one of them."""

    job: Name
    """The type of the jobs; any, also one without a pool on this host."""
    cron: Name | None = None
    every: Annotated[Seconds, Meta(ge=1)] | None = None
    """Seconds between slots."""
    timezone: Name = "UTC"
    payload: Annotated[dict[str, Any], Check(checks.payload)] = field(default_factory=dict)
    spread: Seconds | None = None
    """Seconds: the window after the slot in which the schedule has its fixed offset."""
    catch_up: Literal["last", "none", "all"] = "last"
    """What becomes of slots that were missed: the newest fires, none (if later than 5 minutes), or all (at most 100)."""
    catch_up_window: Annotated[Seconds, Meta(ge=60)] = 86_400.0
    """How late a slot may fire at all. A tick is always a little late."""
    overlap: Literal["allow", "skip"] = "allow"
    """"skip": no job while the previous one is still ready or running."""

    @classmethod
    def clashes(cls, sound: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        match sound:
            case {"cron": None, "every": None}:
                yield "cron", 'is required, or every: cron = "0 3 * * *" or every = "30s"'
            case {"cron": str(), "every": float()}:
                yield "every", "stands beside cron; keep one of them"
            case {"cron": str(expression), "timezone": str(timezone)}:
                yield from refusal("cron", cron.check, expression, timezone)
            case {"every": float(period)}:
                yield from refusal("every", cron.check_every, period)
