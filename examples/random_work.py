"""Writes the trace of two random programs that use all that a trace can say: every kind of access, fsync, cut files, unmapped memory.

Usage: python3 examples/random_work.py SEED [DIR] [--reads]

`DIR/random-SEED.pageops` has 150,000 accesses and is for a limit of 48 MiB. Kernels have played it with seeds 101 to 105
(docs/validation.md). With `--reads` it is `DIR/random-SEED-reads.pageops`: the same accesses, but files are only read, and
nothing is synced, cut or unmapped. Needs numpy.
"""

import sys
from pathlib import Path

import numpy as np

ACCESSES = 150_000
# Pages of each object: two files that both programs use, and anonymous memory of each.
PAGES = {0: 9_000, 1: 7_000, 2: 6_000, 3: 5_000}
FILES = [0, 1]
KINDS, SHARES = [0, 1, 2, 3, 4, 5, 6], [0.2, 0.2, 0.08, 0.2, 0.15, 0.07, 0.1]
STORE, LOAD = 3, 4
# What a kind of access to a file becomes where files are only read: stores to a mapping are loads, calls that write are reads.
AS_READS = np.array([0, 1, 1, STORE, LOAD, 1, 0], np.uint64)
FSYNC, CUT, UNMAP, VERSION = 32, 34, 36, 42


def trace(seed: int) -> np.ndarray:
    """Words of a pageops file: stretches of accesses, and now and then a step."""
    rng = np.random.default_rng(seed)
    place = rng.permutation(9_000)
    words = [VERSION | 2 << 32]

    def add(kind: int, region: int, task: int, value: int):
        words.append(kind | region << 8 | task << 16 | int(value) << 32)

    def zipf(pages: int, n: int) -> np.ndarray:
        sums = np.cumsum(1 / np.arange(1, pages + 1) ** 0.9)
        return place[np.searchsorted(sums / sums[-1], rng.random(n)).clip(0, pages - 1)] % pages

    done = 0
    while done < ACCESSES:
        task = int(rng.integers(0, 2))
        kind = int(rng.choice(KINDS, p=SHARES))
        region = 2 + task if kind in (STORE, LOAD) else int(rng.choice(FILES))
        pages, n = PAGES[region], int(rng.integers(50, 3_000))
        how = rng.integers(0, 3)
        if how == 0:
            stretch = zipf(pages, n)
        elif how == 1:
            stretch = (rng.integers(0, pages) + np.arange(n)) % pages
        else:
            stretch = rng.integers(0, pages, n)
        for page in stretch:
            add(kind, region, task, page)
        done += n
        step = rng.random()
        if step < 0.03:
            add(FSYNC, int(rng.choice(FILES)), task, 0)
        elif step < 0.04:
            add(CUT, int(rng.choice(FILES)), task, int(rng.integers(2_000, 6_000)))
        elif step < 0.05:
            add(UNMAP, 2 + task, task, 0)
    return np.array(words, np.uint64)


def only_reads(words: np.ndarray) -> np.ndarray:
    """The same words without steps and with accesses to files that read."""
    kind = words[1:] & np.uint64(255)
    access = words[1:][kind < FSYNC]
    kind = kind[kind < FSYNC]
    return np.concatenate([words[:1], access - kind + AS_READS[kind]])


def main():
    reads = "--reads" in sys.argv
    seed, *rest = [a for a in sys.argv[1:] if a != "--reads"]
    folder = Path(rest[0] if rest else ".")
    words = trace(int(seed))
    if reads:
        words = only_reads(words)
    words.tofile(folder / f"random-{seed}{'-reads' if reads else ''}.pageops")


if __name__ == "__main__":
    main()
