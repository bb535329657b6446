"""Pools and groups."""

from __future__ import annotations

import operator
import os
import stat
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arguments, _coldset, _process
from ._arguments import FilePath, Mode, Order, Shape, Size, Truth
from ._array import Array, Path, fill
from ._errors import ClosedError, ForkedError, SettingError
from ._region import Region
from ._stats import Stats


class _Arrays:
    """Base of pools and groups: both make arrays."""

    def _in(self) -> _coldset.Group:
        raise NotImplementedError

    def empty(self, shape: Shape, dtype: npt.DTypeLike = float, order: Order = "C") -> Array:
        """An array. It reads as zeroes, like one made by `zeros`."""
        return self.zeros(shape, dtype, order)

    def zeros(self, shape: Shape, dtype: npt.DTypeLike = float, order: Order = "C") -> Array:
        """An array of zeroes. Pages that have not been written to take no memory.

        Raises OutOfMemory if all arrays together are more than budget and swap can hold.

        >>> import coldset
        >>> pool = coldset.Pool("1MiB", swap="lz4:16MiB")
        >>> pool.zeros((3, 4), "i4").sum()
        np.int64(0)
        """
        numbers, made = _arguments.shape(shape), _arguments.dtype(dtype)
        bytes_ = max(1, _arguments.count(numbers) * made.itemsize)
        if bytes_ >= 1 << 63:
            raise SettingError(f"an array of shape {numbers} and type {made} is too large")
        region = _process.note(self._in().anonymous(bytes_))
        return _arguments.array(region, 0, numbers, made, order)

    def full(
        self, shape: Shape, fill_value: Any, dtype: npt.DTypeLike | None = None, order: Order = "C"
    ) -> Array:
        """An array of one value.

        >>> import coldset
        >>> coldset.Pool("1MiB", swap="lz4:16MiB").full(3, 7)
        Array([7, 7, 7])
        """
        if dtype is None:
            dtype = np.asarray(fill_value).dtype
        made = self.zeros(shape, dtype, order)
        fill(made, np.broadcast_to(np.asarray(fill_value, dtype=made.dtype), made.shape))
        return made

    def array(self, obj: Any, dtype: npt.DTypeLike | None = None, order: Order = "C") -> Array:
        """A copy of anything that numpy can make an array of.

        Raises OutOfMemory if budget and swap turn out not to hold it: what does not compress may not fit into compressed
        memory.
        """
        source = np.asarray(obj, dtype=dtype)
        made = self.zeros(source.shape, source.dtype, order)
        fill(made, source)
        return made

    def memmap(
        self,
        path: FilePath,
        dtype: npt.DTypeLike = np.uint8,
        mode: Mode = "r+",
        shape: Shape | None = None,
        offset: int = 0,
        order: Order = "C",
        *,
        shared: bool = False,
    ) -> Array:
        """A file map, as `numpy.memmap` makes them (but `shape` comes before `offset`). Like there, `path` may also be
        an open file, which may be closed afterwards.

        Modes are "r" (read only), "r+" (the file grows if `shape` needs it) and "w+" (the file is
        created or emptied).

        Stores reach the file within half a minute, with `flush` or `Pool.sync`, when the array goes, and
        at the end of the program. If the program is killed, what has not been flushed may be lost.

        Nobody else may write to the file while it is mapped. A second map beside a writable one raises
        FileInUseError, in this process and, where the file system has locks, in others. `shared=True`
        allows it, for programs that keep to different pages or take turns: maps do not see each other's
        stores.

        >>> import coldset, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "table")
        >>> pool = coldset.Pool("1MiB")
        >>> a = pool.memmap(path, "i4", "w+", (1000, 3))
        >>> a[:] = 5
        >>> a.flush()
        >>> os.path.getsize(path)
        12000
        """
        how = _arguments.MODES.get(mode, mode)
        if how == "c":
            raise SettingError(
                'mode "c" (copy on write) is not supported; copy: pool.array(pool.memmap(path, '
                'dtype, "r"))'
            )
        if how not in ("r", "r+", "w+"):
            raise SettingError(f'the mode is {mode!r}; use "r", "r+" or "w+"')
        made, start = _arguments.dtype(dtype), operator.index(offset)
        if start < 0:
            raise SettingError(f"the offset is {offset!r}; it counts from the start of the file")
        if order not in ("C", "F"):
            raise SettingError(f"the order is {order!r}; use 'C' or 'F'")
        if how == "w+" and shape is None:
            raise SettingError('mode "w+" makes a new file: give it a shape')
        name, group = _arguments.path(path), self._in()
        numbers: tuple[int, ...]
        if how != "w+" and not stat.S_ISREG(os.stat(name).st_mode):
            # It says what it is instead, before sizes that mean nothing.
            group.file(name, how != "r")
        if shape is not None:
            numbers = _arguments.shape(shape)
        else:
            left = os.stat(name).st_size - start
            if left % made.itemsize != 0:
                raise SettingError(
                    f"{name}: {left} bytes from the offset on are not a multiple of "
                    f"{made.itemsize}, the size of {made}"
                )
            numbers = (left // made.itemsize,)
        need = start + _arguments.count(numbers) * made.itemsize
        if need <= start:
            raise SettingError(f"{name}: an empty map of a file is not possible")
        if how == "r":
            size = os.stat(name).st_size
            if size < need:
                raise SettingError(f"{name} has {size} bytes; {need} are needed for this shape")
        # Emptied and grown once it is certain that nobody else uses it.
        region = _process.note(
            group.file(
                name,
                how != "r",
                shared=shared,
                empty=how == "w+",
                grow=0 if how == "r" else need,
            )
        )
        return _arguments.array(region, start, numbers, made, order, os.path.abspath(name))

    def region(self, size: Size) -> Region:
        """Zeroed memory to be used page by page, in a pool with `fault_mode="explicit"`."""
        bytes_ = _arguments.size("the size", size)
        if bytes_ == 0:
            raise SettingError("the size is 0; a region has at least one byte")
        return Region(_process.note(self._in().anonymous_pages(bytes_)))

    def file_region(self, path: Path, mode: Mode = "r+", size: Size | None = None) -> Region:
        r"""A file to be used page by page, in a pool with `fault_mode="explicit"`. Modes are those of `memmap`, and
        stores reach the file as there. With `size` the file is made at least that long; mode "w+" needs it.

        >>> import coldset, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "table")
        >>> pool = coldset.Pool("1MiB", fault_mode="explicit")
        >>> with pool.file_region(path, "w+", "3MiB") as region, region.fix(5, write=True) as view:
        ...     view[:5] = b"hello"
        >>> with open(path, "rb") as file:
        ...     file.seek(5 * 4096), file.read(6)
        (20480, b'hello\x00')
        """
        how = _arguments.MODES.get(mode, mode)
        if how not in ("r", "r+", "w+"):
            raise SettingError(f'the mode is {mode!r}; use "r", "r+" or "w+"')
        if how == "w+" and size is None:
            raise SettingError('mode "w+" makes a new file: give it a size')
        if how == "r" and size is not None:
            raise SettingError('mode "r" takes the file as it is: leave out size, or use "r+"')
        group = self._in()
        grow = 0 if size is None else _arguments.size("the size", size)
        if how == "w+" and grow == 0:
            # Before the file is emptied.
            raise SettingError("the size is 0; a region has at least one byte")
        made = group.file_pages(os.fspath(path), how != "r", empty=how == "w+", grow=grow)
        return Region(_process.note(made))

    def reclaim(self, size: Size) -> int:
        """Evicts that many bytes now, as far as possible. Returns the bytes evicted."""
        return self._in().reclaim(_arguments.size("size", size))


class Group(_Arrays):
    """A part of a pool with its own limits. Made by `Pool.group` and `Group.group`.

    >>> import coldset
    >>> pool = coldset.Pool("4MiB", swap="lz4:64MiB")
    >>> logs = pool.group("logs", max="1MiB")
    >>> a = logs.zeros(4 << 20, "u1")
    >>> a[:] = 1
    >>> logs.usage <= 1 << 20
    True
    """

    def __init__(self, pool: Pool, group: _coldset.Group) -> None:
        self._pool = pool
        self._group = group

    def _in(self) -> _coldset.Group:
        self._pool._check_open()
        return self._group

    @property
    def name(self) -> str:
        """Path from the pool's root, such as `/outer/inner`; the root is `/`."""
        return self._group.name

    @property
    def usage(self) -> int:
        """Bytes in memory of the group and the groups below it."""
        return self._group.usage

    def generations(self) -> list[tuple[int, int, int]]:
        """Sequence number, anonymous and file pages of each generation, oldest first; empty under a
        policy without generations."""
        return self._group.generations()

    def group(
        self,
        name: str,
        *,
        min: Size | None = None,
        low: Size | None = None,
        high: Size | None = None,
        max: Size | None = None,
    ) -> Group:
        """A group below this one, with limits as in `set`. Its name must not be empty or that of another group below
        this one, because metrics use it. The group and its name exist as long as the pool."""
        limits = _arguments.limits({"min": min, "low": low, "high": high, "max": max})
        return Group(self._pool, self._in().group(_arguments.readable("the name of the group", name), **limits))

    def set(
        self,
        *,
        min: Size | None = None,
        low: Size | None = None,
        high: Size | None = None,
        max: Size | None = None,
    ) -> None:
        """Changes limits; None leaves one as it is, and "max" takes `high` or `max` away.

        The group keeps `min`, to within a batch of 64 pages, and keeps `low` as long as other groups have more to
        give. Above `high` its threads reclaim and are slowed down. It never exceeds `max`.
        A lower limit takes effect before this returns, as far as pages can be evicted. A higher one holds for all misses
        from then on; a thread that has begun to reclaim for the old one, read-ahead for instance, still takes its batch.
        """
        limits = _arguments.limits({"min": min, "low": low, "high": high, "max": max})
        self._in().set(**limits)

    def __repr__(self) -> str:
        return f"<coldset.Group {self.name!r}>"


class Pool(_Arrays):
    """A budget of memory and the arrays that share it.

    - `budget` and sizes in `swap` are bytes or text ("512M", "2GiB"). `budget` may be a share ("50%") of the limit of
      the process's memory cgroup, or else of the machine's memory. It is lowered, with a line on stderr, if it does not
      fit into that limit. `resize` changes it.
    - `swap` is where pages of arrays go that are not file maps: "none", "lz4:8GiB" (compressed memory, which counts
      against the budget), "file:/path:8GiB", "temp:8GiB", joined by "+". "+encrypt" encrypts what goes to a file.
    - `policy` is a name (`coldset.lab.variants()` lists them), or your own class as `coldset.lab.Policy` describes,
      which needs `fault_mode="explicit"`. `switches` changes single behaviours of the policy, as a mapping or as "name=value"
      strings.
    - `fault_mode` is how accesses reach the pool: "sigbus"; "thread", which needs privilege and lets system calls use
      arrays without a pin; or "explicit", which has no arrays but regions (`region`, `file_region`) whose pages are
      fixed one by one.
    - `journal` names a new file (or another journal) that records all decisions.
    - `full_wait` is how many seconds evictions wait for room when the disk of the swap or of a file is full (5).
    - `overcommit` grants arrays that are larger than budget and swap together. A program that uses more than these
      can hold is ended by SIGBUS.
    - `shrink_under_pressure` shrinks the budget, to a quarter at most, while threads wait for memory. It grows back.
    - `background=False` starts no background threads that free room and read ahead. A program with one thread
      then has the same misses in every run.
    - `map_streams=False` copies a file that is read in order like any other, instead of mapping it from the kernel's
      page cache.

    `close`, or the end of a `with` block, syncs and closes the pool. Arrays that are still alive keep working.

    >>> import coldset
    >>> with coldset.Pool("1MiB", swap="lz4:16MiB") as pool:
    ...     a = pool.full(1 << 20, 3, "u1")
    ...     int(a[::4096].sum())
    768
    >>> coldset.Pool("1 parsec")
    Traceback (most recent call last):
      ...
    coldset._errors.SettingError: cannot read "1 parsec": "parsec" is not a unit (K, M, G, T, KiB ... TiB, KB ... TB); write for example 2GiB, 512M or 4096
    """

    def __init__(
        self,
        budget: Size,
        *,
        swap: str | None = None,
        policy: str | type | None = None,
        switches: Mapping[str, object] | Iterable[str] = (),
        fault_mode: str | None = None,
        journal: Path | None = None,
        read_ahead: int | None = None,
        batch: int | None = None,
        full_wait: float | None = None,
        overcommit: Truth = False,
        shrink_under_pressure: Truth = False,
        background: Truth | None = None,
        map_streams: Truth | None = None,
    ) -> None:
        share = isinstance(budget, str) and budget.rstrip().endswith("%")
        settings = [("budget", str(budget if share else _arguments.size("the budget", budget)))]
        own = None
        if policy is not None and not isinstance(policy, str):
            own = _arguments.policy(policy, fault_mode)
        elif policy is not None:
            settings.append(("policy", policy))
        settings.extend(("switch", s) for s in _arguments.switches(switches))
        if fault_mode not in (None, "sigbus", "thread", "explicit", "auto"):
            raise SettingError(f"fault_mode is {fault_mode!r}; write \"sigbus\", \"thread\" or \"explicit\"")
        if fault_mode == "auto":
            raise SettingError(
                "fault_mode is 'auto'; a program has to know whether it has arrays or regions. Use \"sigbus\" or "
                '"explicit"; coldset.probe() says what the kernel lacks for arrays'
            )
        others = {
            "swap": swap,
            "fault_mode": fault_mode,
            "journal": None if journal is None else os.fsdecode(journal),
            "read_ahead": read_ahead,
            "batch": batch,
            "full_wait": full_wait,
            "overcommit": _arguments.truth("overcommit", overcommit),
            "shrink_under_pressure": _arguments.truth("shrink_under_pressure", shrink_under_pressure),
            "background": _arguments.truth("background", background),
            "map_streams": _arguments.truth("map_streams", map_streams),
        }
        settings.extend((name, str(value)) for name, value in others.items() if value is not None)
        for name, value in settings:
            # The journal is a path alone.
            if name != "journal":
                _arguments.readable(name, value)
        self._has_arrays = fault_mode in (None, "sigbus")
        if fault_mode != "explicit":
            _process.prepare_signals()
        self._pool = _coldset.Pool(settings, own)
        self._root = self._pool.root()
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the pool has been closed; make a new one")
        if self._has_arrays:
            _process.check_handler()

    def _in(self) -> _coldset.Group:
        self._check_open()
        return self._root

    @property
    def budget(self) -> int:
        """Bytes that pages in memory and compressed contents may take together."""
        return self._pool.budget

    def resize(self, budget: Size) -> None:
        """Changes the budget while the pool is in use. For a smaller budget, pages are evicted before this
        returns. Raises OutOfMemory, and changes nothing, if too much is pinned or promised.

        >>> import coldset
        >>> pool = coldset.Pool("4MiB", swap="lz4:64MiB")
        >>> a = pool.full(4 << 20, 3, "u1")
        >>> pool.resize("2MiB")
        >>> pool.budget, int(a[::4096].sum())
        (2097152, 3072)
        """
        self._pool.resize(_arguments.size("the budget", budget))

    @property
    def usage(self) -> int:
        """Bytes of pages in memory."""
        return self._root.usage

    def group(
        self,
        name: str,
        *,
        min: Size | None = None,
        low: Size | None = None,
        high: Size | None = None,
        max: Size | None = None,
    ) -> Group:
        """A group of arrays with limits, see `Group.set`. Its name must not be empty or that of another group, because
        metrics use it. The group and its name exist as long as the pool."""
        limits = _arguments.limits({"min": min, "low": low, "high": high, "max": max})
        return Group(self, self._in().group(_arguments.readable("the name of the group", name), **limits))

    def sync(self) -> None:
        """Writes all stores to file maps and makes them durable.

        Raises OSError for the first page that cannot be written now. Otherwise raises once for the last
        write that failed while nobody waited for it (in the background, of the swap, of an array that has
        gone).
        """
        self._pool.sync()

    def record(self, path: Path) -> None:
        """Begins a journal of the pool's decisions in a new file, for `coldset lab replay`. The journal ends
        with `stop_recording`, or when the pool and its arrays are gone.

        >>> import coldset, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "journal")
        >>> pool = coldset.Pool("1MiB", swap="lz4:16MiB")
        >>> pool.record(path)
        >>> pool.zeros(4 << 20, "u1")[:] = 1
        >>> pool.stop_recording()
        >>> os.path.getsize(path) > 0
        True
        """
        self._pool.record(os.fspath(path))

    def stop_recording(self) -> None:
        """Ends and completes the journal begun by `record` or by the setting `journal`.

        Raises OSError if it could not be written to its end.
        """
        self._pool.stop_recording()

    def stats(self) -> Stats:
        """Counters and sizes now."""
        return Stats(self._pool.stats())

    def close(self) -> None:
        """Syncs, and refuses new arrays from now on. Existing arrays keep working; each gives its memory back
        when it goes. Calling it again does nothing."""
        if not self._closed:
            self._closed = True
            try:
                self.sync()
            except ForkedError:
                # It is not closed: the next use of it raises the same error.
                self._closed = False
                raise

    def __enter__(self) -> Pool:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " (closed)" if self._closed else ""
        return f"<coldset.Pool of {self.budget} bytes{state}>"
