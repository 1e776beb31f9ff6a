"""The exporter: /metrics for Prometheus, /healthz for a process monitor, and /status for `skipjack status --watch`.

A child of its own, never a thread elsewhere.

What children do comes from the board; what the queue holds from one indexed query, cached, so that a scrape of many
hosts costs the database little. Without a database the rest is still served.
"""

import logging
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import psycopg
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from .board import Cell
from .board_view import SILENCE, children, view
from .child import Child
from .database import Session
from .errors import ConfigError
from .role import LONGEST_PAUSE
from .role import run as run_role
from .statements import load
from .timer import now

log = logging.getLogger("skipjack.exporter")
CACHE = 5.0
"""Seconds for which the queue's figures are kept."""


class Queue(Collector):
    """Figures of the whole fleet: every exporter on the same database says the same."""

    def __init__(self, child: Child) -> None:
        self._session = Session(child.config.database, "exporter", deadline=CACHE)
        self._counts = load("counts", child.config.database.schema)
        self._lock = threading.Lock()
        self._until = 0.0
        self._rows: list[tuple[str, int, int, int]] | None = None

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Depth of the queue by type, and whether the database answers."""
        rows = self._fresh()
        yield GaugeMetricFamily("skipjack_db_up", "Whether the database answers.", value=rows is not None)
        for index, name in enumerate(("ready", "running", "dead"), 1):
            family = GaugeMetricFamily(
                f"skipjack_{name}_jobs", f"Jobs that are {name}, of the whole fleet: use max, not sum.", labels=["type"]
            )
            for row in rows or ():
                family.add_metric([row[0]], int(row[index]))
            yield family

    def _fresh(self) -> list[tuple[str, int, int, int]] | None:
        with self._lock:
            if now() >= self._until:
                try:
                    self._rows = [(row[0], row[1], row[2], row[3]) for row in self._session.run(self._counts, {})]
                except psycopg.Error as error:
                    log.debug("no figures of the queue: %s", error)
                    self._rows = None
                self._until = now() + CACHE
            return self._rows


class Children(Collector):
    """Figures of this host, from the board."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Children by pool (or role) and state."""
        family = GaugeMetricFamily("skipjack_children", "Children of this supervisor.", labels=["pool", "state"])
        pools = self._child.config.pools
        wanted = {name: pools[name].concurrency if name in pools else 0 for name in self._child.pool_slots}
        slots = self._child.pool_slots | {role: [slot] for role, slot in self._child.role_slots.items()}
        for name, where in slots.items():
            for state, count in children(self._child.board, where, wanted.get(name, 1)).items():
                family.add_metric([name, state], count)
        yield family


def handler(child: Child) -> type[BaseHTTPRequestHandler]:
    """The request handler for this child's figures."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Children(child))
    registry.register(Queue(child))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/metrics":
                    self._answer(200, generate_latest(registry), CONTENT_TYPE_LATEST)
                case "/healthz":
                    turned = time.monotonic() - child.board.slot(0)[Cell.ALIVE] / 1e9
                    body = f"the supervisor's loop turned {turned:.1f} s ago\n"
                    self._answer(200 if turned < SILENCE else 503, body.encode(), "text/plain; charset=utf-8")
                case "/status":
                    self._answer(200, msgspec.json.encode(view(child)), "application/json")
                case _:
                    self._answer(404, b"/metrics, /healthz, /status\n", "text/plain; charset=utf-8")

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            log.debug(format, *args)

    return Handler


def run(child: Child) -> None:
    """The role. Raises ConfigError if the address is taken."""
    address = child.config.supervisor.address
    if address is not None:
        serve(child, *address)
    run_role(child, "exporter", lambda: LONGEST_PAUSE)


def serve(child: Child, host: str, port: int) -> None:
    """Answers in threads of this process from now on. Raises ConfigError if the address is not to be had."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, request: object, client_address: object) -> None:
            log.debug("a client went away", exc_info=True)

    try:
        server = Server((host, port), handler(child))
    except OSError as error:
        raise ConfigError(f'[supervisor] listen = "{child.config.supervisor.listen}": {error.strerror}') from None
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
