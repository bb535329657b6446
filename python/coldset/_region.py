"""Regions: memory and files used page by page, without page faults."""

from __future__ import annotations

import operator
import threading
import weakref
from types import TracebackType
from typing import Any, SupportsIndex

import numpy as np

from ._coldset import PAGE_SIZE, Fix, Pages
from ._errors import ClosedError, Error, ForkedError, SettingError


class _Mine(threading.local):
    """Pages that this thread has fixed, and whether for writing."""

    def __init__(self) -> None:
        self.pages: dict[int, list[bool]] = {}


class Fixed:
    """A page that `Region.fix` fixes, for a `with` block."""

    def __init__(self, region: Region, page: int, write: bool) -> None:
        self._region, self.page, self.write = region, page, write
        self._view: memoryview | None = None
        self._fix: weakref.ref[Fix] | None = None

    def __enter__(self) -> memoryview:
        if self._view is not None:
            raise Error(f"page {self.page} is fixed by this object already; call fix again for another block")
        pages, mine = self._region._open(), self._region._mine.pages
        others = mine.get(self.page, [])
        if others and (self.write or any(others)):
            raise Error(
                f"this thread has page {self.page} fixed already, and one of the two is for writing: it would wait "
                "for itself; end the other block first"
            )
        fix = pages.fix(self.page, self.write)
        mine.setdefault(self.page, []).append(self.write)
        self._mine = mine
        self._fix = weakref.ref(fix)
        # An array has a buffer, which only newer stubs know.
        array: Any = np.asarray(fix)
        self._view = memoryview(array)
        return self._view

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        view, fix = self._view, self._fix
        if view is None or fix is None:
            return
        self._view = self._fix = None
        ways = self._mine[self.page]
        ways.remove(self.write)
        if not ways:
            del self._mine[self.page]
        try:
            view.release()
        except BufferError:
            pass
        del view
        # Arrays over the page keep it. Those that an exception holds go with its traceback.
        if fix() is not None and error is None:
            raise Error(
                f"page {self.page} is still used by an array or a view of it, and stays fixed until that has gone; "
                "delete it before the end of the block, or make a copy: numpy.array(view), bytes(view)"
            )


class Region:
    """Memory or a file of a pool with `fault_mode="explicit"`, used page by page: `fix` brings a page in and keeps
    it for the length of a block. Made by `Pool.region` and `Pool.file_region`. Regions work on any kernel, without a
    signal handler.

    When the region goes, or with `close`, the file is written and the memory is given back.

    >>> import coldset
    >>> pool = coldset.Pool("1MiB", swap="lz4:16MiB", fault_mode="explicit")
    >>> region = pool.region("4MiB")
    >>> for page in range(region.pages):
    ...     with region.fix(page, write=True) as view:
    ...         view[0] = page % 251
    >>> with region.fix(700) as view:
    ...     view[0], len(view), view.readonly
    (198, 4096, True)
    >>> view[0]
    Traceback (most recent call last):
      ...
    ValueError: operation forbidden on released memoryview object
    """

    def __init__(self, pages: Pages) -> None:
        self._pages: Pages | None = pages
        self._mine = _Mine()
        #: Bytes.
        self.nbytes = len(pages)
        #: Pages of 4096 bytes; the last one of a file may be shorter.
        self.pages = -(-self.nbytes // PAGE_SIZE)
        #: Pages cannot be fixed for writing.
        self.read_only = pages.read_only

    def _open(self) -> Pages:
        if self._pages is None:
            raise ClosedError("the region has been closed")
        return self._pages

    def fix(self, page: SupportsIndex, write: bool = False) -> Fixed:
        """A page, kept in memory for the length of a `with` block, which gets a `memoryview` of its bytes.

        Any number of readers or one writer hold a page at a time; others wait. After the block the view raises
        ValueError. Delete an array over the view (`numpy.frombuffer(view, "f8")`) before the end of the block:
        otherwise the end of the block raises Error, and the page stays fixed as long as the array lives.
        """
        number = operator.index(page)
        if not 0 <= number < self.pages:
            raise SettingError(f"page {number} is outside of the region, which has {self.pages} pages; use 0 to {self.pages - 1}")
        return Fixed(self, number, bool(write))

    @property
    def resident(self) -> int:
        """Bytes of the region that are in memory, in whole pages."""
        return self._open().resident()

    def sync(self) -> None:
        """Writes all stores to the file and makes them durable. Raises OSError as `Pool.sync` does."""
        self._open().sync(0, self.nbytes)

    def close(self) -> None:
        """Writes the file and gives the memory back, once the last fixed page is released. Calling it again does
        nothing."""
        pages, self._pages = self._pages, None
        if pages is not None:
            try:
                pages.sync(0, self.nbytes)
            except ForkedError:
                # It is not closed: the next use of it raises the same error.
                self._pages = pages
                raise

    def __enter__(self) -> Region:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " (closed)" if self._pages is None else ""
        return f"<coldset.Region of {self.pages} pages{state}>"
