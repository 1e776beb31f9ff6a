"""A kill for want of memory is named as such: by a real kernel where it lets us make a cgroup, and from what files say."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

import pytest
from harness import Jobs, Supervisor, eventually

from skipjack.supervisor.oom import INITIAL_NAMESPACE, Oom, counter, counter_path, kills

Supervise = Callable[..., Supervisor]
LIMIT = 400 << 20
GREEDY = """
import mmap, os, signal
def run(job):
    if job.payload.get("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    kept = [bytearray(b"x") * (16 << 20) for _ in range(100)]
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A memory cgroup below our own, of either version, that allows LIMIT bytes."""
    ours = counter(Path("/"))
    parent = ours.parent if ours else Path("/sys/fs/cgroup")
    made = parent / f"skipjack-test-{os.getpid()}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        limit = next((file for name in ("memory.max", "memory.limit_in_bytes") if (file := made / name).exists()), None)
        if limit is None:
            pytest.skip("the memory controller is not handed down to cgroups made here")
        limit.write_text(str(LIMIT))
        with suppress(OSError):  # no such file without swap
            (made / "memory.swap.max").write_text("0")
        yield made
    finally:
        eventually(lambda: not (made / "cgroup.procs").read_text())
        made.rmdir()


def within(cgroup: Path) -> tuple[str, ...]:
    """Starts a command in it."""
    return ("sh", "-c", f'echo $$ > {cgroup}/cgroup.procs && exec "$@"', "sh")


@pytest.mark.parametrize("container", [False, True], ids=["by the kernel's log or the counter", "by the counter alone"])
def test_a_job_that_eats_all_memory_is_charged_and_told_so_and_another_kill_is_not(
    cgroup: Path, supervise: Supervise, jobs: Jobs, container: bool
) -> None:
    s = supervise('[pool.app]\nhandler = "app:run"\nmax_attempts = 1\n')
    (s.folder / "app.py").write_text(GREEDY)
    (greedy,) = jobs.add("app")
    s.start(*within(cgroup), *(("unshare", "--pid", "--fork", "--kill-child", "--mount-proc") if container else ()))
    eventually(lambda: jobs.get(greedy)["status"] == "dead")
    assert "was killed by the kernel for want of memory (OOM) while this job ran" in jobs.get(greedy)["last_error"]
    eventually(lambda: "was killed by the kernel for want of memory (OOM) in a job; next start in" in s.output())
    assert jobs.get(greedy)["attempts"] == 1
    if not container:
        (killed,) = jobs.add("app", '{"killed": true}')
        eventually(lambda: jobs.get(killed)["status"] == "dead")
        assert "was killed by SIGKILL while this job ran" in jobs.get(killed)["last_error"]
        assert s.stop() == 0
    s.clean_up()


V2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = """35 31 0:9 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
36 31 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"""
DOCKER = "612 598 0:26 /docker/1f /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw"


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "path"),
    [
        ("0::/system.slice/skipjack.service\n", V2, "/sys/fs/cgroup/system.slice/skipjack.service/memory.events"),
        ("0::/\n", V2, "/sys/fs/cgroup/memory.events"),
        ("0::/docker/1f\n", DOCKER, "/sys/fs/cgroup/memory.events"),
        ("0::/docker/1f/a\n", DOCKER, "/sys/fs/cgroup/a/memory.events"),
        ("0::/elsewhere\n", DOCKER, None),
        ("4:cpu:/c\n7:memory:/m\n0::/u\n", f"{V2}\n{V1}", "/sys/fs/cgroup/memory/m/memory.oom_control"),
        ("4:hugetlb,memory:/m:n\n", V1, "/sys/fs/cgroup/memory/m:n/memory.oom_control"),
        ("4:cpu:/c\n", V1, None),
        ("", "", None),
    ],
)
def test_where_the_counter_is(cgroup: str, mountinfo: str, path: str | None) -> None:
    assert counter_path(cgroup, mountinfo) == (path and PurePosixPath(path))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 12\nmax 40\noom 5\noom_kill 3\noom_group_kill 1\n", 3),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", 7),
        ("oom_kill_disable 0\nunder_oom 0\n", 0),  # before Linux 4.13
    ],
)
def test_what_the_counter_says(text: str, count: int) -> None:
    assert kills(text) == count


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system in files: version 2, in a container."""
    for folder in ("proc/self/ns", "sys/fs/cgroup", "dev"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532000]")
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "proc/self/mountinfo").write_text(V2)
    (tmp_path / "sys/fs/cgroup/memory.events").write_text("oom 3\noom_kill 3\n")
    (tmp_path / "dev/kmsg").write_text("6,1,1,-;Out of memory: Killed process 41 (python3)\n")
    return tmp_path


def test_a_counter_that_has_risen_tells_of_the_deaths_of_its_moment(root: Path) -> None:
    oom = Oom(root)
    assert not oom.killed(7)
    (root / "sys/fs/cgroup/memory.events").write_text("oom 3\noom_kill 5\n")
    assert oom.killed(7) and oom.killed(8)
    (root / "sys/fs/cgroup/memory.events").unlink()
    assert not Oom(root).killed(9)


def test_the_kernels_log_tells_which_pid_and_has_the_last_word(root: Path) -> None:
    (root / "proc/self/ns/pid").unlink()
    (root / "proc/self/ns/pid").symlink_to(INITIAL_NAMESPACE)
    oom = Oom(root)
    (root / "sys/fs/cgroup/memory.events").write_text("oom_kill 9\n")
    with (root / "dev/kmsg").open("a") as log:
        log.write("3,2,2,-;Memory cgroup out of memory: Killed process 42 (skipjack: worke) total-vm:9kB\n")
        log.write("3,3,2,-;Out of memory: Killed process 43 (postgres) total-vm:9kB\n")
    assert [oom.killed(pid) for pid in (41, 42, 43, 44)] == [False, True, True, False]
    oom.close()
