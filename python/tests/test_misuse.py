"""What goes wrong is said in Python's words, and by an exception where there is a call that can raise one."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import coldset
import numpy as np
import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MIB = 1 << 20


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize(("kind", "said"), [("fifo", "a pipe or a socket"), ("/dev/zero", "a device"), ("folder", "a directory")])
def test_what_is_no_file_is_named(pool: coldset.Pool, tmp_path: Path, kind: str, said: str, mode: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    os.mkdir(tmp_path / "folder")
    for shape in (None, 10):
        with pytest.raises(OSError, match=said):
            pool.memmap(tmp_path / kind, "u1", mode, shape)  # type: ignore[arg-type]


def test_a_file_made_while_it_is_read_is_refused(pool: coldset.Pool) -> None:
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    if not os.path.exists(path):
        pytest.skip("no sysfs")
    with pytest.raises(OSError, match="does not support mapping"):
        pool.memmap(path, "u1", "r")


def test_memmap_takes_what_numpy_takes(pool: coldset.Pool, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abcd")
    assert bytes(pool.memmap(os.fsencode(path), "u1", "r")) == b"abcd"
    with open(path, "rb") as file:
        a = pool.memmap(file, "u1", "r")
    assert bytes(a) == b"abcd" and a.filename == str(path)
    with tempfile.TemporaryFile() as unnamed:
        unnamed.write(b"efgh")
        a = pool.memmap(unnamed, "u1", "r")
    assert bytes(a) == b"efgh"


def test_a_limit_is_taken_away_by_the_kernels_word(pool: coldset.Pool) -> None:
    group = pool.group("g", max="64K")
    a = group.zeros(MIB, "u1")
    a[:] = 1
    assert group.usage <= 64 << 10
    group.set(max="max")
    a[:] = 2
    # Read-ahead of the first store may have begun to reclaim a batch, 64 pages, before the limit went.
    assert group.usage >= MIB // 2
    deadline = time.monotonic() + 60
    while group.usage < MIB and time.monotonic() < deadline:
        a[:] = 2
    assert group.usage >= MIB


@pytest.mark.parametrize("name", ["a\0b", "\x1b[2J", "x" * 256])
def test_names_that_no_group_has(pool: coldset.Pool, name: str) -> None:
    with pytest.raises(coldset.SettingError, match="cannot be the name"):
        pool.group(name)


def test_copies_of_the_package_raise(tmp_path: Path) -> None:
    """Random bytes do not fit into compressed memory of half the budget."""
    pool = coldset.Pool("1MiB", swap="lz4:64MiB")
    noise = np.random.default_rng(1).integers(0, 256, 4 * MIB, np.uint8)
    with pytest.raises(coldset.OutOfMemory, match="in the pool"):
        pool.array(noise)
    path = tmp_path / "noise"
    noise.tofile(path)
    a = pool.zeros(4 * MIB, "u1")
    with pytest.raises(coldset.OutOfMemory), open(path, "rb") as file:
        a.readfrom(file)


def test_copies_part_by_part_are_the_same(pool: coldset.Pool) -> None:
    rng = np.random.default_rng(2)
    for shape in [(), (0, 3), (5,), (300, 7, 11), (3, 40_000), (2, 3, 20_001)]:
        source = rng.random(shape)
        for order in ("C", "F"):
            for given in (source, source.T, source[::-1] if shape else source):
                a = pool.array(given, order=order)  # type: ignore[arg-type]
                assert (a == given).all() and a.flags[f"{order}_CONTIGUOUS"]
    row = np.dtype([("a", "i4"), ("b", "f8")])
    assert pool.full(3, (1, 2.5), row)[2].tolist() == (1, 2.5)
    assert (pool.full((2, 3), [1, 2, 3], "u1") == [[1, 2, 3]] * 2).all()
    assert pool.full(2, b"x" * 100_000, "S100000")[1] == b"x" * 100_000
    # A group smaller than a part.
    small = pool.group("small", max="32K")
    assert small.full(MIB, 7, "u1").sum() == 7 * MIB


def test_a_handler_set_by_signal_is_noticed_at_the_next_call(run: Run) -> None:
    done = run(
        """
        import signal, coldset
        pool = coldset.Pool("1MiB", swap="lz4:16MiB")
        group = pool.group("g")
        for handler in (lambda *_: None, signal.SIG_DFL):
            signal.signal(signal.SIGBUS, handler)
            for call in (lambda: pool.zeros(5), lambda: group.zeros(5)):
                try:
                    call()
                except coldset.HandlerError as e:
                    print(e)
        """
    )
    assert ok(done).count("signal.signal(signal.SIGBUS, ...) has replaced the handler") == 4


def test_a_blocked_sigbus_is_told_how_to_unblock() -> None:
    old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGBUS])
    try:
        with pytest.raises(coldset.HandlerError, match="SIG_UNBLOCK") as raised:
            coldset.Pool("1MiB")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
    assert "faulthandler" not in str(raised.value)


LIMITED = """
    import resource, coldset
    resource.setrlimit(resource.{what}, ({n}, {n}))
    try:
        coldset.Pool("4MiB", swap="{swap}")
    except OSError as e:
        print("OSError", e)
    except coldset.Error as e:
        print(type(e).__name__, e)
    else:
        print("made")
    """


def test_a_limit_on_sizes_is_no_missing_feature(run: Run) -> None:
    said = ok(run(LIMITED.format(what="RLIMIT_FSIZE", n=100 << 10, swap="lz4:8MiB")))
    assert said.startswith("OSError") and "ulimit -f) is 102400 bytes" in said and "PAGEMAP" not in said


def test_too_few_descriptors_are_said_with_their_number(run: Run) -> None:
    """Whatever the limit, the pool is made, or the error says what to raise; what it says suffices."""
    import re

    for n in range(5, 16):
        said = ok(run(LIMITED.format(what="RLIMIT_NOFILE", n=n, swap="lz4:8MiB+temp:8MiB")))
        if said == "made\n":
            break
        assert f"ulimit -n) is {n}: raise it" in said, said
        needed = re.search(r"takes up to (\d+) descriptors", said)
        assert needed
    else:
        needed = None
    enough = int(needed.group(1)) + 3 if needed else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert ok(run(LIMITED.format(what="RLIMIT_NOFILE", n=enough, swap="lz4:8MiB+temp:8MiB"))) == "made\n"


DENIED = """
    import ctypes, struct, coldset
    BPF = {rules}
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0                       # PR_SET_NO_NEW_PRIVS
    code = b"".join(struct.pack("<HBBI", *r) for r in BPF)
    held = ctypes.create_string_buffer(code)
    program = struct.pack("<HxxxxxxQ", len(BPF), ctypes.addressof(held))
    assert libc.prctl(22, 2, program, 0, 0) == 0                 # PR_SET_SECCOMP
    for call in (coldset.probe, lambda: coldset.Pool("4MiB")):
        try:
            call()
        except coldset.MissingFeature as e:
            print(e)
    """


@pytest.mark.parametrize(
    ("number", "named"),
    [(323, "userfaultfd"), (28, "madvise failed when"), (285, "fallocate")],
    ids=["userfaultfd", "madvise", "fallocate"],
)
def test_a_call_that_is_denied_is_named_with_pythons_remedy(run: Run, number: int, named: str) -> None:
    """Denied by a filter, as containers do it. Numbers are those of x86-64."""
    if os.uname().machine != "x86_64":
        pytest.skip("numbers of x86-64")
    rules = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    said = ok(run(DENIED.format(rules=rules))).splitlines()
    assert len(said) == 2, said
    for line in said:
        assert named in line and 'fault_mode="explicit"' in line and "seccomp profile" in line, line
        assert "FaultMode" not in line and "fix_mut" not in line, line
