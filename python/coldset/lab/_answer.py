"""What a command of the lab answered."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from ._child import Told
from ._frames import Backend, frame

#: Before the name of a counter, as in the CSV of the command: it ended where its variant was killed.
_UNTIL_KILLED = "until_killed."
#: Counters that are of whoever was killed as of anyone.
_OF_KILLING = ("killed_after", "events_oom_kill")
#: A line of a frame.
Row = Mapping[str, Any]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dictionaries in one another as one; intervals as `_lo` and `_hi`; without other lists and what is null."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = prefix + key
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{name}_"))
        elif isinstance(value, list):
            if len(value) == 2 and not isinstance(value[0], (dict, list, str)):
                found[f"{name}_lo"], found[f"{name}_hi"] = value
        elif value is not None:
            found[name] = value
    return found


def _columns(rows: Iterable[Row]) -> dict[str, list[Any]]:
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _advise(data: Any) -> Iterable[Row]:
    for level in data["levels"]:
        for case in level["cases"]:
            size = {name: level[name] for name in ("pages", "share")}
            cost = {name: value for name, value in case.items() if name != "cost"}
            yield {**size, **_flat({**cost, **case["cost"]})}


def _counters(variants: Mapping[str, Any]) -> Iterable[Row]:
    for variant, counters in variants.items():
        for counter, value in counters.items():
            rest = {key: found for key, found in value.items() if key != "per_seed"}
            yield {"variant": variant, "counter": counter, **_flat(rest)}


def _ablate(data: Any) -> Iterable[Row]:
    ablation = data.get("ablation", data)
    for metric in ablation.get("metrics", [{}]):
        what = {"metric": metric["metric"], "counter": metric["counter"]} if metric else {}
        for change in metric.get("changes", ablation.get("changes", [])):
            yield {**what, **_flat(change)}


def _compare(data: Any) -> Iterable[Row]:
    groups = [({"variant": name}, counters) for name, counters in data.get("variants", {}).items()]
    for pair in data.get("columns", []):
        names = {side: pair[side]["column"] for side in ("before", "after")}
        groups.append(({"variant": names["before"], "variant_after": names["after"]}, pair["counters"]))
    for what, counters in groups:
        for counter, found in counters.items():
            sides = {side: (found[side] or {}).get("mean") for side in ("before", "after")}
            rest = {key: value for key, value in found.items() if key not in sides}
            yield {**what, "counter": counter, **sides, **_flat(rest)}


def _inspect(data: Any) -> Iterable[Row]:
    for state in data:
        for lruvec in state["lruvecs"]:
            where = {"variant": state["variant"], "memcg": lruvec["memcg"], "node": lruvec["node"]}
            for generation in lruvec.get("generations", []):
                yield {**where, **generation}
            for name, pages in lruvec.get("lists", []):
                yield {**where, "list": name, "pages": pages}


def _fidelity(data: Any) -> Iterable[Row]:
    for case in data.get("cases", []):
        what = {name: case[name] for name in ("kernel", "case", "policy", "variant")}
        for counter, found in case["counters"].items():
            named = {"kernel_value" if key == "kernel" else key: v for key, v in found.items()}
            yield {**what, "counter": counter, **_flat(named)}


def _verify(data: Any) -> Iterable[Row]:
    for one in data["experiments"]:
        for claim in one["claims"]:
            yield {"experiment": one["experiment"], **_flat(claim)}


_ROWS: dict[str, Callable[[Any], Iterable[Row]]] = {
    "ablate": _ablate,
    "advise": _advise,
    "compare": _compare,
    "fidelity": _fidelity,
    "inspect": _inspect,
    "verify": _verify,
}


class Answer:
    """What a command of the lab answered: its tables as text, its JSON as `data`, its lines as a frame."""

    def __init__(self, command: str, told: Told, backend: Backend) -> None:
        self._command = command
        self._told = told
        self._backend = backend

    @cached_property
    def data(self) -> Any:
        """The JSON of the command in dicts and lists."""
        return json.loads(self._told.json or "{}")

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    @property
    def passed(self) -> bool:
        """False if a claim or a case is out of its band (exit code 1 of the command)."""
        return self._told.passed

    def to_json(self) -> str:
        """As `--json` of the command writes it."""
        return self._told.json

    def frame(self, backend: Backend | None = None) -> Any:
        """The lines of the answer: sizes and kernels of `advise`, changes of `ablate` (of an experiment for
        each of its figures), counters of `compare` and `fidelity`, generations or lists of `inspect`, claims of `verify`."""
        rows = _ROWS[self._command](self.data)
        return frame(_columns(rows), backend or self._backend)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._told.text)}</pre>"

    def __repr__(self) -> str:
        return self._told.text


class Kept:
    """All that a `LabResult` says, which can be pickled."""

    def __init__(self, native: Any, command: str) -> None:
        self.kind = native.kind
        self._page: str | None = native.html(command)
        for name in ("json", "text", "values", "curves", "means", "series", "histograms", "charts"):
            setattr(self, f"_{name}", getattr(native, name)())

    def html(self, command: str) -> str | None:
        return self._page

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self, f"_{name}")
        return lambda: found


class Apart:
    """A replay or curves of the command, with what `LabResult` has."""

    def __init__(self, kind: str, told: Told) -> None:
        self.kind = kind
        self._told = told

    def json(self) -> str:
        return self._told.json

    def text(self) -> str:
        return self._told.text

    def html(self, command: str) -> str | None:
        return self._told.page

    def values(self) -> dict[str, list[Any]]:
        data = json.loads(self._told.json)
        rows: list[Row] = []
        for replay in data.get("replays", [data]):
            bounds = replay.get("bounds") or {}
            pages = {"memory_pages": bounds.get("memory_pages")}
            killed = {name for name, counters in replay["variants"].items() if "killed_after" in counters}
            for row in _counters(replay["variants"]):
                what = {"variant": row["variant"], "counter": row["counter"]}
                if row["variant"] in killed and row["counter"] not in _OF_KILLING:
                    what["counter"] = _UNTIL_KILLED + what["counter"]
                rows.append({**pages, **what, "value": float(row.get("mean", "nan"))})
            for name, value in bounds.items():
                rows.append({**pages, "variant": "(bounds)", "counter": name, "value": float(value)})
        return _columns(rows)

    def curves(self) -> dict[str, list[Any]]:
        rows: list[Row] = []
        for curve in json.loads(self._told.json).get("curves", []):
            for point in curve["points"]:
                rows.append({"policy": curve["policy"], **point, "error": point.get("error")})
        return _columns(rows)

    def means(self) -> dict[str, list[Any]]:
        return {}

    def series(self) -> dict[str, list[Any]]:
        return {"memory_pages": [], "variant": [], "series": [], "access": [], "value": []}

    def histograms(self) -> dict[str, list[Any]]:
        return {}

    def charts(self) -> list[tuple[str, str, str, str]]:
        found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', self._told.page or "", re.S)
        charts = json.loads(found[1]) if found else []
        return [(c["id"], c["title"], c["about"], json.dumps(c["spec"])) for c in charts]
