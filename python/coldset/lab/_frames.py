"""Data frames of whichever package is wanted."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from .._errors import SettingError

#: Packages whose frames can be had.
Backend = Literal["pandas", "polars"]


def need(module: str, what: str, extra: str) -> Any:
    """Imports an optional package, or says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as e:
        package = module.split(".")[0]
        if package == "distributed":
            package = "dask and distributed"
        raise ImportError(
            f"{what} needs {package}: pip install 'coldset[{extra}]' ({e})", name=e.name
        ) from e


def check(backend: str) -> Backend:
    """A known package."""
    for known in get_args(Backend):
        if backend == known:
            return known  # type: ignore[no-any-return]
    raise SettingError(f"backend {backend!r} is not known: write 'pandas' or 'polars'")


def frame(columns: Mapping[str, Sequence[Any]], backend: str) -> Any:
    """A frame of columns."""
    name = check(backend)
    extra = "lab" if name == "pandas" else "polars"
    return need(name, f"a frame of {name}", extra).DataFrame(dict(columns))


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Columns of rows that all have the same keys."""
    if not rows:
        return {}
    return {name: [row[name] for row in rows] for name in rows[0]}
