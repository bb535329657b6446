"""How far a sweep is."""

from __future__ import annotations

from dataclasses import dataclass

from .._coldset import LabCell, LabClaim, LabStore
from ._progress import Progress
from ._worker import Answer

#: Finished cells after which small files are put together.
_MERGE_EVERY = 1000


@dataclass(frozen=True)
class Failed:
    """A cell without a result."""

    #: The cell in one line.
    cell: str
    #: Its key.
    key: str
    #: Why.
    reason: str
    #: Its worker was killed, which need not be its fault.
    killed: bool = False


class Tally:
    """What is done, what is to do."""

    def __init__(self, store: LabStore, cells: list[LabCell], bar: Progress) -> None:
        distinct = {cell.key: cell for cell in cells}
        there = store.keys()
        self.store = store
        #: Different cells.
        self.cells = len(distinct)
        #: Those without a result at the beginning.
        self.todo = [cell for key, cell in distinct.items() if key not in there]
        #: Computed by this sweep.
        self.computed = 0
        #: Computed before, or by another sweep meanwhile.
        self.found = self.cells - len(self.todo)
        #: Those that gave no result.
        self.failed: list[Failed] = []
        self._bar = bar
        self._show()

    @property
    def finished(self) -> int:
        """Cells with a result."""
        return self.computed + self.found

    def show(self, done: int) -> None:
        """Shows that this many cells are done with."""
        self._bar.set(done, self.cells)

    def _show(self) -> None:
        self.show(self.finished + len(self.failed))

    def note(self, cell: LabCell, answer: Answer) -> None:
        """What a worker said that had the folder."""
        what, why = answer
        if what == "failed":
            self.failed_because(cell, why)
            return
        if what == "computed":
            self.computed += 1
            if self.computed % _MERGE_EVERY == 0:
                self.store.merge()
        else:
            self.found += 1
        self._show()

    def append(self, cell: LabCell, claim: LabClaim, row: str) -> None:
        """Stores what a worker sent."""
        self.store.append(claim, row)
        claim.release()
        self.note(cell, ("computed", ""))

    def failed_because(self, cell: LabCell, reason: str, *, killed: bool = False) -> None:
        """A cell has no result."""
        self.failed.append(Failed(cell.describe(), cell.key, reason, killed))
        self._show()
