"""Policies written in Python that are those of the engine."""

from __future__ import annotations

from collections import OrderedDict

import coldset.lab as lab


class Lru(lab.Policy):
    def __init__(self, frames: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def insert(self, page: int) -> None:
        self.order[page] = None

    def hit(self, page: int) -> None:
        self.order.move_to_end(page)

    def evict(self) -> int:
        return self.order.popitem(last=False)[0]


class MachineFifo(lab.Policy):
    """Does not look at uses, and takes files first, as `fifo`."""

    files_first = True

    def __init__(self, frames: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def insert(self, page: int) -> None:
        assert page not in self.order
        self.order[page] = None

    def evict(self) -> int:
        return self.order.popitem(last=False)[0]

    def remove(self, page: int) -> None:
        del self.order[page]

    def due(self, page: int) -> None:
        self.order[page] = None
        self.order.move_to_end(page, last=False)


class MachineLru(MachineFifo):
    hits_move, files_first = True, False

    def hit(self, page: int) -> None:
        self.order.move_to_end(page)

    def put_back(self, page: int, used: bool) -> None:
        self.order[page] = None


class MachineSieve(lab.Policy):
    def __init__(self, frames: int) -> None:
        self.pages: list[int] = []
        self.visited: set[int] = set()
        self.hand: int | None = None

    def insert(self, page: int) -> None:
        self.pages.append(page)

    def hit(self, page: int) -> None:
        self.visited.add(page)

    def remove(self, page: int) -> None:
        at = self.pages.index(page)
        if self.hand == page:
            self.hand = self.pages[at + 1] if at + 1 < len(self.pages) else None
        self.pages.remove(page)
        self.visited.discard(page)

    def evict(self) -> int:
        at = 0 if self.hand is None else self.pages.index(self.hand)
        while self.pages[at] in self.visited:
            self.visited.remove(self.pages[at])
            at = (at + 1) % len(self.pages)
        page = self.pages.pop(at)
        self.hand = self.pages[at] if at < len(self.pages) else None
        return page

    def put_back(self, page: int, used: bool) -> None:
        if self.hand is None:
            self.pages.append(page)
        else:
            self.pages.insert(self.pages.index(self.hand), page)

    def due(self, page: int) -> None:
        if self.hand is None:
            self.pages.insert(0, page)
        else:
            self.pages.insert(self.pages.index(self.hand), page)
            self.hand = page
