"""`init`: what it writes runs as it is, and it never writes over anything."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import COMMAND, HUNG, Jobs, Supervisor, eventually

from skipjack.supervisor.commands.init import FILES, STARTER

Supervise = Callable[..., Supervisor]


def skipjack(folder: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command in `folder`, as somebody types it who has no configuration yet."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("SKIPJACK_")}
    env |= {"SKIPJACK_STATE_DIR": str(folder / "state"), **environ}
    return subprocess.run([*COMMAND, *args], cwd=folder, env=env, text=True, capture_output=True, timeout=HUNG, check=False)


def test_the_starter_is_written_byte_for_byte_and_passes_check(tmp_path: Path) -> None:
    done = skipjack(tmp_path, "init", "deep/my app")
    assert (done.returncode, done.stderr) == (0, "")
    assert "cd 'deep/my app'" in done.stdout
    folder = tmp_path / "deep/my app"
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {n: (STARTER / n).read_bytes() for n in FILES}
    checked = skipjack(folder, "check", "--json")
    assert (checked.returncode, checked.stderr) == (0, "")
    shown = json.loads(checked.stdout)
    assert shown["warnings"] == []
    assert [pool["type"] for pool in shown["pools"]] == ["welcome", "fetch", "report"]
    assert [schedule["job"] for schedule in shown["schedules"]] == ["report"]


def test_a_job_of_each_pool_of_the_starter_is_done(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    assert skipjack(folder, "init").returncode == 0
    text = (folder / "skipjack.toml").read_text()
    assert 'listen = "127.0.0.1:9464"' in text
    (folder / "skipjack.toml").write_text(text.replace('"127.0.0.1:9464"', '""'))  # another test may have the port
    s = supervise("")
    s.folder, s.config = folder, folder / "skipjack.toml"
    (busy,) = jobs.add("welcome", '{"to": "ada@example.com", "busy": true}')
    (wrong,) = jobs.add("welcome", '{"to": "nobody"}')
    (fetch,) = jobs.add("fetch", '{"pages": ["a", "b"]}')
    (report,) = jobs.add("report", '{"kind": "full"}')
    s.start()
    eventually(lambda: jobs.counts() == {"done": 3, "failed": 1})
    assert (jobs.get(busy)["attempts"], jobs.get(wrong)["status"]) == (2, "failed")
    files = {file.name.split("-")[0]: file.read_text() for file in (folder / "out").iterdir()}
    assert files["welcome"] == "Welcome, ada@example.com!\n"
    assert files["fetch"] == "the page a\nthe page b"
    assert json.loads(files["report"]) == {"kind": "full"}

    # as after a crash between the work and the word about it: the effect is there, and stays as it is
    (effect,) = (folder / "out").glob(f"fetch-{fetch}-*")
    effect.write_text("made before")
    jobs.sql("UPDATE skipjack.job SET status = 'ready', finished_at = NULL, run_at = now() WHERE id = %s", fetch)
    eventually(lambda: jobs.get(fetch)["attempts"] == 2 and jobs.get(fetch)["status"] == "done")
    assert effect.read_text() == "made before"
    assert jobs.get(report)["status"] == "done"
    assert s.stop() == 0


@pytest.mark.parametrize("there", FILES)
@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_what_exists_is_left_alone_and_nothing_is_written_beside_it(tmp_path: Path, there: str, kind: str) -> None:
    if kind == "file":
        (tmp_path / there).write_text("mine")
    else:
        (tmp_path / there).symlink_to("nowhere")
    done = skipjack(tmp_path, "init")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"skipjack: {there} exists already; nothing was written\n")
    assert [file.name for file in tmp_path.iterdir()] == [there]
    if kind == "file":
        assert (tmp_path / there).read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in ("file", "file/below"):
        done = skipjack(tmp_path, "init", directory)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("skipjack: file")
        assert done.stderr.count("\n") == 1
