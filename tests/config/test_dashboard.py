"""Every query of the dashboard, and every rule's, is answered by a real Prometheus that scrapes a real run."""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness import Jobs, Supervisor, eventually
from prometheus import Prometheus, needs_prometheus, prometheus
from scrape import listening, scrape

FOLDER = Path(__file__).parent.parent.parent / "config"
POOLS = """
[pool.work]
handler = "handlers:work"
[pool.raises]
handler = "handlers:raises"
max_attempts = 2
backoff = { base = "100ms", cap = "100ms" }
[schedule.second]
job = "work"
every = "1s"
"""


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text())
    return found


def queries() -> Iterator[str]:
    """As Grafana would ask them, of all types."""
    panels = dashboard()["panels"]
    texts = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(texts) > 20
    for text in texts:
        yield text.replace("$__rate_interval", "30s").replace("$type", ".*")


def unanswered(running: Prometheus, wanted: list[str]) -> list[str]:
    """Those of `wanted` that find nothing; `wanted` is left with them."""
    wanted[:] = [query for query in wanted if not running.ask(query)]
    return wanted


def test_the_dashboard_is_laid_out_without_gaps_or_overlaps() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        assert panel["type"] in ("row", "text") or panel["description"], panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])


def test_what_is_asked_for_is_in_the_table_of_metrics() -> None:
    known = set(re.findall(r"^\| `(skipjack_\w+)`", (FOLDER / "METRICS.md").read_text(), re.MULTILINE))
    text = (FOLDER / "grafana.json").read_text() + (FOLDER / "alerts.yml").read_text()
    asked = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"skipjack_\w+", text)}
    assert asked <= known | {f"{name}_total" for name in known} | {f"{name}_info" for name in known}


@needs_prometheus
def test_every_query_is_answered_with_what_happened(
    supervise: Callable[..., Supervisor], jobs: Jobs, tmp_path: Path
) -> None:
    s = supervise(POOLS)
    ask = listening(s)
    s.start().started()
    port = int(re.findall(r"listen = '127.0.0.1:(\d+)'", s.config.read_text())[0])
    eventually(lambda: scrape(ask)("db_up"))
    with prometheus(tmp_path, port, "500ms", FOLDER / "alerts.yml") as running:
        eventually(lambda: running.ask("skipjack_db_up"))
        jobs.add("work", count=20)
        for what in ("error", "fail", "unavailable"):
            jobs.add("raises", json.dumps({"what": what}))
        os.kill(s.workers("work")[0], signal.SIGKILL)
        wanted = list(queries())
        eventually(lambda: not unanswered(running, wanted), every=0.5)
        for note in dashboard()["annotations"]["list"]:
            running.ask(note["expr"])  # there need be none
        rules = [rule for group in running.get("rules")["groups"] for rule in group["rules"]]
        assert rules and all(rule["health"] in ("ok", "unknown") for rule in rules), rules
        assert not [alert for alert in running.get("alerts")["alerts"] if alert["labels"]["alertname"] == "SkipjackGone"]
    assert s.stop() == 0
