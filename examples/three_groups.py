"""Writes traces of three programs with a file each, all at once: one reads by a zipf distribution, one anywhere, one in order.

Usage: python3 examples/three_groups.py [DIR]

`DIR/groups-read.pageops` reads by pread, `DIR/groups-mapped.pageops` through mappings. Kernels have played both, each program in a memory
cgroup of its own below a limit (docs/validation.md). Needs numpy.
"""

import sys
from pathlib import Path

import numpy as np

ACCESSES = 400_000
# Pages of each file; together three times the 64 MiB of the limit.
PAGES = {"zipf": 16_000, "anywhere": 12_000, "in order": 20_000}
MAPPED, PREAD = 0, 1


def zipf(rng: np.random.Generator, pages: int, n: int) -> np.ndarray:
    sums = np.cumsum(1 / np.arange(1, pages + 1) ** 0.9)
    place = rng.permutation(pages)
    rank = np.searchsorted(sums / sums[-1], rng.random(n)).clip(0, pages - 1)
    return place[rank]


def trace(kind: int, seed: int) -> np.ndarray:
    """Words of a pageops file: page, task and kind of each access. Which program is next is drawn."""
    rng = np.random.default_rng(seed)
    task = rng.integers(0, len(PAGES), ACCESSES)
    words = np.zeros(ACCESSES, np.uint64)
    first = 0
    for number, (how, pages) in enumerate(PAGES.items()):
        at = np.nonzero(task == number)[0]
        if how == "zipf":
            page = zipf(rng, pages, len(at))
        elif how == "anywhere":
            page = rng.integers(0, pages, len(at))
        else:
            page = np.arange(len(at)) % pages
        words[at] = (page + first).astype(np.uint64) << np.uint64(32) | np.uint64(number << 16 | kind)
        first += pages
    return words


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    trace(PREAD, 5).tofile(folder / "groups-read.pageops")
    trace(MAPPED, 6).tofile(folder / "groups-mapped.pageops")


if __name__ == "__main__":
    main()
