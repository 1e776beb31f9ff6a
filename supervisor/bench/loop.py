"""The bare loop: what remains of a worker when nothing but its statement is left. It is a limit, not a queue.

A process of its own for each, as workers are, with the same sessions. It takes orders on stdin and ends with it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec

from ...runtime.config import Database
from ...runtime.database import Session, conninfo
from ...runtime.statements import load
from ..signals import blocked
from .ground import Ground

PARAMS = {"lease": 60.0, "max_attempts": 10, "base": 2.0, "cap": 3600.0}
"""Those of a pool with the default settings."""


class Order(msgspec.Struct):
    """Do all jobs of a type, with claims of so many."""

    type: str
    limit: int
    url: str
    schema: str


class Loops:
    """As many processes as there would be workers."""

    def __init__(self, ground: Ground, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self._ground = ground
        self._processes = processes

    @contextmanager
    def run(self, type_: str, limit: int) -> Iterator[None]:
        """They begin; at the end of this they are through, because there are no more jobs."""
        settings = self._ground.database
        order = msgspec.json.encode(Order(type_, limit, conninfo(settings), settings.schema))
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(order + b"\n")
            process.stdin.flush()
        yield
        for process in self._processes:
            assert process.stdout is not None
            process.stdout.readline()


@contextmanager
def loops(ground: Ground, workers: int) -> Iterator[Loops]:
    """The processes; they end with this."""
    code = f"from {__name__} import main; main()"
    with ExitStack() as stack:
        processes = [stack.enter_context(process(code)) for _ in range(workers)]
        yield Loops(ground, processes)


@contextmanager
def process(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """One process of this Python that runs `code`, with pipes; it is not there afterwards."""
    started = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
    try:
        yield started
    finally:
        with blocked():
            started.kill()
            started.communicate()


def main() -> None:
    """One process."""
    session = None
    for line in sys.stdin:
        order = msgspec.json.decode(line, type=Order)
        session = session or Session(Database(url=order.url, schema=order.schema), "bare loop")
        spin(session, order)
        print(flush=True)


def spin(session: Session, order: Order) -> None:
    """Settles and claims until nothing is left; of a reply it reads the ids and the last place."""
    connection, statement = session.open(), load("settle_and_claim", order.schema)
    params = PARAMS | {"type": order.type, "limit": order.limit, "outcomes": "[]", "floor_at": "-infinity", "floor_id": 0}
    seq = 0
    while True:
        seq += 1
        token = f"bare-loop:{os.getpid()}:{id(session):x}:{seq}"
        rows = connection.run(statement, params | {"token": token})
        ids = sorted(row[1] for row in rows if row[1] is not None)
        if not ids:
            return
        outcomes = (f'{{"id":{id_},"token":"{token}","outcome":"done","attempt":1}}' for id_ in ids)
        params |= {"outcomes": f"[{','.join(outcomes)}]", "floor_at": rows[0][-1], "floor_id": ids[-1]}
