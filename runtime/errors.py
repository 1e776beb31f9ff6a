"""Errors that a person can mend. The command prints each as one line and leaves with its exit code."""


class SkipjackError(Exception):
    """Failed at run time (exit code 1). The message says what, where and how to mend it, in one line."""

    exit_code = 1


class ConfigError(SkipjackError):
    """The configuration or the call is wrong (exit code 2)."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class DatabaseError(SkipjackError):
    """The database refuses us and waiting would not help, or is away and the command does not wait (exit code 3)."""

    exit_code = 3


class HandlerError(SkipjackError):
    """A handler does not load (exit code 4)."""

    exit_code = 4
