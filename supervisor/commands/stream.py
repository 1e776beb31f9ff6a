"""`skipjack status --watch --json`: all that the watch shows, an object a line, for programs."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...runtime.config import Config
from .show import plainly
from .sources import NoAnswer, of_database, of_exporter


def stream(found: Config, interval: float) -> None:
    """A look every `interval` seconds, until it is killed or nobody reads. What cannot be had is null, and why."""
    address = found.supervisor.address
    of_all, here = of_database(found.database), of_exporter(found.supervisor, address) if address else None
    while True:
        began = time.monotonic()
        line: dict[str, Any] = {"time": datetime.now(UTC), "database": None, "here": None, "trouble": []}
        rest = 0.0
        try:
            depth, rest = of_all()
            line["database"] = {name: [row._asdict() for row in rows] for name, rows in depth._asdict().items()}
        except NoAnswer as error:
            rest = error.rest
            line["trouble"].append(str(error))
        if here is not None:
            try:
                seen, _ = here()
                trends = {name: trend._asdict() for name, trend in seen.trends.items()}
                line["here"] = msgspec.to_builtins(seen.view) | {"trends": trends}
            except NoAnswer as error:
                line["trouble"].append(str(error))
        print(json.dumps(line, default=plainly), flush=True)
        time.sleep(max(0.0, began + max(interval, rest) - time.monotonic()))
