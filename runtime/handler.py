"""Handlers: loaded from `module:name`, called with a Job."""

import asyncio
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .config import Pool
from .errors import HandlerError
from .interrupt import Interrupt
from .job import Fail, Job
from .queue import Claim

Function = Callable[[Job], object]


class Handler:
    """The handler of one pool, in one worker."""

    def __init__(self, name: str, pool: Pool, interrupt: Interrupt) -> None:
        self._type = name
        self._interrupt = interrupt
        self._function, self.unavailable = load(name, pool)
        self._runner: asyncio.Runner | None = None

    def run(self, claim: Claim) -> None:
        """Runs the handler to its end. Raises whatever it raises."""
        try:
            job = claim.job(self._type)
        except Exception as error:
            raise Fail(f"the payload is JSON that Python cannot hold: {error}") from None
        result = self._function(job)
        # what it returns tells whether it is async, however it is wrapped
        if result is None:
            return
        if inspect.isawaitable(result):
            # one event loop serves all jobs of a worker, so that clients can be kept
            self._runner = self._runner or asyncio.Runner()
            self._interrupt.run_async(self._runner, result)
        elif inspect.isgenerator(result) or inspect.isasyncgen(result):
            raise TypeError("the handler is a generator, so that nothing of it has run: it must not contain `yield`")

    @property
    def tainted(self) -> bool:
        """Whether an exception has struck in the middle of anything: a client of the handler's may be out of step with its
        server, and would give the next job the answer to another's question.
        """
        return self._interrupt.struck


def load(pool_name: str, pool: Pool) -> tuple[Function, tuple[type[BaseException], ...]]:
    """The pool's handler, and the exception types that it names as infrastructure errors.

    Modules are found where Python finds them and in the working directory. Raises HandlerError, one line.
    """
    where = f"pool.{pool_name}"
    assert pool.handler is not None
    handler = attribute(f"{where}.handler", pool.handler)
    if not callable(handler):
        raise HandlerError(f"{where}.handler: {pool.handler} is not callable; name a function that takes a Job")
    types = tuple(attribute(f"{where}.unavailable", reference) for reference in pool.unavailable)
    for reference, kind in zip(pool.unavailable, types, strict=True):
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise HandlerError(f"{where}.unavailable: {reference} is not an exception type")
    return handler, types


def attribute(where: str, reference: str) -> Any:
    """What `module:name` refers to. Raises HandlerError, which says where in the user's code the import failed."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    module, _, name = reference.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except BaseException as error:  # a module's code may do anything, sys.exit() included
        place = traceback.extract_tb(error.__traceback__)[-1]
        known = "" if "importlib" in place.filename or place.filename == __file__ else f" ({place.filename}:{place.lineno})"
        raise HandlerError(
            f"{where}: cannot load {reference}: {type(error).__name__}: {' '.join(str(error).split())}{known}"
        ) from error
    return found
