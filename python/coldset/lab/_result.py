"""What a run or a replay came to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from .._coldset import LabResult
from .._errors import SettingError
from . import _display
from ._answer import Apart, Kept
from ._frames import Backend, columns, frame


class Chart:
    """A chart as a Vega-Lite specification (version 5) with its data inside."""

    def __init__(self, id: str, title: str, about: str, spec: dict[str, Any]) -> None:
        #: Short name.
        self.id = id
        #: Heading.
        self.title = title
        #: How to read it.
        self.about = about
        #: The specification.
        self.spec = spec

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> dict[str, Any]:
        return _display.chart(self.title, self.spec)

    def __repr__(self) -> str:
        return f"<coldset.lab.Chart {self.id!r}: {self.title}>"


class Charts(Sequence[Chart]):
    """Charts by number or by name."""

    def __init__(self, charts: list[Chart]) -> None:
        self._charts = charts

    @overload
    def __getitem__(self, which: int | str) -> Chart: ...
    @overload
    def __getitem__(self, which: slice) -> Charts: ...
    def __getitem__(self, which: int | str | slice) -> Chart | Charts:
        if isinstance(which, slice):
            return Charts(self._charts[which])
        if isinstance(which, int):
            return self._charts[which]
        for chart in self._charts:
            if chart.id == which:
                return chart
        names = ", ".join(chart.id for chart in self._charts) or "none"
        raise KeyError(f"there is no chart {which!r}; there are: {names}")

    def __len__(self) -> int:
        return len(self._charts)

    def __iter__(self) -> Iterator[Chart]:
        return iter(self._charts)

    def _ipython_display_(self) -> None:
        for chart in self:
            _display.show(chart)

    def __repr__(self) -> str:
        return f"<coldset.lab.Charts {[chart.id for chart in self]}>"


class Result:
    """What a run or a replay came to.

    At the end of a cell of Jupyter it shows its table and its charts.
    """

    def __init__(self, native: LabResult | Apart | Kept, backend: Backend, call: str) -> None:
        self._native = native
        self._backend = backend
        self._call = call

    def __reduce__(self) -> tuple[Any, ...]:
        # What is native cannot be pickled; what it says can.
        native = Kept(self._native, self._call) if isinstance(self._native, LabResult) else self._native
        return type(self), (native, self._backend, self._call)

    @cached_property
    def _json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self._native.json())
        return value

    @property
    def variants(self) -> list[str]:
        """Variants, the first being before, the last after."""
        if self._native.kind == "curves":
            return [curve["policy"] for curve in self._json["curves"]]
        first = self._json.get("replays", [self._json])[0]
        return list(first["variants"])

    def to_json(self) -> str:
        """As `coldset lab run --json` or `replay --json` writes it."""
        return self._native.json()

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes one self-contained page, as `--report` of the command does: what changed and why, tables,
        charts, parameters."""
        page = self._native.html(self._call)
        if page is None:
            raise SettingError("there is no page of curves yet; take charts or frames")
        Path(path).write_text(page)

    def verdicts(self) -> list[dict[str, Any]]:
        """The claims of an experiment as dictionaries; see `claims`."""
        return list(self._json.get("claims", []))

    def frame(self, backend: Backend | None = None) -> Any:
        """Every value, in long form. Curves: policy, pages, misses, miss_ratio, error. Otherwise: variant, seed, counter, value (of replays: memory_pages, variant,
        counter, value, the variant "(bounds)" being exact LRU and OPT)."""
        if self._native.kind == "curves":
            return frame(self._native.curves(), backend or self._backend)
        return frame(self._native.values(), backend or self._backend)

    @property
    def curves(self) -> Any:
        """Points of miss-ratio curves (of `mrc`)."""
        return frame(self._native.curves(), self._backend)

    @property
    def counters(self) -> Any:
        """Experiments: mean of each counter over the seeds with its 95 % confidence interval (lo, hi).
        Replays: one line a limit and variant, one column a counter. Of a variant that was killed for lack of memory,
        `killed_after` says after how many accesses, and the others are called `until_killed.misses` and so on."""
        if self._native.kind == "experiment":
            return frame(self._native.means(), self._backend)
        if self._native.kind == "curves":
            return self.curves
        rows: dict[tuple[int, str], dict[str, float]] = {}
        names: dict[str, None] = {}
        values = self._native.values()
        lines = zip(values["memory_pages"], values["variant"], values["counter"], values["value"])
        for memory, variant, counter, value in lines:
            if variant != "(bounds)":
                rows.setdefault((memory, variant), {})[counter] = value
                names[counter] = None
        wide: dict[str, list[Any]] = {
            "memory_pages": [memory for memory, _ in rows],
            "variant": [variant for _, variant in rows],
        }
        for name in names:
            wide[name] = [row.get(name) for row in rows.values()]
        return frame(wide, self._backend)

    @property
    def claims(self) -> Any:
        """The claims of an experiment: name, class, published figure, ours with its interval (lo, hi),
        band, and whether it is in (`passed`)."""
        return frame(columns(_display.claim_rows(self.verdicts())), self._backend)

    @property
    def series(self) -> Any:
        """Values over virtual time (at_ns), of replays over the accesses."""
        return frame(self._native.series(), self._backend)

    @property
    def histograms(self) -> Any:
        """Distributions of times: how many are in each cell, and its upper end in ns."""
        return frame(self._native.histograms(), self._backend)

    @cached_property
    def charts(self) -> Charts:
        """Charts as Vega-Lite specifications."""
        made = self._native.charts()
        return Charts([Chart(i, title, about, json.loads(spec)) for i, title, about, spec in made])

    def _repr_html_(self) -> str:
        if self._native.kind == "experiment":
            return _display.experiment(self._json)
        if self._native.kind == "curves":
            return _display.curves(self._json)
        return _display.replays(self._json)

    def _ipython_display_(self) -> None:
        _display.show_table(self._repr_html_(), self._native.text())
        self.charts._ipython_display_()

    def __repr__(self) -> str:
        return self._native.text()
