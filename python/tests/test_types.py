"""The sources are typed, and the stubs say what the native half has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import coldset
import pytest

pytest.importorskip("mypy")
PACKAGE = Path(coldset.__file__).parent
#: numpy's types take long to read.
CACHE = f"--cache-dir={Path(sys.prefix) / 'mypy-cache'}"


def mypy(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *args],
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, **env},
    )


def test_sources_and_users(tmp_path: Path) -> None:
    """The only error is that of a program that uses the package wrongly."""
    assert (PACKAGE / "py.typed").exists()
    (tmp_path / "user_of_coldset.py").write_text(
        "import coldset\n"
        'pool = coldset.Pool("2GiB", swap="lz4:8GiB", policy="v5")\n'
        "reveal_type(pool.zeros((3, 4)))\n"
        'pool.group("g", max=5).full(3, 1).advise("wilneed")\n'
    )
    modules = ("-p", "coldset", "-m", "user_of_coldset")
    done = mypy("mypy", "--strict", CACHE, *modules, MYPYPATH=str(tmp_path))
    assert "Array" in done.stdout and 'incompatible type "Literal[\'wilneed\']"' in done.stdout
    assert "Found 1 error" in done.stdout, done.stdout


def test_stubs(tmp_path: Path) -> None:
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\ncache_dir = {Path(sys.prefix) / 'mypy-cache'}\n")
    done = mypy("mypy.stubtest", f"--mypy-config-file={config}", "coldset._coldset")
    assert done.returncode == 0, done.stdout + done.stderr
