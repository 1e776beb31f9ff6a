"""Reads what a supervisor's exporter serves."""

import socket
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

from harness import Supervisor
from prometheus_client.parser import text_string_to_metric_families

Ask = Callable[..., tuple[int, Any]]


def listening(s: Supervisor) -> Ask:
    """Lets `s` listen at a port of its own. Asks there: status and body, or 0 and None where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    s.config.write_text(s.config.read_text().replace("listen = ''", f"listen = '127.0.0.1:{port}'"))
    return lambda path, **headers: ask(port, path, **headers)


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
    """Status and body, or 0 and None where nobody listens."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (ConnectionRefusedError, ConnectionResetError):
        return 0, None
    finally:
        connection.close()


class Figures:
    """What stands at /metrics, without the prefix of the names."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float | None:
        """The value of one series; None if there is none."""
        return self._values.get((f"skipjack_{name}", frozenset(labels.items())))

    def any(self, name: str) -> bool:
        """Whether there is a series of that name."""
        return any(found == f"skipjack_{name}" for found, _ in self._values)

    def counters(self) -> dict[Any, float]:
        """Every series that never goes back."""
        return {key: value for key, value in self._values.items() if key[0].endswith(("_total", "_bucket", "_count"))}


def scrape(ask: Ask) -> Figures:
    """What is there now; nothing where nobody listens."""
    status, body = ask("/metrics")
    assert status in (0, 200)
    return Figures(body or "")
