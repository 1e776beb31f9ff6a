"""A real Prometheus that scrapes supervisors, for tests. Debian's package `prometheus`."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from harness import HUNG, eventually

BINARY = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(BINARY is None, reason="prometheus is missing: install Debian's package")


class Prometheus:
    """One that runs."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **params: str) -> Any:
        """The data that the API answers with; None while it is not there yet."""
        try:
            with urlopen(f"{self._url}/api/v1/{path}?{urlencode(params)}", timeout=HUNG) as answer:
                return json.load(answer)["data"]
        except HTTPError as error:
            assert error.code == HTTPStatus.SERVICE_UNAVAILABLE, f"{params}: {error.read().decode()}"
        except URLError:
            pass
        return None

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found


@contextmanager
def prometheus(folder: Path, target: int, interval: str, rules: Path | None = None) -> Iterator[Prometheus]:
    """One that scrapes port `target` as job "skipjack"; it is gone afterwards."""
    assert BINARY is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    static = [{"targets": [f"127.0.0.1:{target}"]}]
    config = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [str(rules)] if rules else [],
        "scrape_configs": [{"job_name": "skipjack", "static_configs": static}],
    }
    (folder / "prometheus.json").write_text(json.dumps(config))
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [BINARY, f"--config.file={folder / 'prometheus.json'}", f"--storage.tsdb.path={folder / 'tsdb'}",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log, process_group=0,
        )  # fmt: skip
    try:
        running = Prometheus(port)
        eventually(lambda: running.get("targets"))
        yield running
    finally:
        process.kill()
        process.wait()
