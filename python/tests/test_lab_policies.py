"""Policies written in Python."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import coldset
import coldset.lab as lab
import numpy as np
import pytest
from coldset.lab._trace import RECORD
from policies import Lru, MachineFifo, MachineLru, MachineSieve

pytest.importorskip("pandas")
TRACE = Path(__file__).resolve().parents[2] / "data/sqlite.pageops.zst"
SIZES = ["2%", "10%", "40%"]


class Fifo(Lru):
    def hit(self, page: int) -> None:
        pass


class Wrong(Lru):
    """Forgets one use in a thousand."""

    uses = 0

    def hit(self, page: int) -> None:
        self.uses += 1
        if self.uses % 1000:
            super().hit(page)


def misses(result: lab.Result) -> dict[str, list[int]]:
    table = result.curves
    return {name: [int(n) for n in part["misses"]] for name, part in table.groupby("policy")}


def test_they_miss_what_the_engine_misses() -> None:
    for count in ("reads", "absences"):
        result = lab.mrc(TRACE, policies=["lru", "fifo", Lru, Fifo, Wrong], sizes=SIZES, count=count)
        found = misses(result)
        assert result.variants == ["lru", "fifo", "Lru", "Fifo", "Wrong"]
        assert found["Lru"] == found["lru"] and found["Fifo"] == found["fifo"]
        assert found["Wrong"] != found["lru"]
        assert "Fifo" in repr(result) and len(result.charts) == 1


class Removing(Lru):
    def remove(self, page: int) -> None:
        del self.order[page]


def test_memory_that_was_given_back_takes_no_place(tmp_path: Path) -> None:
    # Kinds 3 and 4 are stores to anonymous memory and loads from it, 36 unmaps it.
    store, load = ([(kind, 0, 0, page) for page in range(30)] for kind in (3, 4))
    records = [(42, 0, 0, 2), *[*store, *load, (36, 0, 0, 0)] * 5]
    path = tmp_path / "rounds.pageops"
    np.array(records, RECORD).tofile(path)
    policies = ["lru", "fifo", "opt", Lru, Removing, Fifo]
    for count, expected in (("reads", [150, 0, 0]), ("absences", [300, 150, 150])):
        result = lab.mrc(path, policies=policies, sizes=[29, 30, 40], count=count)
        found = misses(result)
        for name in ("lru", "fifo", "Removing", "Lru", "Fifo"):
            assert found[name] == expected, (count, name)
        assert found["opt"][1:] == expected[1:]


def test_alone_it_stands_beside_lru() -> None:
    result = lab.mrc([1, 2, 3] * 10, policies=Fifo, sizes=2, count="absences")
    assert misses(result) == {"lru": [30], "Fifo": [30]}


class Raises(Lru):
    def hit(self, page: int) -> None:
        raise KeyError(page)


class Careless(Lru):
    def evict(self) -> int:
        return 10**9


class Words(Lru):
    def evict(self) -> int:
        return "the oldest"  # type: ignore[return-value]


class Broken(Lru):
    def __init__(self, frames: int) -> None:
        raise RuntimeError("no room")


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Raises, r"Raises\.hit raised KeyError: 0 \(memory of 2 pages, at reference 2\)"),
        (Careless, r"Careless\.evict returned 1000000000, which is not a page in memory"),
        (Words, r"Words\.evict returned 'the oldest', which is not a page in memory"),
        (Broken, r"Broken\.__init__ raised RuntimeError: no room"),
    ],
)
def test_mistakes_are_named(policy: type, text: str) -> None:
    with pytest.raises(coldset.PolicyError, match=text):
        lab.mrc([1, 2, 1, 3], policies=policy, sizes=2)


def test_what_cannot_run_is_refused() -> None:
    class Nothing:
        def insert(self, page: int) -> None: ...

    def fails(text: str, call: Any) -> None:
        with pytest.raises(coldset.SettingError, match=text):
            call()

    fails("Nothing has no method hit", lambda: lab.mrc([1, 2], policies=Nothing))
    fails("two policies are called 'Lru'", lambda: lab.mrc([1, 2], policies=[Lru, Lru]))
    fails("takes all pages", lambda: lab.mrc([1, 2], policies=Lru, sample=0.1))
    fails("convert the trace first .*leave out columns", lambda: lab.replay("t.csv", variants=Lru, columns=["page"]))
    fails("Lru is written in Python; for it leave out device", lambda: lab.replay([1], variants=Lru, device="hdd"))
    fails("Nothing has no method hit", lambda: lab.replay([1, 2], variants=["v5", Nothing]))
    fails("variant 'lru' is listed twice|two policies are called 'lru'", lambda: lab.replay([1], variants=["lru", rename(Lru, "lru")]))


def rename(policy: type, name: str) -> type:
    return type(name, (policy,), {})


# On the machine: the policies of the engine again, with all that they are told.


class Hasty(MachineSieve):
    """Takes a page that was used, now and then."""

    asked = 0

    def evict(self) -> int:
        self.asked += 1
        if self.asked % 20 == 0:
            self.visited.discard(self.hand if self.hand is not None else self.pages[0])
        return super().evict()


TWINS = {"fifo": MachineFifo, "lru": MachineLru, "sieve": MachineSieve}

PREAD, MAPPED, PWRITE, STORE, LOAD, WHOLE = 1, 0, 2, 3, 4, 5
FSYNC, TRUNCATE, UNMAP, VERSION = 32, 34, 36, 42


def random_trace(path: Path, seed: int) -> None:
    """Reads, writes and mappings of two files, loads and stores of anonymous memory, cuts and unmaps."""
    rng = np.random.default_rng(seed)
    size = 6000
    out = np.zeros(size, RECORD)
    kinds = rng.choice([PREAD, PREAD, MAPPED, PWRITE, STORE, LOAD, WHOLE], size)
    anon = (kinds == STORE) | (kinds == LOAD)
    out["kind"] = kinds
    out["object"] = rng.integers(0, 2, size) + 2 * anon
    most = int(rng.integers(200, 600))
    pages = rng.integers(0, most, size) * rng.integers(0, most, size) // most
    out["page"] = np.where(anon & (seed % 3 == 1), pages % 25, pages)
    out["task"] = rng.integers(0, 1 + seed % 2, size)
    for at in rng.choice(size, 8, replace=False)[: seed % 9]:
        step, of_anon = [(FSYNC, 0), (TRUNCATE, 0), (UNMAP, 2)][rng.integers(3)]
        out[at] = (step, rng.integers(2) + of_anon, 0, rng.integers(50) if step == TRUNCATE else 0)
    first = np.array([(VERSION, 0, 0, 2)], RECORD)
    path.write_bytes(first.tobytes() + out.tobytes())


def counters(result: lab.Result) -> dict[str, list[Any]]:
    frame = result.frame()
    return {
        name: list(zip(part["memory_pages"] if "memory_pages" in part else part["memory"], part["counter"], part["value"]))
        for name, part in frame.groupby("variant")
    }


@pytest.mark.parametrize("seed", range(6))
def test_on_the_machine_every_counter_is_the_engines(tmp_path: Path, seed: int) -> None:
    trace = tmp_path / "random.pageops"
    random_trace(trace, seed)
    twins = [v for pair in TWINS.items() for v in pair]
    swap = {"swap": ["zram:100%", "none", "nvme:100%"][seed % 3]}
    result = lab.replay(trace, memory=[160, 300, 2000], variants=[*twins, Hasty], swappiness=20 * seed, **swap)
    found = counters(result)
    assert len(found["fifo"]) > 200 and not [c for c in found["fifo"] if c[1] == "killed_after" and c[2] > 0]
    for name, twin in TWINS.items():
        assert found[twin.__name__] == found[name]
    assert found["Hasty"] != found["sieve"]
    assert len({str(found[name]) for name in TWINS}) == 3
    assert result.variants == [*(v if isinstance(v, str) else v.__name__ for v in twins), "Hasty"]


def test_the_recorded_session_too() -> None:
    twins = [v for pair in TWINS.items() for v in pair]
    found = counters(lab.replay(TRACE, memory=["10%", "40%"], variants=["v618", *twins]))
    for name, twin in TWINS.items():
        assert found[twin.__name__] == found[name] != found["v618"]


def test_three_methods_are_enough(tmp_path: Path) -> None:
    """Without `remove`, `put_back` and `due` nothing fails, and where nothing is cut or written it makes no difference."""
    trace = tmp_path / "random.pageops"
    random_trace(trace, 8)
    result = lab.replay(trace, memory=[160], variants=[Lru, Fifo, "lru"], swap="zram:100%")
    assert {str(c) for c in counters(result)} == {"Lru", "Fifo", "lru", "(bounds)"}
    pages = np.random.default_rng(1).zipf(1.2, 20_000) % 3_000
    found = counters(lab.replay(pages, memory=["20%"], variants=["lru", MachineLru, Lru]))
    time = lambda name: [c for c in found[name] if c[1] in ("time_ns", "cpu_ns", "lru_lock_acq")]  # noqa: E731
    rest = lambda name: [c for c in found[name] if c not in time(name)]  # noqa: E731
    assert rest("Lru") == rest("lru") and found["MachineLru"] == found["lru"]
    assert time("Lru") != time("lru"), "hits_move"


def test_misses_are_those_of_mrc_where_both_evict_the_same() -> None:
    """A machine evicts batches of 32. In a circle, and where all fits, that is no matter."""
    circle = np.arange(6_000) % 1_000
    alone = misses(lab.mrc(circle, policies=[Lru, "fifo"], sizes=[500, 1_000]))
    result = lab.replay(circle, memory=[500, 1_000], variants=[Lru], kernel_memory=False)
    on_machine = [value for _, name, value in counters(result)["Lru"] if name == "misses"]
    assert on_machine == alone["Lru"] == [6_000, 1_000]


def test_pages_have_the_numbers_of_their_first_use() -> None:
    class Watches(Lru):
        order_of_insertion: list[int] = []

        def insert(self, page: int) -> None:
            self.order_of_insertion.append(page)
            super().insert(page)

    array = np.random.default_rng(2).permutation(5_000)[:200]
    for anon in (False, True):
        Watches.order_of_insertion.clear()
        lab.replay(array, memory=[128], variants=Watches, anon=anon, writes=anon)
        # Those that are put back come in again.
        inserted = list(dict.fromkeys(Watches.order_of_insertion))
        assert inserted == list(range(len(inserted))) and len(inserted) > 150


class NoPage(Lru):
    def evict(self) -> int:
        return None  # type: ignore[return-value]


class Huge(Lru):
    def evict(self) -> int:
        return 10**30


class Leaves(Lru):
    def evict(self) -> int:
        raise SystemExit(7)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Raises, r"^Raises\.hit raised KeyError: 1 \(memory of 200 pages, at access \d+\)$"),
        (Careless, r"^Careless\.evict returned 1000000000, which is not a page in memory \(memory of 200 pages, at access"),
        (Words, r"^Words\.evict returned 'the oldest', which is not a page in memory"),
        (NoPage, r"^NoPage\.evict returned None, which is not a page in memory"),
        (Huge, r"^Huge\.evict returned 1000000000000000000000000000000, which is not a page in memory"),
        (Broken, r"^Broken\.__init__ raised RuntimeError: no room"),
    ],
)
def test_mistakes_end_a_replay(policy: type, text: str) -> None:
    pages = [3, 1, 2, 1, *range(4, 500)]
    with pytest.raises(coldset.PolicyError, match=text) as caught:
        lab.replay(pages, memory=[200], variants=["fifo", policy, "v5"])
    cause = caught.value.__cause__
    assert (type(cause) is KeyError) == (policy is Raises)
    # The next one is not the worse for it.
    assert lab.replay(pages, memory=[200], variants=[Lru]).variants == ["Lru"]


def test_what_is_no_error_of_a_policy_passes() -> None:
    with pytest.raises(SystemExit):
        lab.replay(range(500), memory=[200], variants=[Leaves])


def test_nothing_is_kept() -> None:
    """A policy goes with its replay."""
    made: list[weakref.ref[Lru]] = []

    class Kept(Lru):
        def __init__(self, frames: int) -> None:
            super().__init__(frames)
            assert frames == 200
            made.append(weakref.ref(self))

    result = lab.replay(np.arange(500), memory=[200], variants=[Kept])
    assert made and all(policy() is None for policy in made)
    assert result.variants == ["Kept"]
