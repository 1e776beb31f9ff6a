"""Help whose examples are true, and completion through the real shells."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click
import pytest
from harness import COMMAND, HUNG

from skipjack.supervisor.cli import command

FILE = """
[database]
url = "host=/nowhere"
[pool.email]
handler = "shouting:handler"
[pool.export-all]
handler = "shouting:handler"
[pool."with space"]
handler = "shouting:handler"
[pool."*"]
handler = "shouting:handler"
[schedule.nightly]
job = "email"
every = "1m"
[schedule.noon]
job = "email"
every = "1m"
"""
SHOUTING = "import sys; print('imported'); print('imported', file=sys.stderr); sys.exit(9)"


# --- help


def commands(context: click.Context) -> Iterator[click.Context]:
    """The context of each command of the tree, the root's first."""
    yield context
    if isinstance(context.command, click.Group):
        for name, found in context.command.commands.items():
            yield from commands(click.Context(found, parent=context, info_name=name))


ALL = {context.command_path: context.command for context in commands(click.Context(command, info_name="skipjack"))}


def examples(text: str) -> list[list[str]]:
    """The words of each `skipjack ...` in the last paragraph of a help text, which is that of the examples."""
    label, _, lines = text.rstrip().split("\n\n")[-1].replace("\b\n", "").lstrip().partition(":")
    assert label in ("Example", "Examples"), text
    found = []
    for line in lines.splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        words.commenters = ""
        for operator, group in groupby(words, lambda word: set(word) <= set("|&;<>()")):
            if not operator and (one := list(group))[0] == "skipjack":
                found.append(one[1:])
    return found


@pytest.mark.parametrize("path", ALL)
def test_help_ends_with_examples_that_are_valid(path: str) -> None:
    found = examples(ALL[path].help or "")
    assert found, f"{path} --help shows no example"
    for words in found:
        # parses every option and value as the command would, and runs nothing
        context = command.make_context("skipjack", list(words))
        name, chosen, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert chosen is not None
        chosen.make_context(name, rest, parent=context)
        assert path in ("skipjack", f"skipjack {name}"), f"{path} shows an example of {name}"


def test_an_example_with_an_unknown_option_would_be_found() -> None:
    assert examples("Text.\n\n\b\nExamples: skipjack a 'b c' --d | less\n  cat f | skipjack e - > /dev/null") == [
        ["a", "b c", "--d"], ["e", "-"],
    ]  # fmt: skip
    context = command.make_context("skipjack", ["check", "--nonsense"])
    with pytest.raises(click.NoSuchOption):
        ALL["skipjack check"].make_context("check", ["--nonsense"], parent=context)


# --- completion


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a configuration, handlers that nobody may import, and a `skipjack` for PATH."""
    (tmp_path / "skipjack.toml").write_text(FILE)
    (tmp_path / "shouting.py").write_text(SHOUTING)
    program = tmp_path / "bin/skipjack"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("SKIPJACK_")}
    return env | {"PATH": f"{folder / 'bin'}:{env['PATH']}", "HOME": str(folder), **more}


def offered(folder: Path, *words: str) -> list[str]:
    """What a real bash offers for the last of `words`."""
    typed = " ".join(map(shlex.quote, ("skipjack", *words)))
    script = f"""
        source <(skipjack completion bash)
        complete -p skipjack > /dev/null || exit 1
        COMP_WORDS=({typed}); COMP_CWORD={len(words)}
        _skipjack_completion skipjack
        [ ${{#COMPREPLY[@]}} = 0 ] || printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=folder, env=environment(folder), text=True, capture_output=True,
        timeout=HUNG, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["chec"], ["check"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["enqueue", ""], ["email", "export-all"]),  # a name that would need quotes, or match files, is not offered
        (["enqueue", "ex"], ["export-all"]),
        (["enqueue", "nothing-like-it"], []),
        (["jobs", "--type", "em"], ["email"]),
        (["retry", "--type", "em"], ["email"]),
        (["pause", "email", "ex"], ["export-all"]),
        (["pause", "--schedule", "ni"], ["nightly"]),
        (["resume", "--schedule", "no"], ["noon"]),
        (["fire", "n"], ["nightly", "noon"]),
        (["-c", "~/skipjack.toml", "fire", "ni"], ["nightly"]),
        (["-c", "elsewhere.toml", "enqueue", ""], []),
    ],
    ids=" ".join,
)
def test_bash_offers_what_the_configuration_holds(folder: Path, words: list[str], expected: list[str]) -> None:
    assert offered(folder, *words) == expected


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize("toml", ["[pool", "colour = 1\n", '[pool.email]\nhandler = "no colon"\n', "\0"])
def test_a_bad_configuration_completes_nothing_and_says_nothing(folder: Path, toml: str) -> None:
    (folder / "skipjack.toml").write_text(toml)
    assert offered(folder, "enqueue", "") == []


@pytest.mark.parametrize(
    ("shell", "words", "typing", "expected"),
    [
        ("bash", "skipjack enqueue e", "2", ["plain,email", "plain,export-all"]),
        ("zsh", "skipjack enqueue e", "2", ["plain", "email", "_", "plain", "export-all", "_"]),
        ("fish", "skipjack enqueue e", "e", ["plain,email", "plain,export-all"]),
    ],
)
def test_each_shell_is_answered_in_its_own_form(
    folder: Path, shell: str, words: str, typing: str, expected: list[str]
) -> None:
    """What the scripts of shells that are not here would ask."""
    env = environment(folder, _SKIPJACK_COMPLETE=f"{shell}_complete", COMP_WORDS=words, COMP_CWORD=typing)
    done = subprocess.run(["skipjack"], cwd=folder, env=env, text=True, capture_output=True, timeout=HUNG, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_can_read(folder: Path, shell: str) -> None:
    done = subprocess.run(
        ["skipjack", "completion", shell], cwd=folder, env=environment(folder), text=True, capture_output=True,
        timeout=HUNG, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_SKIPJACK_COMPLETE={shell}_complete" in done.stdout
    if shutil.which(shell):
        script = folder / "script"
        script.write_text(done.stdout)
        subprocess.run([shell, "-n", script], check=True, timeout=HUNG)
