"""Writes traces of programs on a machine that runs short of memory; nobody has a limit.

Usage: python3 examples/short_of_memory.py [DIR]

`DIR/short-readers.pageops`: four programs read by pread, from anywhere in 4,500 pages, or some of them more than others;
those of `short-mapped` through mappings. `short-writer`: the second of four such programs writes a byte at each third
of its accesses. `short-many`: 24 programs with 800 pages each. `short-one`: one program with 18,000. `short-swap`: four
programs that use anonymous memory, a quarter of the accesses are stores. `short-both`: two of those, two that read. Kernels
have played all of them (docs/validation.md). Needs numpy.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

MAPPED, READ, WRITE, STORE, LOAD = 0, 1, 2, 3, 4
# Pages of a program, and how much it prefers some of them: 1 does not.
FOUR = [(4500, 1), (4500, 2), (4500, 3), (4500, 6)]
BOTH = [(4500, 2), (4500, 2), (4500, 3), (4500, 3)]
MANY = [(800, 1 + task % 6) for task in range(24)]


def accesses(rounds: int, programs: list, apart: int, draw: random.Random) -> Iterator:
    """Round, program and page of each access; the pages of two programs are so far apart."""
    for i in range(rounds):
        for task, (pages, power) in enumerate(programs):
            yield i, task, task * apart + int(pages * draw.random() ** power)


def words(each: Iterator) -> np.ndarray:
    """Words of a pageops file: page, program and kind of each access. All are of one file, whose pages are in the order of their first use."""
    places: dict[int, int] = {}
    return np.array([places.setdefault(page, len(places)) << 32 | task << 16 | kind for kind, task, page in each], np.uint64)


def swapped(rounds: int, programs: list, readers: tuple, draw: random.Random) -> np.ndarray:
    """The same of programs that use anonymous memory, which is object 1, but for some that read."""
    places: dict[int, int] = {}

    def word(task: int, place: int) -> int:
        if task in readers:
            return places.setdefault(place, len(places)) << 32 | task << 16 | READ
        return place % 1_000_000 << 32 | task << 16 | 1 << 8 | draw.choice([STORE, LOAD, LOAD, LOAD])

    return np.array([word(task, place) for _, task, place in accesses(rounds, programs, 1_000_000, draw)], np.uint64)


def trace(name: str) -> np.ndarray:
    """The trace of this name, without `short-`."""
    draw = random.Random(1)
    if name in ("swap", "both"):
        programs, readers = (FOUR, ()) if name == "swap" else (BOTH, (1, 3))
        return swapped(30_000, programs, readers, draw)
    if name in ("readers", "mapped"):
        kind = READ if name == "readers" else MAPPED
        return words((kind, t, p) for _, t, p in accesses(30_000, FOUR, 1_000_000, draw))
    if name == "one":
        return words((READ, t, p) for _, t, p in accesses(100_000, [(18_000, 2)], 1_000_000, draw))
    draw = random.Random(7)
    many = words((READ, t, p) for _, t, p in accesses(5_000, MANY, 100_000, draw))
    if name == "many":
        return many
    each = accesses(30_000, FOUR, 1_000_000, draw)
    return words((WRITE if t == 1 and i % 3 == 0 else READ, t, p) for i, t, p in each)


NAMES = ["readers", "mapped", "writer", "many", "one", "swap", "both"]


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for name in NAMES:
        trace(name).tofile(folder / f"short-{name}.pageops")


if __name__ == "__main__":
    main()
