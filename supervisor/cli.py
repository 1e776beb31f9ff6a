"""The command `skipjack`: what a person types, and how each error leaves.

Exit codes: 0 done, 1 failed at run time, 2 usage or configuration, 3 database, 4 a handler does not load. An error that a
person can mend is one line on stderr.
"""

import io
import os
import sys
from pathlib import Path

import click
import psycopg

from ..runtime import config, database, logs, migrate
from ..runtime.errors import ConfigError, DatabaseError, SkipjackError
from .bench import command as bench
from .commands import check, completion, dead, init, jobs, operate, pausing, reloading, schedules, status


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="The configuration [./skipjack.toml].")
@click.version_option(package_name="skipjack")
@click.pass_context
def command(context: click.Context, file: Path | None) -> None:
    """Background jobs on PostgreSQL, run by one binary per host.

    \b
    Example: skipjack init myapp
    """
    context.obj = file


@command.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--log-format",
    type=click.Choice(list(logs.FORMATS)),
    default="text",
    envvar="SKIPJACK_LOG_FORMAT",
    help="For people, or one JSON object a line [text; or $SKIPJACK_LOG_FORMAT].",
)
@click.option(
    "--log-level",
    type=click.Choice(logs.LEVELS),
    default="info",
    envvar="SKIPJACK_LOG_LEVEL",
    help="From which level on; a job's end is info, its start debug [info; or $SKIPJACK_LOG_LEVEL].",
)
@click.pass_obj
def run(given: Path | None, file: Path | None, log_format: str, log_level: str) -> None:
    """Run the supervisor until it is told to stop (TERM, INT; QUIT: at once).

    \b
    Examples: skipjack run skipjack.toml
              skipjack run --log-format json --log-level warning
    """
    from .master import Master

    logs.start(log_format, log_level)
    found = config.resolve(file or given)
    if found.path == config.PACKAGED and found.database.url != "embedded":
        raise ConfigError("no skipjack.toml here, and the demonstration runs on its own database only: name a file with -c")
    sys.exit(Master(found).run())


@command.command("migrate")
@click.option("--dry-run", is_flag=True, help="Print the SQL that would be run.")
@click.pass_obj
def migrate_command(given: Path | None, dry_run: bool) -> None:
    """Bring the schema up to this version. Safe while others do the same.

    \b
    Example: skipjack migrate --dry-run | less
    """
    found = config.resolve(given)
    schema = found.database.schema
    with database.connect_once(found.database, "migrate", deadline=300) as connection:
        todo = migrate.pending(connection, schema) if dry_run else migrate.migrate(connection, schema)
    for migration in todo:
        print(migrate.script(migration, schema) if dry_run else f"applied {migration.file.stem}")
    if not todo:
        print("-- nothing to do" if dry_run else f"schema {schema} is up to date")


for subcommand in (
    *check.COMMANDS,
    *init.COMMANDS,
    *completion.COMMANDS,
    *jobs.COMMANDS,
    *status.COMMANDS,
    *operate.COMMANDS,
    *dead.COMMANDS,
    *pausing.COMMANDS,
    *reloading.COMMANDS,
    *schedules.COMMANDS,
    *bench.COMMANDS,
):
    command.add_command(subcommand)


def main() -> None:
    """The entry point: runs the command, and turns what a person can mend into one line and an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 gets all it can show
    try:
        command.main(prog_name="skipjack", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a reader who has gone is no error
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except SkipjackError as error:
        logs.report(error)
        sys.exit(error.exit_code)
    except psycopg.Error as error:
        logs.report(SkipjackError(f"database: {' '.join(str(error).split())}"))
        sys.exit(DatabaseError.exit_code)
    except BrokenPipeError:
        # whoever read our output has seen enough; nothing must be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
