"""The array: a numpy.ndarray over managed memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal, Union

import numpy as np

from ._coldset import PAGE_SIZE, Region
from ._errors import Error, OutOfMemory, ReadOnlyError, SettingError

Advice = Literal["normal", "random", "sequential", "willneed", "dontneed"]
Path = Union[str, "os.PathLike[str]"]

#: Bytes that transfers through ordinary memory move at a time.
CHUNK = 1 << 20


def _copies(a: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Copies of an array's parts, in order. Each copy is made in memory order, so that a page is
    not brought in again for every item."""
    if a.ndim == 0 or a.nbytes <= CHUNK:
        yield np.array(a, order="K")
        return
    row = a.nbytes // len(a)
    if row > CHUNK:
        for part in a:
            yield from _copies(part)
        return
    step = CHUNK // row
    for first in range(0, len(a), step):
        yield np.array(a[first : first + step], order="K")


#: Bytes that are pinned at a time while the package itself copies: little of the smallest budget.
PINNED = 1 << 16


def _parts(to: Any, source: Any, most: int) -> Iterator[tuple[Any, Any]]:
    """Parts of two arrays of one shape, of about so many bytes of the first."""
    if to.ndim == 0 or to.nbytes <= most:
        yield to, source
        return
    row = to.nbytes // len(to)
    if row > most and to.ndim > 1:
        for a, b in zip(to, source):
            yield from _parts(a, b, most)
        return
    step = max(1, most // row)
    for first in range(0, len(to), step):
        yield to[first : first + step], source[first : first + step]


def _copy_pinned(region: Region, to: Any, source: Any, most: int) -> None:
    """Copies to a C-contiguous part of a region, at most about so many bytes at a time."""
    for a, b in _parts(to, source, most):
        start = int(a.__array_interface__["data"][0]) - region.address
        try:
            pin = region.pin(start, start + a.nbytes, True)
        except OutOfMemory:
            # A small group may have room for less.
            if most <= PAGE_SIZE or a.nbytes <= PAGE_SIZE:
                raise
            _copy_pinned(region, a, b, PAGE_SIZE)
            continue
        try:
            a[...] = b
        finally:
            pin.release()


def fill(to: Array, source: np.ndarray[Any, Any]) -> None:
    """Copies to a contiguous array, each part of it pinned meanwhile: if there is no memory for it, that is an exception,
    where an access would have been SIGBUS."""
    if to.size == 0:
        return
    region = to._span()[0]
    plain = to.view(np.ndarray)
    if not plain.flags.c_contiguous:
        plain, source = plain.T, source.T
    _copy_pinned(region, plain, source, PINNED)


class Array(np.ndarray[Any, np.dtype[Any]]):
    """A `numpy.ndarray` whose memory belongs to a pool.

    Made by `Pool.zeros`, `Pool.memmap` and the like. Views are Arrays too and keep the memory alive. Results computed
    from an Array (`a + b`, `a.copy()`, `a[mask]`) are in ordinary memory, and most are ordinary arrays. `flatten`,
    `take`, `repeat`, `compress`, `dot`, `byteswap`, `conj`, `numpy.zeros_like` and the like return an Array that is in
    no pool: its `flush`, `pin` and other methods of this class raise Error.

    System calls cannot use memory that has been evicted: they fail with EFAULT (`OSError: [Errno 14] Bad address`).
    `tofile`, `readfrom`, `numpy.save` and pickling take care of that. For anything else that hands memory to the kernel
    (`file.readinto(a)`, `file.write(a)`, `socket.send(a)`) hold `pin()`.
    """

    _region: Region | None
    #: Path of the file that the array maps, if it does.
    filename: str | None

    def __array_finalize__(self, obj: Any) -> None:
        if isinstance(obj, Array) and (np.may_share_memory(self, obj) or self._is_empty_view(obj)):
            self._region = obj._region
            self.filename = obj.filename
        else:
            self._region = None
            self.filename = None

    def _is_empty_view(self, obj: Array) -> bool:
        """An empty view of an array, which shares no byte with it. An array picked by indices has its own base."""
        return self.size == 0 and self.base is not None and (self.base is obj or self.base is obj.base)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if self is array:
            return array
        if return_scalar:
            return array[()]
        return array.view(np.ndarray)

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(index)
        if type(item) is Array and item._region is None:
            return item.view(np.ndarray)
        return item

    def copy(self, order: Any = "C") -> Any:
        """An ordinary array with the same contents."""
        self._check_process()
        return np.array(self, order=order, subok=False)

    def __copy__(self) -> Any:
        return self.copy("K")

    def __deepcopy__(self, memo: Any, /) -> Any:
        return self.copy("K")

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        """An ordinary array of another type."""
        self._check_process()
        return self.view(np.ndarray).astype(*args, **kwargs)

    def __reduce__(self) -> Any:
        return self.copy("K").__reduce__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.copy("K").__reduce_ex__(protocol)

    def _check_process(self) -> None:
        """Raises ForkedError in a child of fork, where an access would be a segmentation fault."""
        if self._region is not None:
            self._region.check()

    def _span(self) -> tuple[Region, int, int]:
        """The region, and the start and end of the bytes in it that hold the array."""
        region = self._region
        if region is None:
            raise Error("this array is not in a pool's memory: it has been computed from one that is")
        start = end = int(self.__array_interface__["data"][0]) - region.address
        if self.size > 0:
            for length, stride in zip(self.shape, self.strides):
                if stride < 0:
                    start += (length - 1) * stride
                else:
                    end += (length - 1) * stride
            end += self.itemsize
        return region, start, end

    def flush(self) -> None:
        """Writes all stores to the file and makes them durable. Does nothing for arrays that are not
        file maps.

        Raises OSError for the first page of the array that cannot be written, whatever else is flushed.
        Otherwise raises once for the last write to the file that failed in the background.
        """
        region, start, end = self._span()
        if start < end:
            region.sync(start, end)

    def advise(self, advice: Advice) -> None:
        """Says how the array will be used.

        `random`, `sequential` and `normal` set the read-ahead for the whole memory that the array is part
        of. `willneed` brings the array in. `dontneed` drops its whole pages: stores to a file are written
        first; other memory reads as zeroes afterwards.

        >>> import coldset
        >>> a = coldset.Pool("1MiB", swap="lz4:8MiB").zeros(1 << 20)
        >>> a.advise("sequential")
        """
        region, start, end = self._span()
        if advice == "dontneed" and not (self.flags.c_contiguous or self.flags.f_contiguous):
            raise SettingError("a view with gaps cannot be let go: what lies in the gaps would go too")
        if start < end:
            region.advise(start, end, advice)

    def resident(self) -> int:
        """Bytes of the array's pages that are in memory now."""
        region, start, end = self._span()
        return region.resident(start, end) if start < end else 0

    @contextmanager
    def pin(self, write: bool | None = None) -> Iterator[Array]:
        """Keeps the array in memory, so that system calls can use it. They may store to it only if `write`
        is true (the default if the array is writeable).

        Raises OutOfMemory if the array does not fit into the budget: pin one part at a time.

        >>> import coldset, os
        >>> a = coldset.Pool("1MiB", swap="lz4:8MiB").zeros(512, "u1")
        >>> with a.pin(), open("/proc/version", "rb", buffering=0) as file:
        ...     n = file.readinto(a)
        >>> bytes(a[:5])
        b'Linux'
        """
        region, start, end = self._span()
        if write is None:
            write = bool(self.flags.writeable)
        elif write and not self.flags.writeable:
            raise ReadOnlyError("the array is read-only")
        if start == end:
            yield self
            return
        pin = region.pin(start, end, write)
        try:
            yield self
        finally:
            pin.release()

    def tofile(self, fid: Any, /, sep: str = "", format: str = "%s") -> None:
        """Writes the array to a file, as `numpy.ndarray.tofile` does."""
        self._check_process()
        if sep != "":
            self.view(np.ndarray).tofile(fid, sep, format)
            return
        if isinstance(fid, (str, bytes, os.PathLike)):
            with open(fid, "wb") as file:
                self.tofile(file)
            return
        # Through ordinary memory: ours may be evicted, and the kernel cannot bring it back.
        for part in _copies(self.view(np.ndarray)):
            part.tofile(fid)

    def readfrom(self, file: BinaryIO) -> int:
        """Fills the array from a binary file, as `file.readinto` does. Returns the bytes read: fewer than
        `nbytes` if the file ended.

        >>> import coldset, io
        >>> a = coldset.Pool("1MiB", swap="lz4:8MiB").zeros(4, "u1")
        >>> a.readfrom(io.BytesIO(b"abc")), bytes(a)
        (3, b'abc\\x00')
        """
        self._check_process()
        if not self.flags.writeable:
            raise ReadOnlyError("the array is read-only")
        if not self.flags.c_contiguous:
            raise SettingError("readfrom needs a C-contiguous array")
        if self.size == 0:
            return 0
        to: Any = self.reshape(-1).view(np.uint8)
        buffer = np.empty(min(CHUNK, to.size), np.uint8)
        done = 0
        while done < to.size:
            n = file.readinto(buffer[: to.size - done].data)  # type: ignore[attr-defined]
            if not n:
                break
            if to._region is None:
                to[done : done + n] = buffer[:n]
            else:
                fill(to[done : done + n], buffer[:n])
            done += n
        return done
