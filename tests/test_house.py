"""The house itself: layout, style, types, and what a `pip install` puts where."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ruff() -> None:
    run(sys.executable, "-m", "ruff", "format", "--check", ".")
    run(sys.executable, "-m", "ruff", "check", ".")


def test_mypy_strict(tmp_path: Path) -> None:
    # through a link, because mypy refuses a root folder whose name is no identifier
    (tmp_path / "skipjack").symlink_to(ROOT)
    config = ROOT / "pyproject.toml"
    packages = ("-p", "skipjack.supervisor", "-p", "skipjack.runtime")
    run(sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", tmp_path / "cache", *packages, cwd=tmp_path)


def test_runtime_never_imports_supervisor() -> None:
    for file in (ROOT / "runtime").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert "supervisor" not in (node.module or ""), file


def test_no_sql_in_python() -> None:
    words = ("select ", "insert ", "update ", "delete ", "create ", "alter ")
    for file in [*(ROOT / "runtime").rglob("*.py"), *(ROOT / "supervisor").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value.strip().lower()
                assert not text.startswith(words) or text.startswith("select 1"), (file, node.lineno)


def test_an_installed_wheel_is_whole_and_runs_from_any_folder(tmp_path: Path) -> None:
    source = tmp_path / "source"
    run("git", "clone", "-q", ROOT, source)  # what is committed, so that nothing of this folder leaks in
    pip = (find_pip(), "-m", "pip")
    run(*pip, "wheel", "-q", "--no-deps", "-w", tmp_path, source)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"skipjack"}
    shipped = {name.removeprefix("skipjack/") for name in names}
    tracked = run("git", "ls-files", "sql", "config", "runtime", "supervisor", cwd=source).split()
    assert set(tracked) <= shipped
    assert not [name for name in shipped if name.startswith("tests")]

    run(*pip, "install", "-q", "--no-deps", "--target", tmp_path / "site", wheel)
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from skipjack.supervisor.cli import main; main()"
    assert "demo:greet" in run(sys.executable, "-c", code, tmp_path / "site", "check", "--json", cwd=Path("/"))


def find_pip() -> str:
    """A Python that has pip: ours need not (`venv --without-pip`)."""
    for python in (sys.executable, "python3", f"{sys.base_prefix}/bin/python3"):
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
            return python
    raise AssertionError("no pip at hand")
