"""Every alert fires when it should and is silent when it should, as promtool sees it."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from harness import COMMAND

RULES = Path(__file__).parent.parent.parent / "config" / "alerts.yml"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing: install Debian's prometheus")
Series = dict[str, str]
"""Values by series, in promtool's notation, a value a minute."""


class Case(NamedTuple):
    """One alert."""

    fires: Series
    labels: dict[str, str]
    """Of the one alert that fires."""
    quiet: list[Series]
    """Situations in which it does not."""


EMAIL, HOST = 'type="email"', 'instance="a:9464",job="skipjack"'
OLDEST, PAUSED = f"skipjack_oldest_ready_seconds{{{EMAIL}}}", f"skipjack_type_paused{{{EMAIL}}}"
JOBS = f'skipjack_jobs_total{{{EMAIL},{HOST},outcome="%s"}}'
RESTARTS = f'skipjack_child_restarts_total{{pool="email",{HOST},reason="%s"}}'
RETURNS = f'skipjack_job_returns_total{{{EMAIL},{HOST},reason="%s"}}'
CHILDREN = f'skipjack_children{{{HOST},pool="%s",state="%s"}}'
MISSED = 'skipjack_schedule_slots_missed_total{schedule="report"}'
BROKEN = 'skipjack_schedule_broken{schedule="report"}'
REFUSED = f'skipjack_reloads_total{{{HOST},result="%s"}}'
DEGRADED, UP = f'skipjack_degraded{{{HOST},pool="email"}}', f"skipjack_db_up{{{HOST}}}"
EXPIRED = f"skipjack_lease_expirations_total{{{HOST}}}"
CASES = {
    "SkipjackOldestReadyTooOld": Case(
        {OLDEST: "400+60x30", PAUSED: "0x30"},
        {"type": "email", "severity": "page"},
        [{OLDEST: "0 100 400 100 0x30"}, {OLDEST: "400+60x30", PAUSED: "1x30"}, {OLDEST: "0x30"}],
    ),
    "SkipjackDeadLettersGrow": Case(
        {JOBS % "dead": "0x20 1x10"},  # one is enough: of a nightly job there is no second
        {"type": "email", "severity": "ticket"},
        [{JOBS % "dead": "7x30"}, {JOBS % "done": "0+100x30"}, {JOBS % "retry": "0+100x30"}],
    ),
    "SkipjackDegraded": Case(
        {DEGRADED: "0 1x30"},
        {"instance": "a:9464", "pool": "email", "severity": "page"},
        [{DEGRADED: "0x30"}, {DEGRADED: "0x10 1 0x20"}],
    ),
    "SkipjackCrashLoop": Case(
        {RESTARTS % "oom": "0+3x30"},
        {"pool": "email", "reason": "oom", "severity": "ticket"},
        [{RESTARTS % "recycled": "0+30x30"}, {RESTARTS % "crash": "0x10 5x20"}],
    ),
    "SkipjackLeasesExpire": Case({EXPIRED: "0+1x30"}, {"severity": "ticket"}, [{EXPIRED: "9x30"}, {EXPIRED: "0x10 1x20"}]),
    "SkipjackJobsReturned": Case(
        {RETURNS % "unavailable": "0+3x30"},
        {"type": "email", "reason": "unavailable", "severity": "ticket"},
        [{RETURNS % "unstarted": "0+30x30"}, {RETURNS % "shutdown": "0+30x30"}, {RETURNS % "outage": "0x10 8x20"}],
    ),
    "SkipjackSlotsMissed": Case({MISSED: "0x10 1x20"}, {"schedule": "report", "severity": "ticket"}, [{MISSED: "5x30"}]),
    "SkipjackScheduleBroken": Case(
        {BROKEN: "0 1x30"}, {"schedule": "report", "severity": "ticket"}, [{BROKEN: "0x30"}, {BROKEN: "0x20 1x3 0x9"}]
    ),
    "SkipjackNoScheduler": Case(
        {CHILDREN % ("scheduler", "idle"): "1 0x30", CHILDREN % ("scheduler", "empty"): "0 1x30"},
        {"severity": "page"},
        [
            {CHILDREN % ("scheduler", "idle"): "1x30", CHILDREN % ("scheduler", "empty"): "0x30"},
            {CHILDREN % ("scheduler", "idle"): "1x28 0 1", CHILDREN % ("reaper", "idle"): "0x30"},
        ],
    ),
    "SkipjackNoReaper": Case(
        {CHILDREN % ("reaper", "idle"): "1 0x30"},
        {"severity": "page"},
        [{CHILDREN % ("reaper", "idle"): "1x30", CHILDREN % ("scheduler", "idle"): "0x30"}],
    ),
    "SkipjackDatabaseDown": Case(
        {UP: "1 0x30"}, {"instance": "a:9464", "job": "skipjack", "severity": "page"}, [{UP: "1x30"}, {UP: "1x20 0 1x10"}]
    ),
    "SkipjackTypePaused": Case(
        {PAUSED: "1x100"}, {"type": "email", "severity": "ticket"}, [{PAUSED: "0x100"}, {PAUSED: "0x60 1x40"}]
    ),
    "SkipjackReloadRefused": Case(
        {REFUSED % "refused": "0x20 1x10"},
        {"instance": "a:9464", "job": "skipjack", "result": "refused", "severity": "ticket"},
        [{REFUSED % "applied": "0+1x30", REFUSED % "refused": "2x30"}],
    ),
    "SkipjackHostLost": Case({"skipjack_hosts_lost": "0 1x30"}, {"severity": "ticket"}, [{"skipjack_hosts_lost": "0x30"}]),
    "SkipjackScrapeFailed": Case(
        {f"up{{{HOST}}}": "1 0x30"},
        {"instance": "a:9464", "job": "skipjack", "severity": "page"},
        [{f"up{{{HOST}}}": "1x30"}, {'up{job="another"}': "0x30"}],
    ),
    "SkipjackGone": Case(
        {'up{job="another"}': "1x30"}, {"severity": "page"}, [{f'skipjack_build_info{{{HOST},version="1"}}': "1x30"}]
    ),
}


def promtool(*args: str) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", RULES.read_text())


def test_every_alert_has_a_case() -> None:
    assert alerts() == list(CASES)


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    assert f"{len(CASES)} rules found" in promtool("check", "rules", str(RULES))


@needs_promtool
@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_and_is_silent(alert: str, tmp_path: Path) -> None:
    case = CASES[alert]
    labels = ",".join(f'{name}="{value}"' for name, value in sorted(case.labels.items()))
    firing = [{"labels": f'{{alertname="{alert}",{labels}}}', "value": 1}]
    expression = f'max by (alertname, {", ".join(sorted(case.labels))}) (ALERTS{{alertname="{alert}", alertstate="firing"}})'
    last = 90 if alert == "SkipjackTypePaused" else 30
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [{"expr": expression, "eval_time": f"{at}m", "exp_samples": expected} for at in times],
        }
        for series, expected, times in [
            (case.fires, firing, [last]),
            *((series, [], [*range(1, 31), last]) for series in case.quiet),
        ]
    ]
    file = tmp_path / "alerts.test.json"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", str(file))


def test_what_a_runbook_says_to_type_exists() -> None:
    done = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True)
    commands = set(re.findall(r"^  ([a-z]+) ", done.stdout, re.MULTILINE))
    typed = set(re.findall(r"`skipjack ([a-z]+)", RULES.read_text()))
    assert typed and typed <= commands
