"""Writes traces of six kinds of work that no other trace of this repository is like.

Usage: python3 examples/kinds_of_work.py [DIR]

Kernels have played them (docs/validation.md). Each trace has 300,000 accesses and is for a limit of 64 MiB, 16,384 pages. Needs numpy.

  shared   two programs that share a file, each with a file of its own beside it
  swapped  two programs with anonymous memory, one of them for --low, and one that reads a file in order
  written  one program reads, another writes a file in order, and single bytes of a second one
  mixed    one program: stores to a mapped file and to anonymous memory, loads of both, and a scan
  phases   one program whose working set moves on, four times
  sparse   one program with a table most of which is read and was never stored to, and a file
"""

import sys
from pathlib import Path

import numpy as np

ACCESSES = 300_000
LOAD_MAPPED, PREAD, PWRITE, STORE, LOAD, WRITE_PAGE, STORE_MAPPED = range(7)


def words(page: np.ndarray, task: int, region: int, kind: int) -> np.ndarray:
    """Words of a pageops file."""
    return page.astype(np.uint64) << np.uint64(32) | np.uint64(task << 16 | region << 8 | kind)


def zipf(rng: np.random.Generator, pages: int, n: int, exponent: float) -> np.ndarray:
    sums = np.cumsum(1 / np.arange(1, pages + 1) ** exponent)
    place = rng.permutation(pages)
    return place[np.searchsorted(sums / sums[-1], rng.random(n)).clip(0, pages - 1)]


def merged(parts: list, who: np.ndarray) -> np.ndarray:
    """One trace of several streams. `who`: which of them is next, access by access."""
    out = np.zeros(len(who), np.uint64)
    for number, part in enumerate(parts):
        at = np.nonzero(who == number)[0]
        out[at] = part(len(at))
    return out


class Streams:
    """Streams of accesses, all drawn from one generator."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.parts: list = []
        self.weights: list[int] = []

    def add(self, weight: int, task: int, region: int, kind: int, pages) -> "Streams":
        self.parts.append(lambda n: words(pages(n), task, region, kind))
        self.weights.append(weight)
        return self

    def zipf(self, pages: int, exponent: float = 0.9):
        return lambda n: zipf(self.rng, pages, n, exponent)

    def anywhere(self, pages: int):
        return lambda n: self.rng.integers(0, pages, n)

    def trace(self) -> np.ndarray:
        shares = np.array(self.weights) / sum(self.weights)
        return merged(self.parts, self.rng.choice(len(self.parts), ACCESSES, p=shares))


def in_order(pages: int):
    return lambda n: np.arange(n) % pages


def shared() -> np.ndarray:
    s = Streams(11)
    s.add(1, 0, 0, PREAD, s.zipf(12_000, 0.8)).add(1, 1, 0, PREAD, s.zipf(12_000, 0.8))
    return s.add(1, 0, 1, PREAD, s.anywhere(8_000)).add(1, 1, 2, PREAD, in_order(8_000)).trace()


def swapped() -> np.ndarray:
    s = Streams(12)
    s.add(1, 0, 0, STORE, s.zipf(10_000)).add(1, 1, 1, STORE, s.anywhere(8_000))
    return s.add(1, 2, 2, PREAD, in_order(12_000)).trace()


def written() -> np.ndarray:
    s = Streams(13)
    s.add(2, 0, 0, PREAD, s.zipf(14_000)).add(1, 1, 1, WRITE_PAGE, in_order(40_000))
    return s.add(1, 1, 2, PWRITE, s.zipf(9_000)).trace()


def mixed() -> np.ndarray:
    s = Streams(14)
    s.add(1, 0, 0, STORE_MAPPED, s.zipf(14_000)).add(2, 0, 1, STORE, s.zipf(10_000))
    return s.add(1, 0, 2, PREAD, in_order(30_000)).add(1, 0, 0, LOAD_MAPPED, s.zipf(14_000)).trace()


def phases() -> np.ndarray:
    rng = np.random.default_rng(15)
    out = []
    for phase in range(4):
        parts = [
            lambda n, p=phase: words(zipf(rng, 12_000, n, 1.0) + 6_000 * p, 0, 0, LOAD_MAPPED),
            lambda n, p=phase: words(zipf(rng, 9_000, n, 0.9) + 4_000 * p, 0, 1, PREAD),
            lambda n, p=phase: words(rng.integers(0, 6_000, n) + 3_000 * p, 0, 2, STORE),
        ]
        out.append(merged(parts, rng.integers(0, len(parts), ACCESSES // 4)))
    return np.concatenate(out)


def sparse() -> np.ndarray:
    s = Streams(16)
    table = s.rng.permutation(60_000)
    stored = s.zipf(9_000)
    s.add(2, 0, 0, LOAD, s.anywhere(60_000)).add(1, 0, 0, STORE, lambda n: table[stored(n)])
    return s.add(1, 0, 1, PREAD, in_order(20_000)).add(1, 0, 0, LOAD, lambda n: table[stored(n)]).trace()


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for kind in (shared, swapped, written, mixed, phases, sparse):
        kind().tofile(folder / f"{kind.__name__}.pageops")


if __name__ == "__main__":
    main()
