"""Traces out of numpy arrays."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import SettingError

#: A record of the format pageops, little-endian.
RECORD = np.dtype([("kind", "u1"), ("object", "u1"), ("task", "<u2"), ("page", "<u4")])
#: Kinds of references: pread and pwrite of a file, load and store of anonymous memory.
_PREAD, _PWRITE, _STORE, _LOAD = 1, 2, 3, 4
#: Pages an object may have.
_PAGES = 1 << 31
#: What is said of anonymous memory without a store.
_ONLY_LOADED = (
    "the anonymous memory is only loaded from: until a page is stored to, loads see the page of zeroes, which takes no "
    "memory; say which references store (writes=True, or an array)"
)


def _integers(what: str, values: Any, size: int, most: int) -> Any:
    array = np.asarray(values)
    if np.ma.is_masked(values):
        raise SettingError(f"{what} have masked values; give those that count (array.compressed())")
    if array.ndim == 0 and size != 0:
        array = np.broadcast_to(array, (size,))
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise SettingError(
            f"{what} are an array of {array.dtype} with shape {array.shape}; give one dimension of "
            "whole numbers"
        )
    if size not in (0, len(array)):
        raise SettingError(f"{what} are {len(array)} values for {size} references; give one for each")
    if len(array) and (array.min() < 0 or array.max() >= most):
        raise SettingError(
            f"{what} are {array.min()} to {array.max()}; they must be 0 to {most - 1}"
        )
    return array


def records(
    pages: Any, *, writes: Any = None, objects: Any = None, tasks: Any = None, anon: bool = False
) -> bytes:
    """References to pages as records of the format pageops.

    Page numbers beyond 2^31, such as addresses shifted by 12, are renumbered in their order.
    """
    if np.ma.is_masked(pages):
        raise SettingError("page numbers have masked values; give those that count (array.compressed())")
    array = np.asarray(pages)
    if array.dtype.kind == "b":
        raise SettingError("page numbers are True and False; give whole numbers (numpy.flatnonzero of a mask)")
    if array.ndim == 1 and array.dtype.kind in "iu" and len(array) and array.min() < 0:
        raise SettingError(f"page numbers are {array.min()} to {array.max()}; they must not be negative")
    if array.ndim == 1 and array.dtype.kind in "iu" and len(array) and array.max() >= _PAGES:
        array = np.unique(array, return_inverse=True)[1].reshape(-1)
    array = _integers("page numbers", array, 0, _PAGES)
    size = len(array)
    if size == 0:
        raise SettingError("the array of page numbers is empty; a trace has at least one reference")
    out = np.zeros(size, RECORD)
    stores = _integers("writes", False if writes is None else writes, size, 2).astype(bool)
    if anon and not stores.any():
        warnings.warn(_ONLY_LOADED, stacklevel=4)
    read, write = (_LOAD, _STORE) if anon else (_PREAD, _PWRITE)
    out["kind"] = np.where(stores, write, read)
    out["object"] = _integers("objects", 0 if objects is None else objects, size, 256)
    out["task"] = _integers("tasks", 0 if tasks is None else tasks, size, 65536)
    out["page"] = array
    return out.tobytes()


def save_trace(
    path: str | os.PathLike[str],
    pages: Any,
    *,
    writes: Any = None,
    objects: Any = None,
    tasks: Any = None,
    anon: bool = False,
) -> None:
    """Writes references to pages as a trace (format pageops), for `replay`, `sweep` and the command.

    `pages` is an array of page numbers in the order of the accesses. `writes` says which of them
    store (one flag for all, or an array); `objects` numbers the files or regions the pages belong to (0 to
    255), `tasks` who does it. `anon` makes it anonymous memory in place of files; a page of it takes memory from its
    first store on, so without `writes` there is nothing to evict, which a warning says.

    >>> import coldset.lab, numpy, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "circle.pageops")
    >>> coldset.lab.save_trace(path, numpy.arange(3000) % 1000)
    >>> os.path.getsize(path)
    24000
    """
    data = records(pages, writes=writes, objects=objects, tasks=tasks, anon=anon)
    Path(path).write_bytes(data)
