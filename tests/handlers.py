"""Handlers for tests. Each writes what it does into a ledger, a local file that no outage of the database touches."""

import asyncio
import ctypes
import io
import os
import random
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from skipjack import Cancelled, Fail, Job, Retry, TimedOut, Unavailable

LEDGER = Path(os.environ.get("LEDGER", "/dev/null"))


def note(event: str, job: Job) -> None:
    """One line, one write: O_APPEND keeps lines of several processes whole."""
    with LEDGER.open("ab", buffering=0) as ledger:
        ledger.write(f"{event} {job.id} {job.attempt} {os.getpid()} {time.monotonic():.3f}\n".encode())


def work(job: Job) -> None:
    """Sleeps for payload.seconds, in ticks that are noted; then done."""
    note("start", job)
    end = time.monotonic() + job.payload.get("seconds", 0)
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(0.05, left))
        note("tick", job)
    note("end", job)


async def work_async(job: Job) -> None:
    """As `work`, async."""
    note("start", job)
    note("end", job)


def wrapped(job: Job) -> Any:
    """Returns a coroutine without being a coroutine function, as a decorator may."""
    return work_async(job)


def generator(job: Job) -> Any:
    """A handler with a yield in it, of which nothing would run."""
    note("start", job)
    yield


def alarms(job: Job) -> None:
    """Uses a signal of its own."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(0.05)
    note("end", job)


def until_file(job: Job) -> None:
    """Runs until the file payload.path exists."""
    note("start", job)
    while not Path(job.payload["path"]).exists():
        time.sleep(0.01)
    note("end", job)


def raises(job: Job) -> None:
    """Raises what payload.what names."""
    note("start", job)
    match job.payload["what"]:
        case "error":
            raise ValueError("no \0 way \ud800")
        case "exit":
            sys.exit("leaving")
        case "retry":
            raise Retry("later", after=job.payload.get("after"))
        case "fail":
            raise Fail("hopeless")
        case "unavailable":
            raise Unavailable("it is away")
        case "timeout":
            raise TimeoutError("named by the pool")


def kills_itself(job: Job) -> None:
    """A job that takes its worker with it."""
    note("start", job)
    os.kill(os.getpid(), signal.SIGKILL)


def leaves(job: Job) -> None:
    """A job that ends its process as if all were well."""
    note("start", job)
    os._exit(0)


def holds_gil(job: Job) -> None:
    """Sleeps in C without letting go of the GIL: no Python thread of this process runs, no heartbeat either."""
    note("start", job)
    ctypes.PyDLL(None).usleep(int(job.payload["seconds"] * 1e6))
    note("end", job)


def forks(job: Job) -> None:
    """Forks a child that comes back from the handler."""
    note("start", job)
    if os.fork() == 0:
        return
    os.wait()
    note("end", job)


def grandchild(job: Job) -> None:
    """Leaves a process behind that would outlive it."""
    note("start", job)
    pid = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "1000")
    Path(job.payload["path"]).write_text(str(pid))
    time.sleep(job.payload.get("seconds", 0))
    note("end", job)


def lasts(job: Job) -> Any:  # noqa: PLR0912
    """Lasts for ever, in the way that payload.how names; notes what interrupts it."""
    note("start", job)
    try:
        match job.payload["how"]:
            case "sleep":
                time.sleep(1000)
            case "loop":
                while True:
                    pass
            case "lock":
                lock = threading.Lock()
                lock.acquire()
                lock.acquire()
            case "socket":
                pair = socket.socketpair()
                pair[0].recv(1)
            case "async":
                return lasts_async(job)
            case "async-lazy":
                return asyncio.sleep(1000)
            case "async-blocking":
                return blocks_async()
            case "stubborn":
                while True:
                    try:
                        time.sleep(1000)
                    except BaseException:
                        note("ignored", job)
            case "gil":
                deadlock_in_c()
            case "deaf":
                signal.signal(signal.SIGABRT, signal.SIG_IGN)
                deadlock_in_c()
            case "returns":
                try:
                    time.sleep(1000)
                except (TimedOut, Cancelled):
                    return None
    except BaseException as interrupted:
        note(type(interrupted).__name__, job)
        raise


def deadlock_in_c() -> None:
    """Waits in C for ever, with the GIL held; no signal handler of Python's runs, and no call is interrupted."""
    mutex = ctypes.create_string_buffer(64)  # PTHREAD_MUTEX_INITIALIZER is all zero
    ctypes.PyDLL(None).pthread_mutex_lock(mutex)
    ctypes.PyDLL(None).pthread_mutex_lock(mutex)


