"""Policies written in Python that decide for a pool in explicit mode."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coldset
import coldset.lab as lab
import numpy as np
import pytest
from policies import Lru, MachineFifo, MachineLru, MachineSieve

MIB = 1 << 20
PAGE = 4096
TWINS = {"fifo": MachineFifo, "lru": MachineLru, "sieve": MachineSieve}


def explicit(policy: Any, budget: int = MIB, **settings: Any) -> coldset.Pool:
    given = {"swap": "lz4:64MiB", "fault_mode": "explicit", "background": False, "read_ahead": 1, **settings}
    return coldset.Pool(budget, policy=policy, **given)


def steps(seed: int, length: int, pages: int) -> list[tuple[int, int, bool]]:
    """Regions, pages, and whether they are written."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, pages, length) * rng.integers(0, pages, length) // pages
    # A scan now and then.
    scan = rng.integers(0, length // 100, length) == 0
    numbers = np.where(np.convolve(scan, np.ones(60), "same") > 0, np.arange(length) % pages, numbers)
    return list(zip(rng.integers(0, 2, length).tolist(), numbers.tolist(), (rng.integers(0, 3, length) == 0).tolist()))


def run(pool: coldset.Pool, file: Path, of: list[tuple[int, int, bool]], pages: int) -> tuple[list[int], dict[str, Any]]:
    """Numbers of the steps that missed. Contents are compared with what is known outside."""
    regions = [pool.region(pages * PAGE), pool.file_region(file, "w+", pages * PAGE)]
    truth = [[0] * pages, [0] * pages]
    missed, before = [], 0
    for at, (which, page, write) in enumerate(of):
        with regions[which].fix(page, write) as view:
            assert int.from_bytes(view[:4], "little") == truth[which][page]
            if write:
                truth[which][page] = at
                view[:4] = at.to_bytes(4, "little")
        now = pool.stats()["misses"]
        if now != before:
            missed.append(at)
        before = now
    stats = dict(pool.stats())
    regions[1].close()
    contents = np.fromfile(file, "<u4").reshape(pages, -1)[:, 0].tolist()
    assert contents == truth[1]
    return missed, stats


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("seed", [1, 2])
def test_miss_for_miss_as_the_engines(tmp_path: Path, name: str, seed: int) -> None:
    """What a file's dirty pages do depends on when the flusher comes, also from run to run of `lru`: it has none here."""
    of, pages = steps(seed, 15_000, 600), 600
    of = [(which, page, write and which == 0) for which, page, write in of]
    built_in, s = run(explicit(name), tmp_path / "a", of, pages)
    own, t = run(explicit(TWINS[name]), tmp_path / "b", of, pages)
    assert own == built_in and len(own) > 2 * pages
    assert [s[k] for k in ("misses", "evicted", "swapped_out")] == [t[k] for k in ("misses", "evicted", "swapped_out")]


@pytest.mark.parametrize("policy", [Lru, *TWINS.values()])
def test_contents_survive_also_in_files(tmp_path: Path, policy: type) -> None:
    missed, s = run(explicit(policy, background=None, read_ahead=None), tmp_path / "a", steps(3, 12_000, 600), 600)
    assert s["evicted"] > 2_000 and s["resident_bytes"] <= MIB


def test_misses_are_those_of_a_replay_where_both_evict_the_same(tmp_path: Path) -> None:
    """In a circle, and where all fits. Elsewhere batches and what counts to the limit differ."""
    for pages, most in ((200, 256), (500, 256)):
        circle = np.arange(5_000) % pages
        missed, _ = run(explicit(Lru), tmp_path / "a", [(1, int(p), False) for p in circle], pages)
        replay = lab.replay(circle, memory=[most], variants=[Lru], kernel_memory=False)
        frame = replay.frame()
        found = frame[(frame["variant"] == "Lru") & (frame["counter"] == "misses")]["value"]
        assert [len(missed)] == list(found) == [pages if pages < most else 5_000]


def test_pages_have_the_numbers_of_their_first_use() -> None:
    class Watches(Lru):
        seen: list[int] = []

        def insert(self, page: int) -> None:
            self.seen.append(page)
            super().insert(page)

    region = explicit(Watches).region(4 * MIB)
    for page in np.random.default_rng(2).permutation(region.pages).tolist():
        with region.fix(page):
            pass
    first = list(dict.fromkeys(Watches.seen))
    assert first == list(range(len(first))) and len(first) > region.pages - 200


class Raises(Lru):
    """Fails once in a while, if it is told to."""

    fails = True

    def evict(self) -> int:
        if Raises.fails:
            raise KeyError("the oldest")
        return super().evict()


class Careless(Lru):
    def evict(self) -> int:
        return 10**9


class Nobody(Lru):
    def evict(self) -> None:  # type: ignore[override]
        pass


class Twice(Lru):
    """Names a page again that has gone."""

    def evict(self) -> int:
        self.last = getattr(self, "last", 0) or super().evict() or super().evict()
        return self.last


class Broken(Lru):
    def __init__(self, frames: int) -> None:
        raise RuntimeError(f"no room for {frames}")


class Leaves(Lru):
    def evict(self) -> int:
        raise SystemExit(7)


@pytest.mark.parametrize(
    ("policy", "error", "text"),
    [
        (Raises, coldset.PolicyError, r"^Raises\.evict raised KeyError: 'the oldest' \(memory of 256 pages, at miss \d+\)$"),
        (Careless, coldset.PolicyError, r"^Careless\.evict returned 1000000000, which is not a page in memory"),
        (Nobody, coldset.PolicyError, r"^Nobody\.evict returned None, which is not a page in memory"),
        (Twice, coldset.PolicyError, r"^Twice\.evict returned 1, which is not a page in memory"),
        (Broken, coldset.PolicyError, r"^Broken\.__init__ raised RuntimeError: no room for 256"),
        (Leaves, SystemExit, "7"),
    ],
)
@pytest.mark.parametrize("read_ahead", [1, 32])
def test_mistakes_are_errors_of_the_fix_and_the_pool_goes_on(
    policy: type, error: type, text: str, read_ahead: int
) -> None:
    pool = explicit(policy, read_ahead=read_ahead)
    region = pool.region(4 * MIB)
    failed = []
    for page in range(region.pages):
        try:
            with region.fix(page, write=True) as view:
                view[:4] = page.to_bytes(4, "little")
        except error as e:
            failed.append((page, e))
    assert len(failed) == 1, "once"
    with pytest.raises(error, match=text):
        raise failed[0][1]
    for page in range(region.pages):
        with region.fix(page) as view:
            assert int.from_bytes(view[:4], "little") == (0 if page == failed[0][0] else page)


def test_fixed_pages_that_it_names_come_back_to_it(tmp_path: Path) -> None:
    class Newest(Lru):
        returned = 0

        def evict(self) -> int:
            return self.order.popitem()[0]

        def put_back(self, page: int, used: bool) -> None:
            Newest.returned += 1
            self.insert(page)

    region = explicit(Newest).region(4 * MIB)
    with region.fix(255, write=True) as view:
        view[0] = 7
        for page in range(250):
            with region.fix(page):
                pass
        for page in range(300, 900):
            with region.fix(page):
                pass
        assert view[0] == 7
    assert Newest.returned > 0
    # Where all are fixed, one error says so.
    blocks = [region.fix(page) for page in range(region.pages)]
    with pytest.raises(coldset.OutOfMemory, match="everything in it is pinned"):
        for block in blocks:
            block.__enter__()
    del block, blocks


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    def fails(text: str, **settings: Any) -> None:
        with pytest.raises(coldset.Error, match=text):
            explicit(**{"policy": Lru, **settings})

    fails('decides in explicit mode only; add fault_mode="explicit"', fault_mode=None)
    fails('add fault_mode="explicit"', fault_mode="thread")
    fails("give a name, or the class itself.*policy=Lru$", policy=Lru(3))
    fails("no method insert", policy=int)
    fails("keeps no journal", journal=tmp_path / "journal")
    fails("leave out shrink_under_pressure", shrink_under_pressure=True)
    fails("has 'hitt', which nobody calls; did you mean 'hit'", policy=type("P", (lab.Policy,), {"hitt": print}))
    with pytest.raises(coldset.Error, match="keeps no journal"):
        explicit(Lru).record(tmp_path / "journal")


def test_a_method_cannot_use_a_pool() -> None:
    class Greedy(Lru):
        calls: list[Callable[[], Any]] = []
        told: list[str] = []

        def evict(self) -> int:
            for call in self.calls:
                try:
                    call()
                except coldset.Error as e:
                    self.told.append(str(e))
            self.calls.clear()
            return super().evict()

    pool = explicit(Greedy)
    region, other = pool.region(4 * MIB), explicit("lru").region(MIB)
    Greedy.calls += [
        lambda: region.fix(900).__enter__(),
        lambda: pool.resize(2 * MIB),
        lambda: pool.region(PAGE),
        lambda: pool.reclaim(PAGE),
        lambda: other.fix(3).__enter__(),
        pool.sync,
    ]
    for page in range(600):
        with region.fix(page):
            pass
    assert len(Greedy.told) == 6 and set(Greedy.told) == {"the methods of a policy cannot use a pool: it waits for them"}


def test_a_region_may_go_while_a_method_runs() -> None:
    """The garbage collector runs when it likes, also in a method, and a region that goes waits for its pages."""

    class Collects(Lru):
        asked = 0

        def evict(self) -> int:
            self.asked += 1
            if self.asked % 20 == 0:
                gc.collect()
            return super().evict()

    pool = explicit(Collects)
    region = pool.region(4 * MIB)
    gone = []
    gc.disable()
    # Only what is made from here on is looked through: the libraries that are loaded would take most of the time.
    gc.freeze()
    try:
        for at in range(60):
            lost = pool.region(PAGE * 40)
            for page in range(40):
                with lost.fix(page, write=True) as view:
                    view[0] = 1
            gone.append(weakref.ref(lost))
            lost.self = lost  # type: ignore[attr-defined]
            del lost
            for page in range(at * 10, at * 10 + 40):
                with region.fix(page):
                    pass
    finally:
        gc.enable()
        gc.unfreeze()
    gc.collect()
    assert all(ref() is None for ref in gone)


def test_a_policy_goes_with_its_pool() -> None:
    made: list[weakref.ref[Any]] = []

    class Kept(Lru):
        def __init__(self, frames: int) -> None:
            super().__init__(frames)
            made.append(weakref.ref(self))

    pool = explicit(Kept)
    region = pool.region(2 * MIB)
    for page in range(region.pages):
        with region.fix(page):
            pass
    assert len(made) == 1 and made[0]() is not None
    del pool, region, page
    gc.collect()
    assert made[0]() is None


THREADS = """
import sys, threading, time, random
sys.path.insert(0, {tests!r})
sys.setswitchinterval(1e-5)
import coldset
from policies import Lru
MIB = 1 << 20

class Slow(Lru):
    def evict(self):
        time.sleep(0)             # lets another thread have the GIL
        return super().evict()

pool = coldset.Pool(MIB, swap="lz4:64MiB", policy=Slow, fault_mode="explicit")
shared = pool.region(3 * MIB)
locks = [threading.Lock() for _ in range(shared.pages)]
truth = [0] * shared.pages
end = time.monotonic() + {seconds}
done = [0] * 6

def work(n):
    rng = random.Random(n)
    own = pool.region(MIB)
    while time.monotonic() < end:
        page = rng.randrange(shared.pages)
        with locks[page]:
            with shared.fix(page, write=True) as view:
                assert int.from_bytes(view[:8], "little") == truth[page]
                truth[page] += 1
                view[:8] = truth[page].to_bytes(8, "little")
        with own.fix(rng.randrange(own.pages), write=True) as view:
            view[0] = 1
        if rng.random() < 0.01:
            own.close()
            own = pool.region(MIB)
        if rng.random() < 0.01:
            pool.reclaim(65536), pool.stats(), pool.budget, pool.usage
        if rng.random() < 0.01:
            pool.resize(MIB + rng.randrange(MIB))
        done[n] += 1

threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
for t in threads: t.start()
for t in threads: t.join()
assert min(done) > 20, done
print("evicted", pool.stats()["evicted"], done)
"""


def test_threads_and_the_gil_never_wait_for_each_other() -> None:
    """A thread with the GIL that waited for a lock of the pool, while its holder waits for the GIL, would hang."""
    program = THREADS.format(tests=str(Path(__file__).parent), seconds=4)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) > 1_000


class Inserts(Lru):
    """Has no `put_back`: what it gave up comes back by other methods."""

    wrong = ""

    def insert(self, page: int) -> None:
        if Inserts.wrong == "insert":
            raise IndexError("mine")
        super().insert(page)

    def hit(self, page: int) -> None:
        if Inserts.wrong == "hit":
            raise IndexError("mine")
        super().hit(page)


@pytest.mark.parametrize("method", ["insert", "hit"])
def test_the_method_that_raised_is_named(method: str) -> None:
    from coldset.lab._outside import _PUT_BACK, _PUT_BACK_USED, Maker

    Inserts.wrong = ""
    made = Maker(Inserts).make(10)
    made.tell(0, [0, 7])
    for word in (_PUT_BACK, _PUT_BACK_USED) if method == "insert" else (_PUT_BACK_USED,):
        Inserts.wrong = method
        with pytest.raises(coldset.PolicyError, match=rf"^Inserts\.{method} raised IndexError: mine"):
            made.tell(1, [word, 7])
        # And no other one after it.
        Inserts.wrong = "hit"
        with pytest.raises(coldset.PolicyError, match=r"^Inserts\.hit raised"):
            made.tell(2, [1, 7])
