"""The command `init`: a configuration and its handlers to begin with. The files are in `config/starter/`."""

import os
import shlex
from contextlib import ExitStack
from pathlib import Path

import click

from ...runtime.config import PACKAGED
from ...runtime.errors import SkipjackError

STARTER = PACKAGED.parent / "starter"
FILES = ("skipjack.toml", "jobs.py")


@click.command()
@click.argument("directory", default=".", type=click.Path(path_type=Path))
def init(directory: Path) -> None:
    """Write a skipjack.toml and a jobs.py to begin with; never over existing ones.

    \b
    Example: skipjack init myapp
    """
    write(directory)
    print(f"wrote {' and '.join(str(directory / name) for name in FILES)}\n\nnext:")
    if directory.resolve() != Path.cwd():
        print(f"  cd {shlex.quote(str(directory))}")
    print("  skipjack check\n  skipjack run\n\nand in another terminal, in the same folder:")
    print("""  skipjack enqueue welcome '{"to": "ada@example.com"}'\n  skipjack status""")


def write(directory: Path) -> None:
    """The files into `directory`, which is made if need be. Raises SkipjackError, and leaves none, if one is there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if there := [name for name in FILES if os.path.lexists(directory / name)]:
            raise SkipjackError(f"{directory / there[0]} exists already; nothing was written")
        with ExitStack() as undo:
            for name in FILES:
                with (directory / name).open("xb") as file:
                    undo.callback((directory / name).unlink)
                    file.write((STARTER / name).read_bytes())
            undo.pop_all()
    except OSError as error:
        raise SkipjackError(f"{error.filename or directory}: {error.strerror}") from None


COMMANDS = (init,)
