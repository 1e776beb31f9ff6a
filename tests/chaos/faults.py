"""Whether a job was rightly charged for a claim that ended without an outcome of its handler's (promise 9).

A clean job is charged for a kill or a stop of its own worker while it ran, and for a lease that ran out while nobody on its
host could say why: the host looked lost. Never for a shutdown, an outage of the database, or a claim that never started.
"""

from chaos.history import History
from chaos.story import TICK, Held, Story, by_worker

MOST_RETURNS = 20
DRIFT = 0.06
"""The part of a lease by which the dead-man's timer comes early, and a little."""
IN_FLIGHT = 1.0
"""Seconds that a claim may be on its way after its host was lost or cut off."""
POISON = {"kill", "leave", "gil", "timeout"}
"""What a handler may do that is charged without a word from it."""


class Faults:
    """Judges the charges of one history."""

    def __init__(self, history: History, lease: float) -> None:
        self._history = history
        self._lease = lease
        self._workers = by_worker(history)

    def deserved(self, story: Story, held: Held) -> bool:
        """Whether there was a reason to charge for this claim."""
        assert held.left is not None and held.left.old is not None
        run = story.run_of(held)
        if held.left.old.returns >= MOST_RETURNS:
            return True
        if run and (run.ending in ("raise", "interrupted") or story.first.payload.get("what") in POISON):
            return True
        return self._own_worker(story, held) or self._lost_host(held)

    def _own_worker(self, story: Story, held: Held) -> bool:
        for deed in self._history.deeds:
            if deed.pid != held.row.pid or not deed.touches(held.since, held.end):
                continue
            if deed.what == "kill" and self._was_current(story.job, held, deed.at):
                return True
            # a stopped worker keeps its claim until its lease is over, or its time
            over = held.until - DRIFT * self._lease
            if deed.what == "stop" and (held.end >= over or story.first.type == "slow") and story.run_of(held):
                return True
        return False

    def _was_current(self, job: int, held: Held, at: float) -> bool:
        """Whether the worker was in this job then, or in none: between the board and the ledger lies a moment."""
        notes = [note for note in self._workers[held.row.pid] if held.since - TICK <= note.at <= at + TICK]
        return not notes or notes[-1].event != "start" or notes[-1].job == job

    def _lost_host(self, held: Held) -> bool:
        """Whether the lease ran out while its host was dead, deaf or cut off, for all that anybody could see."""
        if held.end < held.until:
            return False
        home = self._history.homes.get(held.row.pid)
        around = [deed for deed in self._history.deeds if deed.touches(held.since - IN_FLIGHT, held.end)]
        of_host = [deed for deed in around if home is None or deed.host == home]
        # one hung connection is no excuse: it is given up in time. Unless the next one hung as well, or the reaper's did
        silences = sum(deed.what == "silence" for deed in of_host)
        hurt = any(deed.pid == held.row.pid for deed in around)
        if silences + hurt >= 2 or any(deed.what == "hang" for deed in of_host):
            return True
        if any(deed.what in ("kill", "stop") and deed.title in ("supervisor", "reaper") for deed in of_host):
            return True
        # a host that stops does not wait for a database for ever
        leaves = any(deed.what == "term" for deed in of_host)
        return leaves and any(deed.what == "crash" for deed in around)
