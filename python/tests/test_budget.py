"""The budget holds while arrays that are larger are used."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import coldset
import numpy as np
import pytest
from conftest import MIB, memfd_bytes

#: Beyond the budget, for each thread that is evicting (see the pager's manual); the pool has one itself.
SLACK = 64 << 10


def counts_agree(pool: coldset.Pool, before: int) -> bool:
    """Is the pool's count the kernel's? The pool may be evicting at this moment."""
    for _ in range(100):
        if pool.stats()["resident_pages"] * 4096 == memfd_bytes() - before:
            return True
        time.sleep(0.02)
    return False


class Watch:
    """Samples the kernel's count of managed memory every few milliseconds."""

    def __enter__(self) -> Watch:
        self.before, self.peak, self.stop = memfd_bytes(), 0, threading.Event()
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()
        return self

    def sample(self) -> None:
        while not self.stop.wait(0.003):
            self.peak = max(self.peak, memfd_bytes())

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


def test_an_array_four_times_the_budget() -> None:
    gc.collect()
    budget = 16 * MIB
    pool = coldset.Pool(budget, swap="lz4:256MiB+temp:256MiB")
    with Watch() as watch:
        a = pool.empty((4 * budget // 4096, 512))
        for i in range(len(a)):
            a[i] = i
        for _ in range(3):
            assert (a[:, 0] == np.arange(len(a))).all()
            assert a.sum() == 512 * len(a) * (len(a) - 1) / 2
    stats = pool.stats()
    assert a.nbytes == 4 * budget
    assert stats["evicted"] > 3 * budget // 4096
    assert 0 < watch.peak <= budget + 2 * SLACK
    assert stats["peak_bytes"] <= budget + 2 * SLACK
    assert stats["resident_bytes"] <= budget
    assert counts_agree(pool, watch.before)
    assert 0 < a.resident() <= budget
    assert pool.reclaim("4MiB") > 0
    del a
    assert pool.stats()["resident_pages"] == 0


def test_a_file_four_times_the_budget(tmp_path: Path) -> None:
    pool = coldset.Pool("8MiB")
    with Watch() as watch:
        a = pool.memmap(tmp_path / "file", "i8", "w+", (4096, 1024))
        a[:] = np.arange(1024)
        a += np.arange(4096)[:, None]
        sums = a.sum(axis=0)
    assert (sums == 4096 * np.arange(1024) + 4095 * 4096 // 2).all()
    assert 0 < watch.peak <= 8 * MIB + 2 * SLACK
    assert pool.stats()["peak_bytes"] <= 8 * MIB + 2 * SLACK
    a.flush()
    on_disk = np.fromfile(tmp_path / "file", "i8").reshape(4096, 1024)
    assert (on_disk == np.arange(1024) + np.arange(4096)[:, None]).all()


def test_sixteen_threads(pool: coldset.Pool) -> None:
    """Each has its rows; numpy works without the GIL."""
    a = pool.zeros((16, 1 * MIB // 8))

    def work(i: int) -> float:
        rng = np.random.default_rng(i)
        expected = np.zeros(a.shape[1])
        for _ in range(2):
            step = rng.integers(0, 1000, a.shape[1])
            a[i] += step
            expected += step
            at = rng.integers(0, a.shape[1], 500)
            assert (a[i, at] == expected[at]).all()
        assert (a[i] == expected).all()
        return float(expected.sum())

    with Watch() as watch, ThreadPoolExecutor(16) as threads:
        sums = list(threads.map(work, range(16)))
    assert a.sum() == sum(sums)
    assert pool.stats()["evicted"] > 1000
    assert watch.peak <= 4 * MIB + 17 * SLACK


def test_numpy_over_arrays_beyond_the_budget(pool: coldset.Pool) -> None:
    rng = np.random.default_rng(5)
    plain = rng.random((1024, 1024))
    a = pool.array(plain)
    assert a.nbytes == 2 * pool.budget
    assert np.allclose(a.sum(axis=0), plain.sum(axis=0))
    assert np.allclose(a.mean(axis=1), plain.mean(axis=1))
    # BLAS has threads of its own, and stacks of its own choice.
    assert np.allclose(a.T @ a, plain.T @ plain)
    rows, columns = rng.integers(0, 1024, 5000), rng.integers(0, 1024, 5000)
    assert (a[rows, columns] == plain[rows, columns]).all()
    assert (a[a > 0.999] == plain[plain > 0.999]).all()
    a.sort(axis=1)
    plain.sort(axis=1)
    assert (a == plain).all()
    flat = a[:512].reshape(-1)
    flat.sort()
    assert (flat == np.sort(plain[:512], axis=None)).all()
    assert (np.linalg.svd(a[:64], compute_uv=False) > 0).all()


def test_scipy_over_arrays_beyond_the_budget(pool: coldset.Pool) -> None:
    linalg = pytest.importorskip("scipy.linalg", exc_type=ImportError)
    sparse = pytest.importorskip("scipy.sparse", exc_type=ImportError)
    rng = np.random.default_rng(6)
    n = 1024
    plain = rng.random((n, n)) + n * np.eye(n)
    a = pool.array(plain)
    assert a.nbytes == 2 * pool.budget
    b = rng.random(n)
    assert np.allclose(linalg.solve(a, b), linalg.solve(plain, b))
    # A sparse matrix whose data is managed memory.
    parts = rng.random(n * 500), rng.integers(0, n, n * 500), np.arange(n + 1) * 500
    data, index, start = (pool.array(part) for part in parts)
    matrix = sparse.csr_matrix((data, index, start), shape=(n, n), copy=False)
    expected = sparse.csr_matrix((data.copy(), index.copy(), start.copy()), shape=(n, n))
    assert np.allclose(matrix @ b, expected @ b)


def test_groups_have_limits_of_their_own(pool: coldset.Pool) -> None:
    kept = pool.group("kept", low="1MiB", min=4096)
    scan = pool.group("scan", max="1MiB", high=900_000)
    hot = kept.full(512 << 10, 1, "u1")
    big = scan.zeros(8 * MIB, "u1")
    big[:] = 2
    assert scan.usage <= MIB
    assert kept.usage >= 512 << 10
    assert hot.sum() == 512 << 10
    below = scan.group("below")
    for name, why in (("kept", "keep its handle"), ("", "it is empty")):
        with pytest.raises(coldset.SettingError, match=f'"{name}" cannot be the name of a group in /: .*{why}'):
            pool.group(name)
    assert below.name == "/scan/below"
    scan.set(max=512 << 10)
    assert scan.usage <= 512 << 10
    assert scan.generations()
    with pytest.raises(TypeError):
        scan.set(maximum=1)  # type: ignore[call-arg]


def test_a_budget_is_changed_while_arrays_are_used() -> None:
    gc.collect()
    pool = coldset.Pool("16MiB", swap="lz4:64MiB+temp:64MiB")
    a = pool.full(32 * MIB, 7, "u1")
    stop = threading.Event()
    wrong: list[int] = []

    def read() -> None:
        while not stop.is_set():
            if int(a[::4096].sum()) != 7 * len(a) // 4096:
                wrong.append(1)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for t in threads:
        t.start()
    for mib in [4, 12, 2, 16, 3]:
        pool.resize(f"{mib}MiB")
        assert pool.budget == mib * MIB
        assert pool.stats()["resident_bytes"] <= mib * MIB + 4 * SLACK
    stop.set()
    for t in threads:
        t.join()
    assert not wrong
    with a[: 2 * MIB].pin(), pytest.raises(coldset.OutOfMemory, match="pinned"):
        pool.resize("1MiB")
    assert pool.budget == 3 * MIB


def test_a_budget_may_be_a_share_and_more_may_be_promised() -> None:
    pool = coldset.Pool("1%", swap="temp:16MiB", overcommit=True)
    assert pool.budget >= MIB
    a = pool.zeros(1 << 40, "u1")
    a[:: 1 << 34] = 3
    assert int(a[:: 1 << 34].sum()) == 3 * 64
    with pytest.raises(coldset.SettingError, match="0%"):
        coldset.Pool("0%")
    with pytest.raises(coldset.OutOfMemory):
        coldset.Pool("4MiB", swap="temp:16MiB").zeros(1 << 40, "u1")
