"""The program that `test_model.py` drives: arrays of pools, and numpy's own beside them.

It reads commands, a line of JSON each, and answers each with a line: `ok`, `skipped`, or what is wrong.
An abort of it is a failure of the command that it was given.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coldset
import numpy as np

LIMIT = 24


class Wrong(Exception):
    """What an array holds is not what numpy has."""


class World:
    """Pools, handles with what they must hold, and a thread that makes temporaries."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pools: dict[int, coldset.Pool] = {}
        # Handle: the array, numpy's, and the file it is a map of.
        self.arrays: dict[int, tuple[Any, Any, int | None]] = {}
        # Handles of whole arrays; the others are views.
        self.whole: set[int] = set()
        # What files must hold when nobody maps them.
        self.files: dict[int, Any] = {}
        self.churning = threading.Event()
        self.churn: list[threading.Thread] = []
        self.trouble: list[BaseException] = []

    # ------------------------------------------------------------ pools

    def pool(self, pool: int, swap: str, policy: str, mode: str) -> str:
        if pool in self.pools:
            return "skipped"
        try:
            self.pools[pool] = coldset.Pool("1MiB", swap=swap, policy=policy, fault_mode=mode)
        except coldset.MissingFeature:
            # Handler threads need privilege.
            self.pools[pool] = coldset.Pool("1MiB", swap=swap, policy=policy)
        return "ok"

    def close(self, pool: int) -> str:
        if (found := self.pools.pop(pool, None)) is None:
            return "skipped"
        with found:
            pass
        with contextlib.suppress(coldset.ClosedError):
            found.zeros(3)
            raise Wrong("a closed pool makes arrays")
        return "ok"

    def forget_pool(self, pool: int) -> str:
        return "skipped" if self.pools.pop(pool, None) is None else "ok"

    # ------------------------------------------------------------ arrays

    def zeros(self, pool: int, handle: int, size: int, dtype: str) -> str:
        if pool not in self.pools or len(self.arrays) >= LIMIT:
            return "skipped"
        self.arrays[handle] = (self.pools[pool].zeros(size, dtype), np.zeros(size, dtype), None)
        self.whole.add(handle)
        return "ok"

    def array(self, pool: int, handle: int, seed: int, rows: int) -> str:
        if pool not in self.pools or len(self.arrays) >= LIMIT:
            return "skipped"
        plain = np.random.default_rng(seed).integers(0, 1 << 30, (rows, 257))
        self.arrays[handle] = (self.pools[pool].array(plain), plain, None)
        self.whole.add(handle)
        return "ok"

    def map(self, pool: int, handle: int, file: int, size: int) -> str:
        if pool not in self.pools or len(self.arrays) >= LIMIT:
            return "skipped"
        path = self.folder / f"file-{file}"
        if any(f == file for _, _, f in self.arrays.values()):
            with contextlib.suppress(coldset.FileInUseError):
                self.pools[pool].memmap(path, "i4", "r+")
                raise Wrong(f"{path} is mapped for stores twice")
            return "skipped"
        gc.collect()
        if file in self.files:
            self.compare_file(file)
            a = self.pools[pool].memmap(path, "i4", "r+")
            plain = self.files[file]
        else:
            a = self.pools[pool].memmap(path, "i4", "w+", size)
            plain = self.files[file] = np.zeros(size, "i4")
        self.arrays[handle] = (a, plain, file)
        self.whole.add(handle)
        return "ok"

    def view(self, of: int, handle: int, start: int, step: int, how: str) -> str:
        if of not in self.arrays or len(self.arrays) >= LIMIT:
            return "skipped"
        views: dict[str, Callable[[Any], Any]] = {
            "slice": lambda a: a[min(start, len(a) - 1) :: step],
            "back": lambda a: a[::-1],
            "transposed": lambda a: a.T,
            "bytes": lambda a: a.view("u1") if a.flags.c_contiguous and a.ndim == 1 else a[:],
            "plain": lambda a: np.asarray(a) if not isinstance(a, coldset.Array) else a.view(np.ndarray),
        }
        a, plain, file = self.arrays[of]
        self.arrays[handle] = (views[how](a), views[how](plain), file)
        return "ok"

    def delete(self, handle: int) -> str:
        self.whole.discard(handle)
        return "skipped" if self.arrays.pop(handle, None) is None else "ok"

    def store(self, handle: int, seed: int, how: str) -> str:
        if handle not in self.arrays:
            return "skipped"
        a, plain, _ = self.arrays[handle]
        for array in (a, plain):
            r = np.random.default_rng(seed)
            if how == "all":
                array[...] = r.integers(0, 100)
            elif how == "some":
                at = r.integers(0, len(array), 300)
                array[at] = r.integers(0, 100)
            elif how == "ufunc":
                np.add(array, 1, out=array, casting="unsafe")
            elif how == "part":
                first = r.integers(0, len(array))
                array[first : first + 5000] += np.array(1, array.dtype)
            elif how == "sort":
                array.sort(axis=0)
        self.compare(handle)
        return "ok"

    def compare(self, handle: int) -> str:
        if handle not in self.arrays:
            return "skipped"
        a, plain, _ = self.arrays[handle]
        if not np.array_equal(a, plain):
            wrong = np.flatnonzero(np.ravel(np.asarray(a) != plain))
            raise Wrong(
                f"array {handle} of shape {plain.shape}, {plain.dtype}: {len(wrong)} elements are not "
                f"numpy's, the first is {wrong[0] if len(wrong) else None}"
            )
        return "ok"

    # ------------------------------------------------------------ calls

    def advise(self, handle: int, advice: str) -> str:
        if handle not in self.arrays or not isinstance(self.arrays[handle][0], coldset.Array):
            return "skipped"
        self.arrays[handle][0].advise(advice)
        return "ok"

    def let_go(self, handle: int) -> str:
        """Of files: nothing is lost. Of whole arrays in memory: zeroes."""
        if handle not in self.arrays:
            return "skipped"
        a, plain, file = self.arrays[handle]
        if file is None and handle not in self.whole:
            return "skipped"
        if not isinstance(a, coldset.Array) or not a.flags.c_contiguous:
            return "skipped"
        a.advise("dontneed")
        if file is None:
            plain[...] = 0
        return "ok"

    def flush(self, handle: int) -> str:
        if handle not in self.arrays:
            return "skipped"
        a, _, file = self.arrays[handle]
        if file is None or handle not in self.whole:
            return "skipped"
        a.flush()
        self.compare_file(file)
        return "ok"

    def compare_file(self, file: int) -> None:
        want = self.files[file]
        found = np.fromfile(self.folder / f"file-{file}", "i4")
        if not np.array_equal(found, want):
            raise Wrong(f"file {file} does not hold what was stored: {np.flatnonzero(found != want)[:3]}")

    def pin(self, handle: int) -> str:
        if handle not in self.arrays or not isinstance(self.arrays[handle][0], coldset.Array):
            return "skipped"
        a, plain, _ = self.arrays[handle]
        if not plain.flags.c_contiguous or plain.ndim != 1:
            return "skipped"
        a, plain = a[:2048], plain[:2048]
        read, write = os.pipe()
        try:
            with a.pin():
                n = os.write(write, memoryview(a))
            if os.read(read, n) != plain.tobytes()[:n]:
                raise Wrong("write(2) of a pinned array reads something else")
        finally:
            os.close(read)
            os.close(write)
        return "ok"

    def reclaim(self, pool: int) -> str:
        if pool not in self.pools:
            return "skipped"
        self.pools[pool].reclaim("512KiB")
        if self.pools[pool].usage > self.pools[pool].budget:
            raise Wrong("more is used than the budget")
        return "ok"

    def sync(self, pool: int) -> str:
        if pool not in self.pools:
            return "skipped"
        self.pools[pool].sync()
        return "ok"

    def collect(self) -> str:
        gc.collect()
        return "ok"

    def start_churn(self, pool: int, threads: int) -> str:
        if pool not in self.pools or self.churn:
            return "skipped"
        self.churning.set()
        for t in range(threads):
            thread = threading.Thread(target=self.temporaries, args=(self.pools[pool], t))
            thread.start()
            self.churn.append(thread)
        return "ok"

    def temporaries(self, pool: coldset.Pool, t: int) -> None:
        """Arrays that come and go while others are used."""
        n = 0
        try:
            while self.churning.is_set():
                size = 20_000 + n % 7 * 10_000
                try:
                    b = pool.zeros(size, "i4")
                except (coldset.ClosedError, coldset.OutOfMemory):
                    return
                b[::512] = t + n
                half = b[size // 2 :]
                del b
                if not (half[(-(size // 2)) % 512 :: 512] == t + n).all():
                    raise Wrong("a temporary does not hold what was stored")
                n += 1
        except BaseException as e:
            self.trouble.append(e)

    def stop_churn(self) -> str:
        if not self.churn:
            return "skipped"
        self.churning.clear()
        for thread in self.churn:
            thread.join()
        self.churn.clear()
        if self.trouble:
            raise Wrong(f"in a thread: {self.trouble.pop()!r}")
        return "ok"

    def end(self) -> str:
        """Everything is compared and goes; nothing stays behind."""
        self.stop_churn()
        for handle in self.arrays:
            self.compare(handle)
        self.arrays.clear()
        self.whole.clear()
        gc.collect()
        for file in self.files:
            self.compare_file(file)
            (self.folder / f"file-{file}").unlink()
        self.files.clear()
        for pool in self.pools.values():
            left = pool.stats()["resident_pages"]
            if left:
                raise Wrong(f"all arrays are gone and {left} pages are in memory")
            pool.close()
        self.pools.clear()
        return "ok"


def main() -> None:
    world = World(Path(sys.argv[1]))
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = getattr(world, name)(**arguments)
        except Exception as e:
            answer = f"{type(e).__name__}: {e}".replace("\n", " ")
        print(answer, flush=True)


if __name__ == "__main__":
    main()
