"""Second looks for claims whose reply was lost: given back once, such a claim may still be on its way to the database."""

from collections import deque

import psycopg

from .database import Patience, Session
from .queue import give_back
from .statements import load
from .timer import now


class Sweeps:
    """The looks of one worker: a second after the loss, and again, ever more rarely, until the lease would have ended it."""

    def __init__(self, session: Session, patience: Patience, lease: float, schema: str) -> None:
        self._session = session
        self._patience = patience
        self._lease = lease
        self._statement = load("release", schema)
        self._looks: deque[tuple[float, float, str]] = deque()  # due, next pause, token

    def later(self, token: str) -> None:
        """The reply to the claim `token` was lost. Then poke the companion."""
        self._looks.append((now() + 1, 2.0, token))

    def due(self) -> float:
        """See Duty."""
        return min((due for due, _, _ in list(self._looks)), default=float("inf"))

    def run_once(self) -> None:
        """Looks for whom it is time."""
        for _ in range(len(self._looks)):
            due, pause, token = look = self._looks.popleft()
            if due > now():
                self._looks.append(look)
                continue
            try:
                give_back(self._session, self._statement, token)
            except psycopg.Error as error:
                self._looks.append((now() + self._patience.failed(error), pause, token))
            else:
                if pause <= self._lease:  # after that the lease itself has ended it
                    self._looks.append((now() + pause, pause * 2, token))