async def lasts_async(job: Job) -> None:
    """As `lasts`."""
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        note("CancelledError", job)
        raise


async def blocks_async() -> None:
    """What an async handler should not do."""
    time.sleep(1000)


KEPT = []


def grows(job: Job) -> None:
    """Leaks memory."""
    KEPT.append(b"x" * job.payload["bytes"])


def witness(event: str, job: Job) -> None:
    """As `note`, with the time since boot from the kernel's own file, which faketime leaves alone, and the job's mark."""
    uptime = Path("/proc/uptime").read_text().split()[0]
    with LEDGER.open("ab", buffering=0) as ledger:
        ledger.write(f"{event} {job.id} {job.attempt} {os.getpid()} {uptime} {job.payload.get('mark', '-')}\n".encode())


def chaos(job: Job) -> None:
    """Lasts for payload.seconds, then does what payload.what names; all of it noted. For tests/chaos."""
    try:
        witness("start", job)
        end = time.monotonic() + job.payload.get("seconds", 0)
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(0.05, left))
            witness("tick", job)
        misbehave(job)
        witness("end", job)
    except (TimedOut, Cancelled):
        witness("interrupted", job)
        raise


def misbehave(job: Job) -> None:
    """What payload.what names."""
    match job.payload.get("what"):
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave":
            os._exit(0)
        case "gil":
            ctypes.PyDLL(None).usleep(6_000_000)
        case "error":
            witness("raise", job)
            raise ValueError("no way")
        case "retry":
            witness("raise", job)
            raise Retry("later", after=0.1)
        case "fail":
            witness("fail", job)
            raise Fail("hopeless")
        case "unavailable" if random.random() < 0.7:
            raise Unavailable("it is away")


async def sleeps_async(job: Job) -> None:
    """Sleeps for payload.seconds."""
    await asyncio.sleep(job.payload["seconds"])


KEPT_TASKS: list[asyncio.Task[None]] = []


async def keeps_async(job: Job) -> None:
    """Keeps something that lives in the event loop, as a client does, and needs it at each job."""
    if not KEPT_TASKS:
        KEPT_TASKS.append(asyncio.create_task(asyncio.sleep(1000)))
    assert not KEPT_TASKS[0].done()
    await asyncio.sleep(job.payload.get("seconds", 0.01))
    note("end", job)


def selects(job: Job) -> None:
    """As `work`, without a sleep, which faketime breaks where it leaves the monotonic clock alone."""
    note("start", job)
    end = time.monotonic() + job.payload.get("seconds", 0)
    while (left := end - time.monotonic()) > 0:
        select.select([], [], [], min(0.05, left))
    note("end", job)


def reports(job: Job) -> None:
    """Says how far it is, also in ways that nobody should, and runs until the file payload.path exists."""
    for fraction, said in ((float("nan"), "nan"), (None, "none"), ("x", "text"), (10**400, "huge"), (0.4, "120 of 300\0")):
        job.progress(fraction, said)  # type: ignore[arg-type]
    until_file(job)


def reports_and_fails(job: Job) -> None:
    """Says how far it is and fails at once; the next time runs until the file payload.path exists."""
    if job.attempt == 1:
        job.progress(0.9)
        raise ValueError("after all that")
    until_file(job)


def tells(job: Job) -> None:
    """A hook: fails at first, then notes the job that it is about."""
    if job.attempt == 1:
        raise ConnectionRefusedError("the pager is away")
    with LEDGER.open("ab", buffering=0) as ledger:
        told = job.payload
        ledger.write(f"told {told['job']} {told['status']} {told['type']} {told['error'].splitlines()[0]}\n".encode())


def rewraps(job: Job) -> None:
    """Makes its own writer of stdout, as is often done for the sake of the encoding."""
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, "utf-8", write_through=True)
    print("in a new wrapper")
