"""The sources are typed, and the stubs say what the native half has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import coldset
import pytest

pytest.importorskip("mypy")
PACKAGE = Path(coldset.__file__).parent
#: numpy's types take long to read.
CACHE = f"--cache-dir={Path(sys.prefix) / 'mypy-cache'}"


def mypy(*args: str) -> None:
    done = subprocess.run([sys.executable, "-m", *args], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


def test_sources() -> None:
    assert (PACKAGE / "py.typed").exists()
    mypy("mypy", "--strict", CACHE, "-p", "coldset")


def test_stubs(tmp_path: Path) -> None:
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\ncache_dir = {Path(sys.prefix) / 'mypy-cache'}\n")
    mypy("mypy.stubtest", f"--mypy-config-file={config}", "coldset._coldset")


def test_users_see_types(tmp_path: Path) -> None:
    program = tmp_path / "user.py"
    program.write_text(
        "import coldset\n"
        'pool = coldset.Pool("2GiB", swap="lz4:8GiB", policy="v5")\n'
        "reveal_type(pool.zeros((3, 4)))\n"
        'pool.group("g", max=5).full(3, 1).advise("wilneed")\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", CACHE, str(program)],
        capture_output=True, text=True, cwd=tmp_path,
    )
    assert "Array" in done.stdout and 'incompatible type "Literal[\'wilneed\']"' in done.stdout
    assert "Found 1 error" in done.stdout, done.stdout
