"""The scheduler: the place of the role that turns due slots into jobs. Until then a configuration may hold schedules, and
this role says at the start that they do not fire yet.
"""

import logging

from .child import Child
from .role import run as run_role

log = logging.getLogger("skipjack.scheduler")


def run(child: Child) -> None:
    """The role."""
    if child.config.schedules:
        log.error("schedules do not fire in this version: %s", ", ".join(sorted(child.config.schedules)))
    run_role(child, "scheduler", lambda: 3600.0)
