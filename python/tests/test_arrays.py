"""Arrays are numpy's, keep their memory alive, and get through files and pickles."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from pathlib import Path
from typing import Any

import coldset
import numpy as np
import pytest
from conftest import MIB


def test_kinds_of_arrays(pool: coldset.Pool) -> None:
    for make, value in ((pool.empty, 0), (pool.zeros, 0)):
        a = make((3, 5), "i2")
        assert isinstance(a, coldset.Array) and isinstance(a, np.ndarray)
        assert a.shape == (3, 5) and a.dtype == np.int16 and (a == value).all()
        assert a.flags.c_contiguous and a.flags.aligned and a.flags.writeable
        assert not a.flags.owndata
    assert pool.zeros(7).dtype == np.float64
    assert pool.zeros(7, order="F").shape == (7,)
    f = pool.full((4, 6), 1.5, order="F")
    assert f.flags.f_contiguous and f.dtype == np.float64 and (f == 1.5).all()
    assert pool.full(3, 7, "u1").dtype == np.uint8
    assert pool.zeros(()).shape == () and pool.zeros((0, 4)).size == 0
    record = pool.zeros(10, [("name", "S3"), ("n", "<i4")])
    record["n"][3] = 5
    record[4] = (b"abc", 6)
    assert record["n"].sum() == 11 and record[4]["name"] == b"abc"
    assert (pool.array([[1, 2], [3, 4]]) == [[1, 2], [3, 4]]).all()
    assert pool.array(np.arange(3), "f4").dtype == np.float32
    assert pool.zeros(np.int64(3)).shape == (3,)
    assert pool.zeros(2, "datetime64[s]")[0] == np.datetime64(0, "s")


def test_what_is_computed_is_ordinary(pool: coldset.Pool) -> None:
    a = pool.full((2, 3), 2.0)
    for ordinary in (a + a, np.sqrt(a), a.copy(), np.copy(a), a[a > 0], a[[0, 1]], a.astype("i4")):
        assert type(ordinary) is np.ndarray
    assert copy.deepcopy(a).sum() == 12 and type(copy.copy(a)) is np.ndarray
    assert isinstance(a.sum(), np.float64) and isinstance(a[0, 0], np.float64)
    for view in (a[1], a.T, a.reshape(6), a[:, ::2], a[::-1], np.asanyarray(a), a.view("i8")):
        assert isinstance(view, coldset.Array)
        view.flush()
    a += 1
    assert isinstance(a, coldset.Array) and (a == 3).all()
    assert np.add(a, 1, out=a) is a
    with pytest.raises(coldset.Error, match="not in a pool"):
        np.zeros(3).view(coldset.Array).flush()
    # What numpy makes without a copy keeps the memory alive, too.
    b = np.asarray(a)
    del a
    gc.collect()
    assert (b == 4).all()


def test_views_keep_the_region_alive(pool: coldset.Pool) -> None:
    a = pool.zeros(8 * MIB, "u1")
    a[:] = 9
    region = weakref.ref(a._region)
    view: Any = a[5 * MIB :][::2][100:]
    del a
    gc.collect()
    assert region() is not None and (view == 9).all()
    memory = memoryview(view)
    del view
    gc.collect()
    assert memory[0] == 9
    assert pool.stats()["resident_pages"] > 0
    del memory
    gc.collect()
    assert region() is None
    assert pool.stats()["resident_pages"] == 0


def test_arrays_outlive_the_pool() -> None:
    a = coldset.Pool("1MiB", swap="lz4:16MiB").zeros(4 * MIB, "u1")
    gc.collect()
    a[:] = 3
    assert int(a.sum()) == 3 * a.size
    with coldset.Pool("1MiB", swap="lz4:16MiB") as pool:
        b = pool.full(4 * MIB, 1, "u1")
    with pytest.raises(coldset.ClosedError):
        pool.zeros(3)
    with pytest.raises(coldset.ClosedError):
        pool.__enter__()
    assert int(b.sum()) == b.size
    pool.close()
    assert "closed" in repr(pool)


def evicted(pool: coldset.Pool, a: coldset.Array) -> None:
    pool.reclaim(1 << 30)
    assert a.resident() < a.nbytes


def test_tofile_and_save(pool: coldset.Pool, tmp_path: Path) -> None:
    plain = np.random.default_rng(1).random((1024, 1024))
    a = pool.array(plain)
    for i, view in enumerate((a, a.T, a[::2, 1:], a[:, ::-1])):
        other = (plain, plain.T, plain[::2, 1:], plain[:, ::-1])[i]
        evicted(pool, a)
        view.tofile(tmp_path / "raw")
        assert (np.fromfile(tmp_path / "raw").reshape(other.shape) == other).all()
        evicted(pool, a)
        np.save(tmp_path / "saved.npy", view)
        assert (np.load(tmp_path / "saved.npy") == other).all()
    with open(tmp_path / "raw", "wb") as file:
        file.write(b"head")
        a[:2].tofile(file)
        file.write(b"tail")
    assert (tmp_path / "raw").read_bytes() == b"head" + plain[:2].tobytes() + b"tail"
    a[0, :3].tofile(tmp_path / "text", " ", "%.2f")
    assert len((tmp_path / "text").read_text().split()) == 3
    evicted(pool, a)
    np.savez(tmp_path / "saved.npz", a=a)
    assert (np.load(tmp_path / "saved.npz")["a"] == plain).all()
    buffer = io.BytesIO()
    np.save(buffer, a)
    buffer.seek(0)
    assert (np.load(buffer) == plain).all()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_ordinary_arrays(pool: coldset.Pool, tmp_path: Path, protocol: int) -> None:
    a = pool.full((1024, 1024), 7.0, order="F")
    evicted(pool, a)
    with open(tmp_path / "pickle", "wb") as file:
        pickle.dump(a, file, protocol)
    with open(tmp_path / "pickle", "rb") as file:
        back = pickle.load(file)
    assert type(back) is np.ndarray and back.shape == a.shape and (back == 7).all()
    assert back.flags.f_contiguous


def test_system_calls_need_a_pin(pool: coldset.Pool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    plain = np.random.default_rng(2).integers(0, 255, 2 * MIB, "u1")
    plain.tofile(path)
    a = pool.zeros(2 * MIB, "u1")
    a[0] = 1
    evicted(pool, a)
    with open(path, "rb", buffering=0) as file:
        with pytest.raises(OSError, match="Bad address") as told:
            file.readinto(a.data)
        assert told.value.errno == 14
        with a.pin() as pinned:
            assert pinned is a
            assert file.readinto(a.data) == a.nbytes
    assert (a == plain).all()
    evicted(pool, a)
    assert (a == plain).all(), "what came by a system call was stored"
    evicted(pool, a)
    with open(tmp_path / "copy", "wb") as file:
        with a.pin(write=False):
            pool.reclaim(1 << 30)
            assert a.resident() == a.nbytes
            assert file.write(a.data) == a.nbytes
    assert (tmp_path / "copy").read_bytes() == plain.tobytes()
    large = pool.zeros(8 * MIB, "u1")
    with pytest.raises(coldset.OutOfMemory):
        with large.pin():
            pass
    assert large.resident() > 0
    pool.reclaim(1 << 30)
    assert large.resident() == 0, "a pin that failed keeps nothing"


def test_readfrom(pool: coldset.Pool, tmp_path: Path) -> None:
    plain = np.random.default_rng(3).random(MIB)
    plain.tofile(tmp_path / "file")
    a = pool.zeros(MIB)
    with open(tmp_path / "file", "rb") as file:
        assert a.readfrom(file) == plain.nbytes
        assert a.readfrom(file) == 0
    assert (a == plain).all()
    with open(tmp_path / "file", "rb") as file:
        file.seek(-100, 2)
        assert a[:50].readfrom(file) == 100
    with pytest.raises(coldset.SettingError):
        a[::2].readfrom(io.BytesIO())


def test_advice(pool: coldset.Pool) -> None:
    a = pool.full((1024, 256), 1.0)
    for advice in ("random", "sequential", "normal"):
        a.advise(advice)
    pool.reclaim(1 << 30)
    a.advise("willneed")
    assert a.resident() == a.nbytes
    a[:512].advise("dontneed")
    assert a[:512].resident() == 0
    assert (a[:512] == 0).all() and (a[512:] == 1).all()
    with pytest.raises(coldset.SettingError, match="gaps"):
        a[:, :3].advise("dontneed")
    with pytest.raises(coldset.SettingError, match="willneed"):
        a.advise("never")  # type: ignore[arg-type]


def test_stats(pool: coldset.Pool) -> None:
    pool.zeros(MIB, "u1")[:] = 1
    stats = pool.stats()
    assert stats["budget_bytes"] == 4 * MIB and stats["misses"] > 0
    assert stats["miss"]["count"] == stats["misses"]
    assert stats["engine"]["pgmajfault"] >= 0 and "engine.pgmajfault" in stats.flat()
    assert "pgfault" not in stats["engine"], "only the kernel knows"
    pandas = pytest.importorskip("pandas")
    frame = pandas.concat([stats.as_frame(), pool.stats().as_frame()])
    assert frame.shape == (2, len(stats.flat()))
    assert (frame["budget_bytes"] == 4 * MIB).all()


def test_stats_without_pandas(pool: coldset.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install pandas"):
        pool.stats().as_frame()


@pytest.mark.parametrize("policy", ["v5", "classic", "base", "merged"])
def test_policies(policy: str) -> None:
    with coldset.Pool("2MiB", swap="lz4:64MiB+temp:64MiB", policy=policy) as pool:
        a = pool.zeros((2048, 512))
        a[:] = np.arange(512)
        assert (a.sum(axis=0) == 2048 * np.arange(512)).all()
        assert pool.stats()["evicted"] > 1000


def test_swap_to_a_file(tmp_path: Path) -> None:
    swap = tmp_path / "swap"
    with coldset.Pool("2MiB", swap=f"lz4:1MiB+file:{swap}:64MiB") as pool:
        a = pool.array(np.random.default_rng(4).random(MIB))
        total = a.sum()
        for _ in range(3):
            assert a.sum() == total
        assert swap.stat().st_blocks > 0


def test_tofile_takes_keywords(pool: coldset.Pool, tmp_path: Path) -> None:
    plain, a = np.ones(2), pool.full(2, 1.0)
    for options in ({"sep": ","}, {"sep": " ", "format": "%.2f"}, {"sep": ""}):
        plain.tofile(tmp_path / "plain", **options)
        a.tofile(tmp_path / "ours", **options)
        assert (tmp_path / "ours").read_bytes() == (tmp_path / "plain").read_bytes()


def test_empty_views_are_of_the_pool(pool: coldset.Pool) -> None:
    a = pool.zeros((10, 4))
    for view in (a[10:], a[3:3], a[:, 4:], a[::-1][10:], a[5:5].T, a[5:5].reshape(-1), a[20:], a[10:, 1:], pool.zeros((0, 4))[:, 1:]):
        assert type(view) is coldset.Array and view.size == 0
        view.flush()
        view.advise("willneed")
        assert view.resident() == 0
        with view.pin() as pinned:
            assert pinned is view
    # What is computed is not.
    for ordinary in (a[a > 1], a[[]], a[5:5] + 1, a[5:5].copy()):
        assert type(ordinary) is np.ndarray and ordinary.size == 0
