"""The sources are typed, and the stubs say what the native half has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import coldset
import pytest

pytest.importorskip("mypy")
PACKAGE = Path(coldset.__file__).parent


def mypy(*args: str) -> None:
    done = subprocess.run([sys.executable, "-m", *args], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


def test_sources() -> None:
    assert (PACKAGE / "py.typed").exists()
    mypy("mypy", "--strict", "--cache-dir=/dev/null", "-p", "coldset")


def test_stubs() -> None:
    mypy("mypy.stubtest", "coldset._coldset")


def test_users_see_types(tmp_path: Path) -> None:
    program = tmp_path / "user.py"
    program.write_text(
        "import coldset\n"
        'pool = coldset.Pool("2GiB", swap="lz4:8GiB", policy="v5")\n'
        "reveal_type(pool.zeros((3, 4)))\n"
        'pool.group("g", max=5).full(3, 1).advise("wilneed")\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(program)],
        capture_output=True, text=True, cwd=tmp_path,
    )
    assert "Array" in done.stdout and 'incompatible type "Literal[\'wilneed\']"' in done.stdout
    assert "Found 1 error" in done.stdout, done.stdout
