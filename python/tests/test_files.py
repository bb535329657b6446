"""Maps of files."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from pathlib import Path

import coldset
import numpy as np
import pytest
from conftest import MIB


def test_modes(pool: coldset.Pool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    a = pool.memmap(path, "i4", "w+", (100, 3), offset=10)
    assert path.stat().st_size == 1210 and a.filename == str(path)
    a[:] = 4
    a[50].flush()
    del a
    assert path.read_bytes()[:10] == bytes(10)
    b = pool.memmap(path, "i4", "r", offset=10)
    assert b.shape == (300,) and (b == 4).all() and not b.flags.writeable
    # Readers may share a file.
    c = pool.memmap(str(path), "u1", "readonly")
    assert c.shape == (1210,)
    with pytest.raises(ValueError, match="read-only"):
        b[0] = 1
    with pytest.raises(coldset.ReadOnlyError):
        with b.pin(write=True):
            pass
    with b.pin():
        pass
    with pytest.raises(ValueError):
        b.flags.writeable = True
    b.flush()
    del b, c
    d = pool.memmap(path, "i4", "r+", (200, 3), offset=10)
    assert path.stat().st_size == 2410 and d.sum() == 1200
    d[100:] = 1
    pool.sync()
    assert np.fromfile(path, "i4", offset=10).sum() == 1500
    del d
    e = pool.memmap(path, "i4", "r", (3, 200), offset=10, order="F")
    assert e.flags.f_contiguous and e[0, 0] == 4


def test_refusals(pool: coldset.Pool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    for text, call in {
        "not supported": lambda: pool.memmap(path, mode="c"),
        "the mode is": lambda: pool.memmap(path, mode="rw"),  # type: ignore[arg-type]
        "give it a shape": lambda: pool.memmap(path, mode="w+"),
        "multiple of 16": lambda: pool.memmap(path, "c16", "r"),
        "1008 are needed": lambda: pool.memmap(path, "i8", "r", 126),
        "empty map": lambda: pool.memmap(path, "i8", "r", 0),
        "the offset": lambda: pool.memmap(path, "u1", "r", offset=-1),
        "the order": lambda: pool.memmap(path, "u1", "r", order="K"),  # type: ignore[arg-type]
        "Python objects": lambda: pool.memmap(path, object, "r"),
    }.items():
        with pytest.raises(coldset.SettingError, match=text):
            call()
    with pytest.raises(FileNotFoundError):
        pool.memmap(tmp_path / "none", mode="r")
    with pytest.raises(IsADirectoryError):
        pool.memmap(tmp_path, "u1", "r+", 100_000)
    assert path.read_bytes() == bytes(1000)


def test_a_file_is_mapped_once_for_writing(pool: coldset.Pool, tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    a = pool.memmap(path, "u1", "w+", 100)
    os.link(path, link)
    other = coldset.Pool("1MiB")
    for mode in ("r", "r+", "w+"):
        with pytest.raises(coldset.FileInUseError, match="mapped already"):
            other.memmap(link, "u1", mode, 100)  # type: ignore[arg-type]
    assert a.nbytes == path.stat().st_size
    a[:] = 1
    a.flush()
    c = other.memmap(path, "u1", "r+", 100, shared=True)
    c[50:] = 0
    c.flush()
    del c
    assert path.read_bytes() == bytes([1] * 50 + [0] * 50)
    a[:] = 0
    del a
    b = other.memmap(link, "u1", "r")
    with pytest.raises(coldset.SettingError, match="mapped already"):
        pool.memmap(path, "u1", "r+")
    assert b.sum() == 0


def test_two_processes_do_not_write_to_one_map(pool: coldset.Pool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    a = pool.memmap(path, "u1", "w+", 100)
    program = f"""
import coldset
pool = coldset.Pool("1MiB")
for mode in ("r", "r+", "w+"):
    try:
        pool.memmap({str(path)!r}, "u1", mode, 100)
        print("mapped")
    except coldset.FileInUseError as e:
        print(e)
pool.memmap({str(path)!r}, "u1", "r+", shared=True)
"""

    def other() -> list[str]:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    told = other()
    assert len(told) == 3 and all(f"in use by process {os.getpid()} (" in line for line in told), told
    a[:] = 5
    del a
    assert path.read_bytes() == bytes([5] * 100)
    assert other() == ["mapped"] * 3


def test_swap_files_and_journals_overwrite_nothing(tmp_path: Path) -> None:
    data = tmp_path / "mydata.npy"
    np.save(data, np.arange(10))
    before = data.read_bytes()
    with pytest.raises(FileExistsError, match="not a swap file"):
        coldset.Pool("1MiB", swap=f"file:{data}:8MiB")
    with pytest.raises(FileExistsError, match="not a journal"):
        coldset.Pool("1MiB", journal=data)
    assert data.read_bytes() == before
    swap = tmp_path / "swap"
    pool = coldset.Pool("1MiB", swap=f"file:{swap}:8MiB+encrypt", full_wait=0.1)
    assert swap.stat().st_mode & 0o777 == 0o600
    with pytest.raises(coldset.FileInUseError, match="used as swap by this process"):
        coldset.Pool("1MiB", swap=f"file:{swap}:8MiB")
    a = pool.zeros(4 * MIB, "u1")
    a[:] = np.frombuffer(b"SECRET!!" * (MIB // 2), "u1")
    assert b"SECRET!!" not in swap.read_bytes()
    assert bytes(a[:8]) == bytes(a[-8:]) == b"SECRET!!"


def test_the_last_array_writes_back(pool: coldset.Pool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    a = pool.memmap(path, "u1", "w+", 2 * MIB)
    a[:] = 8
    view = a[5:9]
    del a
    view[:] = 9
    del view
    gc.collect()
    data = np.fromfile(path, "u1")
    assert (data[5:9] == 9).all() and data.sum() == 8 * 2 * MIB + 4


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_is_an_oserror(pool: coldset.Pool, tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"no mount here: {done.stderr.strip()}")
    try:
        a = pool.memmap(mount / "file", "u1", "w+", 2 * MIB)
        a[:] = 5
        with pytest.raises(OSError) as told:
            a.flush()
        assert told.value.errno == errno.ENOSPC and "No space" in str(told.value)
        # Nothing is lost meanwhile.
        assert (a == 5).all()
        subprocess.run(["mount", "-o", "remount,size=8m", mount], check=True)
        a.flush()
        assert (np.fromfile(mount / "file", "u1") == 5).all()
        del a
    finally:
        subprocess.run(["umount", "-l", mount], check=True)


def test_a_file_that_shrinks_is_an_oserror(pool: coldset.Pool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(2 * MIB))
    a = pool.memmap(path, mode="r")
    os.truncate(path, MIB)
    with pytest.raises(OSError, match="truncated") as told:
        a.advise("willneed")
    assert told.value.errno == errno.EIO
    with pytest.raises(OSError):
        with a.pin():
            pass


def test_a_file_read_in_order_is_lent(tmp_path: Path) -> None:
    path = tmp_path / "file"
    numbers = np.arange(24 * MIB, dtype="u8")
    numbers.tofile(path)
    lent = {}
    for on in [True, False]:
        with coldset.Pool("64MiB", map_streams=on, background=True) as pool:
            a = pool.memmap(path, "u8", "r")
            for _ in range(2):
                assert int(a.sum()) == int(numbers.sum())
            lent[on] = pool.stats()["lent"]
            assert pool.stats()["peak_pages"] * 4096 <= 64 * MIB
    assert lent[False] == 0
    # It takes Linux 6.11.
    if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 11):
        assert lent[True] > 0
