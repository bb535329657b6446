#!/usr/bin/env python3
"""Sums of the columns of a matrix on disk that is larger than the memory it may use.

    column_sums.py --mib 1024 --budget-mib 256 --arm coldset
    column_sums.py --mib 1024 --arm memmap      # under a limit of your own, say a memory cgroup

Prints one line of JSON. The file is made (and flushed out of the page cache) before the clock runs;
`--keep` leaves it for the next run. Every row is read in order, once per pass.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = 512  # of float64: a row is a page


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--mib", type=int, default=256, help="size of the matrix")
    parser.add_argument("--budget-mib", type=int, default=64, help="budget of the pool")
    parser.add_argument("--arm", choices=["coldset", "memmap"], default="coldset")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--policy", default="v5")
    parser.add_argument("--dir", default=None, help="where the file goes")
    parser.add_argument("--keep", action="store_true", help="keep the file, and use it if it is there")
    return parser.parse_args()


def make(path: Path, rows: int) -> None:
    """Writes the matrix, and has the kernel forget it."""
    if not path.exists() or path.stat().st_size != rows * COLUMNS * 8:
        rng = np.random.default_rng(1)
        with open(path, "wb") as file:
            for first in range(0, rows, 1024):
                block = rng.integers(0, 100, (min(1024, rows - first), COLUMNS))
                block.astype("f8").tofile(file)
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def sums(a: np.ndarray[Any, Any], passes: int) -> np.ndarray[Any, Any]:
    total = np.zeros(COLUMNS)
    for _ in range(passes):
        total += a.sum(axis=0)
    return total


def main() -> None:
    args = arguments()
    rows = args.mib * 256
    folder = Path(args.dir or tempfile.gettempdir())
    path = folder / f"column_sums.{args.mib}"
    make(path, rows)
    result: dict[str, Any] = {"arm": args.arm, "mib": args.mib, "passes": args.passes}
    if args.arm == "coldset":
        import coldset
    wall, cpu = time.perf_counter(), time.process_time()
    if args.arm == "coldset":
        pool = coldset.Pool(args.budget_mib << 20, policy=args.policy)
        total = sums(pool.memmap(path, "f8", "r", (rows, COLUMNS)), args.passes)
    else:
        total = sums(np.memmap(path, "f8", "r", shape=(rows, COLUMNS)), args.passes)
    result["wall_seconds"] = time.perf_counter() - wall
    result["cpu_seconds"] = time.process_time() - cpu
    result["checksum"] = float(total @ np.arange(1, COLUMNS + 1))
    if args.arm == "coldset":
        stats = pool.stats()
        result.update(budget_mib=args.budget_mib, policy=args.policy)
        result.update({name: stats[name] for name in ("peak_bytes", "misses", "filled", "evicted")})
    json.dump(result, sys.stdout)
    print()
    if not args.keep:
        path.unlink()


if __name__ == "__main__":
    main()
