"""Policies written in Python."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import coldset
import coldset.lab as lab
import pytest

pytest.importorskip("pandas")
TRACE = Path(__file__).resolve().parents[2] / "data/sqlite.pageops.zst"
SIZES = ["2%", "10%", "40%"]


class Lru(lab.Policy):
    def __init__(self, frames: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def insert(self, page: int) -> None:
        self.order[page] = None

    def hit(self, page: int) -> None:
        self.order.move_to_end(page)

    def evict(self) -> int:
        return self.order.popitem(last=False)[0]


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
    fails("replay cannot run Lru", lambda: lab.replay([1, 2], memory=1, variants=[Lru]))
