"""Handlers: loaded from `module:name`, called with a Job."""

import asyncio
import importlib
import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

from .config import Pool
from .errors import HandlerError
from .job import Job

Handler = Callable[[Job], object]


def load(pool_name: str, pool: Pool) -> tuple[Handler, tuple[type[BaseException], ...]]:
    """The pool's handler, and the exception types that it names as infrastructure errors.

    Modules are found where Python finds them and in the working directory. Raises HandlerError, one line.
    """
    where = f"pool.{pool_name}"
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


def call(handler: Handler, job: Job) -> None:
    """Runs the handler to its end. What it returns tells whether it is async, however it is wrapped."""
    result = handler(job)
    if result is None:
        return
    if inspect.isawaitable(result):
        runner().run(finish(result))
    elif inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError("the handler is a generator, so that nothing of it has run: it must not contain `yield`")


@cache
def runner() -> asyncio.Runner:
    """One event loop serves all jobs of a worker, so that clients can be kept."""
    return asyncio.Runner()


async def finish(result: Awaitable[object]) -> None:
    """Any awaitable as the coroutine that a runner wants."""
    await result
