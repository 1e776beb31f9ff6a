"""pgbench with the worker's own statement: what the database gives to as many clients that do nothing else."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ...runtime import embedded
from ...runtime.config import Database
from ...runtime.database import PLANNER, conninfo
from ...runtime.errors import ConfigError, SkipjackError
from ...runtime.statements import load
from ..signals import blocked
from .ground import Ground, tail
from .loop import PARAMS

HEAD = "s.settled, c.*"
"""The columns of settle_and_claim.sql, which pgbench could not carry over to the next call."""
LONGEST = 60
"""Seconds that it runs if nobody ends it."""


def find() -> Path | None:
    """pgbench, of the embedded PostgreSQL or where programs are; None if there is none."""
    try:
        return embedded.installed_binaries() / "pgbench"
    except ConfigError:
        found = shutil.which("pgbench")
        return Path(found) if found else None


def script(schema: str) -> str:
    """settle_and_claim.sql for pgbench: settles the job before, claims the next. Each claim has a token of its own."""
    statement = load("settle_and_claim", schema).replace(f"SELECT {HEAD}", load("bench/carry", schema))
    variables = re.sub(r"%\((\w+)\)s", r":\1", statement).replace("%%", "%")
    return f"\\set seq :seq + 1\n\\set token 1000000000000 * (:client_id + 1) + :seq\n{variables} \\gset\n"


@contextmanager
def clients(ground: Ground, program: Path, type_: str, number: int) -> Iterator[None]:
    """So many clients do the jobs of this type, until the end of this. Raises SkipjackError."""
    file, log = ground.folder / "pgbench.sql", ground.folder / "pgbench.log"
    file.write_text(script(ground.database.schema))
    state = {"seq": 0, "outcomes": "[]", "floor_at": "-infinity", "floor_id": 0, "type": type_, "limit": 1}
    given = [f"--define={name}={value}" for name, value in (PARAMS | state).items()]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [program, "-n", "-M", "prepared", f"-c{number}", f"-j{number}", f"-T{LONGEST}", "-f", file, *given],
            env=environ(ground.database), stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0,
        )  # fmt: skip
    try:
        yield
        if process.poll() is not None:
            raise SkipjackError(f"pgbench has ended: {tail(log)}")
    finally:
        with blocked():
            process.terminate()
            process.wait()


def environ(settings: Database) -> dict[str, str]:
    """What libpq needs to reach the database as a worker does: the address, and the planner's settings."""
    names = {option.keyword.decode(): option.envvar for option in psycopg.pq.Conninfo.get_defaults()}
    given = {key: str(value) for key, value in conninfo_to_dict(conninfo(settings)).items() if value is not None}
    options = [given.get("options") or os.environ.get("PGOPTIONS", "")]
    given["options"] = " ".join([*options, *(f"-c {key}={value}" for key, value in PLANNER.items())]).strip()
    return os.environ | {variable.decode(): value for key, value in given.items() if (variable := names.get(key))}
