"""The exporter: /metrics for Prometheus, /healthz and /readyz for a process monitor, /status for `skipjack status --watch`.

A child of its own, never a thread elsewhere. What children do comes from the board, what the queue holds from the database;
without a database the rest is still served. What is served at /metrics stands in config/METRICS.md.
"""

import time
from collections.abc import Iterator

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from .board import Cell, State
from .board_view import SILENCE, view
from .child import Child
from .depth import Depth
from .errors import ConfigError
from .metrics import Host
from .role import LONGEST_PAUSE
from .role import run as run_role
from .server import Handler, Server

TEXT = "text/plain; charset=utf-8"


def run(child: Child) -> None:
    """The role. Raises ConfigError if the address is taken."""
    address = child.config.supervisor.address
    if address is not None:
        serve(child, *address)
    run_role(child, "exporter", lambda: LONGEST_PAUSE)


def serve(child: Child, host: str, port: int) -> None:
    """Answers in threads of this process from now on. Raises ConfigError if the address is not to be had."""
    try:
        server = Server(host, port, pages(child))
    except OSError as error:
        raise ConfigError(f'[supervisor] listen = "{child.config.supervisor.listen}": {error.strerror}') from None
    server.start()


def pages(child: Child) -> type[Handler]:
    """What is said at each path."""
    depth = Depth(child.config)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Host(child))
    registry.register(depth)

    class Pages(Handler):
        def page(self, path: str) -> tuple[int, str, bytes]:
            match path:
                case "/metrics":
                    encode, kind = choose_encoder(", ".join(self.headers.get_all("Accept", [])))
                    return 200, kind, encode(registry)
                case "/healthz":
                    turned = time.monotonic() - child.board.slot(0)[Cell.ALIVE] / 1e9
                    body = f"the supervisor's loop turned {turned:.1f} s ago\n"
                    return 200 if turned < SILENCE else 503, TEXT, body.encode()
                case "/readyz":
                    lacking = "; ".join(missing(child, depth))
                    return 503 if lacking else 200, TEXT, f"{lacking or 'ready'}\n".encode()
                case "/status":
                    return 200, "application/json", msgspec.json.encode(view(child))
            return 404, TEXT, b"/metrics, /healthz, /readyz, /status\n"

    return Pages


def missing(child: Child, depth: Depth) -> Iterator[str]:
    """What keeps this host from doing its work: a database that answers, and a worker that is ready in every pool."""
    if not depth.newest().up:
        yield "the database does not answer"
    for name in child.config.pools:
        if all(cells[Cell.STATE] < State.IDLE for cells in child.peers(name)):
            yield f"no worker of pool {name} is ready"
