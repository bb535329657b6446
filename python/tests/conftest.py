"""Shared by the tests: pools, children, and a skip where the kernel has no userfaultfd."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import coldset
import pytest

MIB = 1 << 20


def pytest_configure() -> None:
    # What a shell starts in the background ignores SIGINT, and so would the programs that tests interrupt.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    try:
        coldset.probe()
    except coldset.MissingFeature as e:
        # The lab simulates its memory.
        for item in (i for i in items if not i.path.name.startswith("test_lab")):
            item.add_marker(pytest.mark.skip(reason=str(e)))


@pytest.fixture
def pool() -> Iterator[coldset.Pool]:
    """4 MiB, with compressed swap, and a file for what does not compress."""
    with coldset.Pool(4 * MIB, swap="lz4:256MiB+temp:256MiB") as pool:
        yield pool


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a Python of its own, from a file (multiprocessing imports it again)."""

    def run(
        program: str, *flags: str, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(program))
        return subprocess.run(
            [sys.executable, *flags, str(path)],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
        )

    return run


def memfd_bytes() -> int:
    """Bytes of all memfds of this process, by the kernel's count."""
    total = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:"):
                total += os.stat(f"/proc/self/fd/{fd}").st_blocks * 512
        except OSError:
            pass
    return total
