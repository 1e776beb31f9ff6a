"""Jobs from JSON lines, as `skipjack enqueue -` reads them: a bad line is told and keeps no good one out.

Lines go to the database in batches, each a transaction of its own. What only the database can refuse is found by halving the
batch, under savepoints, until the line stands alone.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from operator import attrgetter
from typing import Any, BinaryIO, NamedTuple

import msgspec
import psycopg

from ...runtime import bulk, client, database
from ...runtime.errors import ConfigError, DatabaseError, SkipjackError
from ...runtime.reading import one_line
from . import progress

BATCH, BATCH_BYTES = 1_000, 8 << 20
"""Lines and bytes, whichever comes first, in one statement."""
LONGEST = 2 * client.PAYLOAD_BYTES
"""Bytes of a line: no job that can be stored needs more."""
TOLD = 20
"""Refused lines that are told one by one."""


class Line(NamedTuple):
    """A job that is ready to be sent, and the line it stands on."""

    number: int
    job: bytes
    place: tuple[str, bool, str]
    """Its type and key; those without a key come last."""


class Given(msgspec.Struct, forbid_unknown_fields=True):
    """What a line may hold; `delay` is in seconds, or as in "5m"."""

    type: str
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    key: str | None = None
    delay: float | str = 0.0
    max_attempts: int | None = None


_decoder = msgspec.json.Decoder(Given)


def read(number: int, line: bytes) -> Line:
    """The job on `line`. Raises ConfigError, in one line."""
    if len(line) >= LONGEST:
        raise ConfigError(f"longer than {LONGEST:,} bytes")
    try:
        given = _decoder.decode(line.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8") from None
    except RecursionError:
        raise ConfigError("nested too deeply") from None
    except msgspec.ValidationError as error:
        raise ConfigError(one_line(str(error))) from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"not JSON: {str(error).removeprefix('JSON is malformed: ')}") from None
    payload = client.Json(bytes(given.payload).decode())
    job = bulk.encoded(bulk.NewJob(given.type, payload, given.key, given.delay, given.max_attempts))
    return Line(number, job, (given.type, given.key is None, given.key or ""))


def lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of `stream`; of one that is too long its first LONGEST bytes."""
    while line := stream.readline(LONGEST):
        yield line
        while len(line) == LONGEST and not line.endswith(b"\n"):
            line = stream.readline(LONGEST)  # the rest of it


class Import:
    """One run, and its counts."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self.enqueued = self.existing = self.refused = 0

    def run(self, stream: BinaryIO, *, atomic: bool) -> None:
        """Stores all that can be stored; nothing, if `atomic` and anything cannot.

        Raises DatabaseError, saying up to which line all is stored, when the database does not go on.
        """
        stored = last = 0
        try:
            with self._connection.transaction() if atomic else nullcontext(), progress.reading(stream) as done:
                for last, total, batch in self._batches(stream):
                    with self._connection.transaction():
                        self._store(batch)
                    stored = last
                    done(last, total)
                if atomic and self.refused:
                    self.enqueued = self.existing = 0
                    raise psycopg.Rollback
        except KeyboardInterrupt:
            raise SkipjackError(f"interrupted: lines up to {0 if atomic else stored} are stored") from None
        except psycopg.Error as error:
            raise DatabaseError(
                f"{so_far(error, 0 if atomic else stored, last)}; database: {' '.join(str(error).split())}"
            ) from None

    def _batches(self, stream: BinaryIO) -> Iterator[tuple[int, int, list[Line]]]:
        """Yields the number of the last line read, the bytes read so far, and the good lines since the batch before."""
        number = total = size = 0
        batch: list[Line] = []
        for number, line in enumerate(lines(stream), 1):
            total += len(line)
            size += len(line)
            if not line.isspace():
                try:
                    batch.append(read(number, line))
                except ConfigError as error:
                    self._refuse(number, error)
            if len(batch) == BATCH or size >= BATCH_BYTES:
                yield number, total, batch
                batch, size = [], 0
        yield number, total, batch

    def _store(self, batch: Sequence[Line]) -> None:
        try:
            with self._connection.transaction():
                added = bulk.send(self._connection, [line.job for line in batch], self._schema)
        except psycopg.Error as error:
            meant = client.refusal(error)
            if not isinstance(meant, ConfigError):
                raise meant from error
            if len(batch) == 1:
                self._refuse(batch[0].number, meant)
            else:
                # by type and key, as the database adds each statement's: else two imports of the same keys deadlock
                ordered, middle = sorted(batch, key=attrgetter("place")), len(batch) // 2
                self._store(ordered[:middle])
                self._store(ordered[middle:])
        else:
            new = sum(job.is_new for job in added)
            self.enqueued += new
            self.existing += len(added) - new

    def _refuse(self, number: int, error: ConfigError) -> None:
        self.refused += 1
        if self.refused <= TOLD:
            print(f"skipjack: line {number}: {error}", file=sys.stderr)


def so_far(error: psycopg.Error, stored: int, last: int) -> str:
    """What is stored when `error` came after line `last` was read."""
    said = f"lines up to {stored} are stored" if stored else "nothing is stored"
    # what broke may have been the reply to a commit
    return f"{said}, unless those up to {last} are, too" if database.is_infrastructure(error) else said
