"""numpy arrays and file maps inside a memory budget.

A pool has a budget. Its arrays, in memory or on files, may be far larger together: the pool's policy decides
which pages leave memory, and a page comes back when it is touched.

>>> import coldset
>>> pool = coldset.Pool("4MiB", swap="lz4:64MiB")
>>> a = pool.zeros((4096, 512))             # 16 MiB of float64, four times the budget
>>> a[:] = 1.0
>>> float(a.sum())
2097152.0
>>> pool.stats()["resident_bytes"] <= 4 << 20
True

`coldset.probe()` says whether this kernel supports it.

`coldset.lab` is the lab: experiments and traces over reclaim policies, on a simulated machine.
"""

from typing import Any

from ._array import Array
from ._coldset import __version__, parse_size, probe
from ._errors import (
    ClosedError,
    Error,
    FileInUseError,
    ForkWarning,
    ForkedError,
    HandlerError,
    MissingFeature,
    OutOfMemory,
    ReadOnlyError,
    PolicyError,
    SettingError,
)
from ._pool import Group, Pool
from ._region import Region
from ._stats import Stats

__all__ = [
    "Array",
    "ClosedError",
    "Error",
    "FileInUseError",
    "ForkWarning",
    "ForkedError",
    "Group",
    "HandlerError",
    "MissingFeature",
    "OutOfMemory",
    "Pool",
    "ReadOnlyError",
    "Region",
    "PolicyError",
    "SettingError",
    "Stats",
    "__version__",
    "parse_size",
    "probe",
]


def __getattr__(name: str) -> Any:
    # A program that only uses arrays does not wait for the lab.
    if name == "lab":
        import importlib

        return importlib.import_module("coldset.lab")
    raise AttributeError(f"module 'coldset' has no attribute {name!r}")
