"""One connection: to the server itself, or through a pooler that lends a server's session for one transaction at a time.

The two differ in where our settings live and in how a statement is sent, and nobody else needs to know which one it has.
"""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, LiteralString, Self

import msgspec
import psycopg
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.conninfo import make_conninfo
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.types.datetime import TimestamptzLoader

from .statements import load, numbered

Settings = Mapping[str, str]
Parameters = Mapping[str, str | int]
Rows = list[tuple[Any, ...]]
Prepared = tuple[bytes, tuple[str, ...]]
"""The name of a statement in its session, and the names of its parameters in their order."""


class Connection(psycopg.Connection[Any]):
    """A psycopg connection whose every statement ends: with an answer, or with an OperationalError after `deadline`.

    Keepalives do not help where something between us and the server (a proxy, a pooler) keeps the socket open.
    """

    deadline: float | None = None
    """Seconds; None while the connection is being made (connect_timeout rules there)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._named: dict[str, Prepared] = {}
        self._transformer = Transformer(self)

    @classmethod
    def open(cls, parameters: Parameters, settings: Settings) -> Self:
        """Opens an autocommit connection by libpq's `parameters`, whose session has `settings`.

        Raises psycopg.OperationalError.
        """
        theirs = parameters.get("options") or os.environ.get("PGOPTIONS", "")
        options = " ".join([str(theirs), *(f"-c {key}={value}" for key, value in settings.items())])
        connection = cls.connect(
            make_conninfo("", **{**parameters, "options": options.strip()}),
            autocommit=True,
            prepare_threshold=None,  # `run` prepares what is worth it
        )
        if connection.info.parameter_status("TimeZone") != "UTC":  # PGTZ outdoes the options
            connection.adapters.register_loader("timestamptz", Instant)
        return connection

    def run(self, statement: LiteralString, params: Mapping[str, object]) -> Rows:
        """One statement, prepared, in a transaction of its own. Raises psycopg.Error.

        Without a cursor, which would cost a worker half as much again as the statement does.
        """
        name, order = self._named.get(statement) or self._prepare(statement)
        transformer = self._transformer
        values = transformer.dump_sequence([params[key] for key in order], [PyFormat.TEXT] * len(order))
        self.pgconn.send_query_prepared(name, values)
        result = self._result()
        transformer.set_pgresult(result)
        return transformer.load_rows(0, result.ntuples, tuple)

    def _prepare(self, statement: LiteralString) -> "Prepared":
        query, order = numbered(statement)
        # not a name that another client has: a pooler that was not named to us may lend its session, with its statements
        name = b"skipjack_" + secrets.token_hex(8).encode()
        self.pgconn.send_prepare(name, query)
        self._result()
        prepared = self._named[statement] = name, order
        return prepared

    def _result(self) -> PGresult:
        result: PGresult = self.wait(execute(self.pgconn))[-1]
        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            raise error_from_result(result, self.info.encoding)
        return result

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.deadline)
        except psycopg.errors._WaitTimeout:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer from the server within {self.deadline:g} s") from None


class Pooled(Connection):
    """Through a pooler in transaction mode: nothing is prepared, and the settings go with each transaction.

    They go with the statement, in one simple query, which is one round trip and one transaction. In psycopg's pipeline mode
    that is one too, but the Flush at its end, behind the Sync, can reach PgBouncer when the transaction is over: it
    then lends this idle client a session for nothing, until its next statement.
    """

    _settings: str = "{}"

    @classmethod
    def open(cls, parameters: Parameters, settings: Settings) -> Self:
        connection = cls.connect(make_conninfo("", **parameters), autocommit=True, prepare_threshold=None)
        connection.adapters.register_loader("timestamptz", Instant)
        connection._settings = msgspec.json.encode(settings).decode()
        return connection

    def run(self, statement: LiteralString, params: Mapping[str, object]) -> Rows:
        cursor = psycopg.ClientCursor(self)
        cursor.execute(f"{load('settings', '')};\n{statement}", {**params, "settings": self._settings})
        cursor.nextset()
        return cursor.fetchall()

    @contextmanager
    def transaction(self, savepoint_name: str | None = None, force_rollback: bool = False) -> Iterator[psycopg.Transaction]:
        outermost = self.info.transaction_status == TransactionStatus.IDLE
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if outermost:
                self.execute(load("settings", ""), {"settings": self._settings})
            yield transaction


class Instant(TimestamptzLoader):
    """A timestamptz, in UTC. psycopg gives it the session's zone, which is the pooler's again after a transaction."""

    def load(self, data: Buffer) -> datetime:
        return super().load(data).astimezone(UTC)
