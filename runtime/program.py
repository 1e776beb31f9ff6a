"""A program as the handler of a pool: `command = [...]`, fixed in the file; nothing of a job becomes an argument of it.

It gets the payload as JSON on stdin (a file, so that it need not read it) and what names the job in its environment. Its
stdout goes nowhere, the end of its stderr is kept. It has a process group of its own, which stands on the board before it
executes anything, and which ends with it: what it started does not outlive its job.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from typing import IO

from . import orphans, speech
from .board import Cell
from .config import Pool
from .errors import HandlerError
from .interrupt import CLEAN_UP
from .job import Fail, Interrupted, Retry, Unavailable
from .obituary import exit_words
from .output import Output
from .prctl import become_subreaper, set_parent_death_signal
from .queue import Claim

ENDINGS = {75: Unavailable, 100: Fail}
"""What an exit code means, if it is neither 0 nor a Retry: EX_TEMPFAIL, and the permanent failure of qmail's programs."""
WORDS = 200
"""Characters of its last line in ours."""
PATIENCE = CLEAN_UP - 1
"""Seconds from TERM to KILL: the worker itself is ended a second later."""


def load(name: str, pool: Pool) -> None:
    """Looks for the program where it will be looked for. Raises HandlerError."""
    assert pool.command is not None
    if shutil.which(pool.command[0]) is None:
        raise HandlerError(f"pool.{name}.command: {pool.command[0]}: no such program in PATH, or not executable")


class Program:
    """The program of one pool, in one worker."""

    unavailable: tuple[type[BaseException], ...] = ()
    tainted = False

    def __init__(self, name: str, pool: Pool, cells: memoryview) -> None:
        load(name, pool)
        assert pool.command is not None
        self._type = name
        self._words = pool.command
        self._cells = cells
        self._worker = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        become_subreaper()
        # Python warns of a fork beside threads. Between ours and its exec nothing is called that takes a lock.
        warnings.filterwarnings("ignore", ".*multi-threaded", DeprecationWarning)

    def run(self, claim: Claim) -> None:
        """Runs it to its end. Raises what its exit code means: Retry, Fail or Unavailable; or Interrupted."""
        try:
            stdin, stderr = stdin_of(claim), Output()
        except OSError as error:
            raise Unavailable(f"cannot start {self._words[0]}: {error.strerror}") from None
        with stdin, stderr:
            try:
                code = self._execute(claim, stdin, stderr)
            except Interrupted as why:
                raise type(why)(report(str(why), stderr)) from None
            said = report(f"{self._words[0]} {exit_words(code)}", stderr)
        if code:
            raise ENDINGS.get(code, Retry)(said)
        for line in stderr.said().splitlines():
            speech.say("stderr", line)

    def _execute(self, claim: Claim, stdin: IO[bytes], stderr: Output) -> int:
        self._process = None
        try:
            process = self._start(claim, stdin, stderr)
            stderr.read_while(process)
        except Interrupted:
            if self._process is not None:
                for sig in (signal.SIGTERM, signal.SIGCONT):  # a stopped one must go on to hear of it
                    signal_group(self._process.pid, sig)
                stderr.read_while(self._process, PATIENCE)
            raise
        finally:
            try:
                self._end()
            except Interrupted:  # at most one comes
                self._end()
                raise
            stderr.read_rest()
        return process.returncode

    def _start(self, claim: Claim, stdin: IO[bytes], stderr: Output) -> "subprocess.Popen[bytes]":
        names = {"ID": str(claim.id), "TYPE": self._type, "ATTEMPT": str(claim.attempt), "KEY": claim.key or ""}
        environment = os.environb | {f"SKIPJACK_JOB_{name}".encode(): value.encode() for name, value in names.items()}
        # no signal in the child before its handlers are gone, and none here before the process is known
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._process = subprocess.Popen(
                self._words,
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=stderr.write,
                env=environment,
                process_group=0,
                preexec_fn=self._before_exec,  # noqa: PLW1509  # see __init__
            )
        except OSError as error:
            raise Unavailable(f"cannot start {self._words[0]}: {error.strerror}") from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return self._process

    def _before_exec(self) -> None:
        self._cells[Cell.GROUP] = os.getpid()
        set_parent_death_signal(signal.SIGKILL, self._worker)
        signal.set_wakeup_fd(-1)
        for sig in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(sig, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _end(self) -> None:
        if self._process is not None:
            # until its first process is reaped, its group's number is nobody else's
            signal_group(self._process.pid, signal.SIGKILL)
        self._cells[Cell.GROUP] = 0  # also that of one whose exec failed
        if self._process is not None:
            self._process.wait()
        orphans.end_all()


def signal_group(group: int, sig: signal.Signals) -> None:
    """Sends it. One that has become another user's (sudo) does not hear us."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, sig)


def stdin_of(claim: Claim) -> IO[bytes]:
    """A file in memory with the payload as it is stored, to be read from its beginning."""
    linux = sys.platform == "linux"
    file = os.fdopen(os.memfd_create("payload"), "w+b") if linux else tempfile.TemporaryFile()  # noqa: SIM115
    file.write(claim.payload.encode())
    file.seek(0)
    return file


def report(what: str, stderr: Output) -> str:
    """One line that says what happened, with the program's last words; below it the end of its stderr, if it is more."""
    said = stderr.said()
    if not said:
        return what
    words = said.splitlines()[-1][-WORDS:]
    return f"{what}: {words}" if words == said else f"{what}: {words}\n{said}"
