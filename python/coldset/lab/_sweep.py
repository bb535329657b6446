"""Sweeps over grids of configurations."""

from __future__ import annotations

import html
import json
import math
import numbers
import os
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from .._coldset import LabCell as Cell
from .._coldset import LabStore, lab_cells
from .._errors import SettingError
from . import _dask, _kinds, _pool, _settings
from ._frames import Backend, check, frame
from ._progress import Progress
from ._tally import Failed, Tally

__all__ = ["Cell", "Failed", "Sweep", "cells", "sweep"]

#: A dictionary as in the TOML file, or the file.
Grid = Mapping[str, Any] | str | os.PathLike[str]


def _plain(key: str, value: Any) -> Any:
    """What a grid says, as JSON has it: numbers of numpy are numbers, and memory may be shares and pages."""
    if isinstance(value, Mapping):
        return {name: _plain(str(name), of) for name, of in value.items()}
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, numbers.Real):
        if key in ("memory", "memories"):
            return _kinds.amount(value)
        if not math.isfinite(value):
            raise SettingError(f"grid: '{key}' is {value}; give a finite number")
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    # A set has no order.
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, Set)):
        return [_plain(key, one) for one in value]
    raise SettingError(
        f"grid: '{key}' is {value!r} ({type(value).__name__}); use texts, numbers, lists and dictionaries"
    )


def cells(grid: Grid) -> list[Cell]:
    """The cells of a grid: each is one configuration under one seed.

    >>> import coldset.lab
    >>> grid = {"experiments": "mongodb", "variants": ["base", "v5"], "seeds": 3}
    >>> len(coldset.lab.cells(grid))
    6
    """
    if isinstance(grid, Mapping):
        return lab_cells("grid", json.dumps(_plain("grid", grid)), False, "")
    path = Path(grid)
    return lab_cells(str(path), path.read_text(), True, str(path.parent))


class Sweep:
    """A finished sweep: its cells, and the folder with their counters."""

    def __init__(self, folder: Path, cells: list[Cell], tally: Tally, backend: Backend) -> None:
        #: Folder of Parquet files: `pandas.read_parquet(sweep.path)` reads all that is in it.
        self.path = folder
        #: Cells in the order of the grid.
        self.cells = cells
        #: Cells computed now.
        self.computed = tally.computed
        #: Cells that were there, or were computed by another sweep meanwhile.
        self.found = tally.found
        #: Cells that gave no result; the same sweep tries them again.
        self.failed = tally.failed
        self._store = tally.store
        self._backend = backend

    def frame(self, backend: Backend | None = None) -> Any:
        """Counters in long form: experiment, the settings of the grid (`scale`, `set smaller_batch`,
        `cost nvme_read_lat_ns`, `param threads`, ...), variant, seed, counter, value."""
        values = self._store.values({cell.key for cell in self.cells})
        counters: dict[str, list[tuple[str, float]]] = {}
        for key, counter, value in zip(values["key"], values["counter"], values["value"]):
            counters.setdefault(key, []).append((counter, value))
        names: dict[str, None] = {"experiment": None}
        rows = []
        for cell in self.cells:
            settings: dict[str, Any] = {"experiment": cell.experiment, **dict(cell.settings())}
            settings["seed"] = int(settings["seed"])
            names.update(dict.fromkeys(settings))
            rows += [(settings, c, v) for c, v in counters.get(cell.key, [])]
        last = ["variant", "seed"]
        order = [n for n in names if n not in last] + last
        columns: dict[str, list[Any]] = {n: [s.get(n) for s, _, _ in rows] for n in order}
        columns["counter"] = [c for _, c, _ in rows]
        columns["value"] = [v for _, _, v in rows]
        return frame(columns, backend or self._backend)

    def table(self, counters: list[str] | None = None, *, markdown: bool = False) -> str:
        """Means over the seeds by configuration, as the command prints them."""
        return self._store.table(self.cells, counters or [], markdown)

    def _counts(self) -> str:
        distinct = len({cell.key for cell in self.cells})
        text = f"{self.computed + self.found} of {distinct} cells: {self.computed} computed now, "
        text += f"{self.found} found"
        if self.failed:
            text += f", {len(self.failed)} failed (first: {self.failed[0].reason})"
        return text

    def _repr_html_(self) -> str:
        return (
            f"<p>{html.escape(self._counts())}; {html.escape(str(self.path))}</p>"
            f"<pre>{html.escape(self.table())}</pre>"
        )

    def __repr__(self) -> str:
        return f"{self.table()}\n{self._counts()}; {self.path}"


def sweep(
    grid: Grid,
    *,
    out: str | os.PathLike[str],
    jobs: int | None = None,
    client: Any = None,
    dask: str | None = None,
    progress: bool | None = None,
    backend: Backend = "pandas",
) -> Sweep:
    """Computes all cells of a grid that are not in the folder `out` yet.

    `grid` is a TOML file as `coldset lab sweep` takes it, or a dictionary with the same keys. Cells
    are computed by `jobs` processes of this machine, or by a Dask cluster: `client` is a
    `distributed.Client`, `dask` the address of a scheduler. A cell that is finished is on disk, whatever
    happens then; after Ctrl-C, a crash or a killed worker the same call resumes there. Cells that
    fail are in `failed` and do not stop the others.

    >>> import coldset.lab, numpy, os, tempfile
    >>> grid = {"traces": "circle.pageops", "memory": "50%", "variants": ["fifo", "v5"]}
    >>> folder = tempfile.mkdtemp()
    >>> grid["traces"] = os.path.join(folder, "circle.pageops")
    >>> coldset.lab.save_trace(grid["traces"], numpy.arange(10_000) % 1000)
    >>> done = coldset.lab.sweep(grid, out=os.path.join(folder, "results"), jobs=1)
    >>> done.computed, done.found
    (2, 0)
    >>> coldset.lab.sweep(grid, out=done.path).found
    2
    """
    check(backend)
    if client is not None and dask is not None:
        raise SettingError("client and dask are both given; give one")
    own = _dask.connect(dask) if dask is not None else None
    try:
        listed = cells(grid)
        folder = Path(out).absolute()
        store = LabStore(str(folder))
        with Progress("sweep", progress) as bar:
            tally = Tally(store, listed, bar)
            cluster = own if own is not None else client
            if not tally.todo:
                pass
            elif cluster is not None:
                _dask.run(tally, str(folder), cluster)
            else:
                _pool.run(tally, str(folder), _settings.jobs(jobs))
        store.merge()
    finally:
        if own is not None:
            own.close()
    return Sweep(folder, listed, tally, backend)
