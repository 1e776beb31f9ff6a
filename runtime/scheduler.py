"""The scheduler: the place of the role that turns due slots into jobs."""

from .child import Child
from .role import LONGEST_PAUSE
from .role import run as run_role


def run(child: Child) -> None:
    """The role."""
    run_role(child, "scheduler", lambda: LONGEST_PAUSE)
