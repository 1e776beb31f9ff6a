"""How often the gate of NOTIFY is passed too early: `python tests/bench/gate.py URL` on a database to be filled and emptied.

The trigger notifies only while a host has said in `waiter` that workers are idle. An enqueue whose trigger ran before that
was committed, and whose own commit comes after the listener's look, is told of by nobody. So: a pool that was busy for a
while becomes idle, again and again, while clients enqueue in transactions of some milliseconds that end at a random moment.
Prints how often the last jobs had to wait for a later look, and how long.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import psycopg

from skipjack.runtime.migrate import migrate

ROUNDS, CLIENTS, BUSY = 60, 4, 1.3
HELD = 0.01
"""Seconds from a client's INSERT to its COMMIT."""
PROMPT = 0.1
"""Seconds from the commit to the start that count as woken."""
COMMAND = [sys.executable, "-c", "from skipjack.supervisor.cli import main; main()", "-c"]
CONFIG = '[supervisor]\nlisten = ""\n[pool.work]\nhandler = "gated:work"\nclaim = 10\n'
HANDLER = "import time\ndef work(job):\n    time.sleep(job.payload.get('seconds', 0))\n"


def client(url: str, until: float, committed: dict[int, float]) -> None:
    """Enqueues until then, and notes when each job was committed."""
    with psycopg.connect(url) as connection:
        while time.time() < until:
            row = connection.execute("INSERT INTO skipjack.job (type) VALUES ('work') RETURNING id").fetchone()
            assert row is not None
            time.sleep(HELD)
            connection.commit()
            committed[row[0]] = time.time()


def transition(url: str, connection: "psycopg.Connection[tuple[float]]") -> float:
    """The workers are busy, and become idle about when the clients end; the longest wait from a commit to the start."""
    connection.execute("INSERT INTO skipjack.job (type, payload) VALUES ('work', jsonb_build_object('seconds', %s))", [BUSY])
    committed: dict[int, float] = {}
    until = time.time() + BUSY + random.uniform(0, 0.03)
    clients = [threading.Thread(target=client, args=(url, until, committed)) for _ in range(CLIENTS)]
    time.sleep(BUSY - 0.1)
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    while connection.execute("SELECT 1 FROM skipjack.job WHERE status IN ('ready', 'running') LIMIT 1").fetchone():
        time.sleep(0.02)
    started = connection.execute("SELECT id, extract(epoch FROM started_at)::float8 FROM skipjack.job").fetchall()
    connection.execute("DELETE FROM skipjack.job")
    return max(at - committed[id] for id, at in started if id in committed)


def main(url: str) -> None:
    """Runs a supervisor with one worker, and prints."""
    with psycopg.connect(url, autocommit=True) as connection, tempfile.TemporaryDirectory() as folder:
        migrate(connection, "skipjack")  # type: ignore[arg-type]
        Path(folder, "skipjack.toml").write_text(CONFIG)
        Path(folder, "gated.py").write_text(HANDLER)
        environment = os.environ | {"SKIPJACK_DATABASE_URL": url, "SKIPJACK_STATE_DIR": folder}
        command = [*COMMAND, str(Path(folder, "skipjack.toml")), "run"]
        supervisor = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
        try:
            transition(url, connection)
            waits = [transition(url, connection) for _ in range(ROUNDS)]
        finally:
            supervisor.send_signal(signal.SIGTERM)
            supervisor.wait()
    late = [wait for wait in waits if wait > PROMPT]
    print(f"{ROUNDS} times busy, then idle: in {len(late)} the last job was not told of", end="")
    print(f", and waited {median(late):.2f} s (at most {max(late):.2f} s)" if late else "")


if __name__ == "__main__":
    main(sys.argv[1])
