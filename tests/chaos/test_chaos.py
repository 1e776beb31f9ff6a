"""Everything at once, at random: several hosts, clients and a database, and nothing that was promised is broken."""

import random
from pathlib import Path
from typing import Any

import pytest
from chaos.checker import check
from chaos.driver import Chaos
from chaos.report import report

SECONDS = 30
"""Of chaos. With the start, the healing and the stop it takes a minute."""


def test_whatever_happens_every_promise_is_kept(
    server: Any, tmp_path: Path, dice: random.Random, pytestconfig: pytest.Config
) -> None:
    history = Chaos(tmp_path, server, dice).run(pytestconfig.getoption("--chaos-seconds") or SECONDS)
    assert len(history.deeds) > 20
    assert len(history.notes) > 500, "hardly a job ran"
    violations = check(history)
    assert not violations, report(history, violations)
