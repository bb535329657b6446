"""Tables and charts in notebooks."""

from __future__ import annotations

import html
import importlib
import json
from typing import Any

#: What JupyterLab draws by itself.
VEGA_LITE = "application/vnd.vegalite.v5+json"
_STYLE = "text-align:right;font-variant-numeric:tabular-nums"
#: Rows of a replay's table: name of the counters that are summed, heading, name in the bounds.
_REPLAY = [
    (("misses",), "misses", "{}_misses"),
    (("miss_ratio",), "miss ratio", None),
    (("workingset_refault_file", "workingset_refault_anon"), "refaults", "{}_refaults"),
    (("pgscan",), "scanned", None),
    (("pgsteal",), "stolen", None),
]


def chart(title: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Mime bundle of a chart: the specification, for JupyterLab; with vl-convert-python also a picture,
    for whatever draws none itself (nbconvert, GitHub)."""
    spec = {**spec, "title": {"text": title, "anchor": "start"}}
    bundle: dict[str, Any] = {VEGA_LITE: spec, "text/plain": f"[chart: {title}]"}
    try:
        convert = importlib.import_module("vl_convert")
    except ImportError:
        return bundle
    bundle["image/svg+xml"] = convert.vegalite_to_svg(json.dumps(spec), vl_version="5.20")
    return bundle


def show(thing: Any) -> None:
    """Displays something in a notebook."""
    importlib.import_module("IPython.display").display(thing)


def show_table(table: str, text: str) -> None:
    """Displays a table with its form in characters."""
    display = importlib.import_module("IPython.display")
    display.display({"text/html": table, "text/plain": text}, raw=True)


def number(value: Any) -> str:
    """About four digits, thousands separated."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if value == int(value) and abs(value) < 1 << 53:
        return f"{int(value):,}"
    size = abs(value)
    digits = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:,.{digits}f}" if size >= 0.1 else f"{value:.3g}"


def _table(heads: list[str], rows: list[list[str]], left: int) -> str:
    def cell(tag: str, column: int, text: str) -> str:
        style = "text-align:left" if column < left else _STYLE
        return f'<{tag} style="{style}">{text}</{tag}>'

    head = "".join(cell("th", i, html.escape(h)) for i, h in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(cell("td", i, c) for i, c in enumerate(row)) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _band(band: Any) -> str:
    if band is None:
        return ""
    lo, hi = band
    if lo is None or hi is None:
        return f"at most {number(hi)}" if lo is None else f"at least {number(lo)}"
    return f"{number(lo)} to {number(hi)}"


def _interval(ci: Any) -> str:
    return "" if ci is None else f"{number(ci[0])} to {number(ci[1])}"


def claim_rows(claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Claims with scalars in all columns."""
    rows = []
    for claim in claims:
        lo, hi = claim["ci95"] or (None, None)
        published = claim["published"]
        rows.append(
            {
                "claim": claim["name"],
                "class": claim["class"],
                "published": None if published is None else number(published),
                "value": claim["value"],
                "lo": lo,
                "hi": hi,
                "band": _band(claim["band"]),
                "passed": claim["pass"],
                "unit": claim["unit"],
                "note": claim["note"],
            }
        )
    return rows


def _verdict(claim: dict[str, Any]) -> str:
    if claim["pass"]:
        return "in"
    reason = html.escape(str(claim.get("reason") or ""))
    return f'<strong title="{reason}">OUT</strong>'


def experiment(result: dict[str, Any]) -> str:
    """Claims, and the counters before and after."""
    variants = list(result["variants"])
    about = [f"scale {result['scale']}", f"effort {result['effort']}"]
    about.append(f"{len(result['seeds'])} seeds")
    about += [f"{name} = {value}" for name, value in result["parameters"].items()]
    out = [f"<p><strong>{html.escape(result['experiment'])}</strong>, "]
    out.append(html.escape(", ".join(about)) + "</p>")
    claims = result["claims"]
    if claims:
        rows = [
            [
                html.escape(c["name"]),
                number(c["published"]) if not isinstance(c["published"], str) else html.escape(c["published"]),
                number(c["value"]),
                _interval(c["ci95"]),
                _band(c["band"]),
                _verdict(c),
            ]
            for c in claims
        ]
        heads = ["claim", "published", "here", "95 % interval", "band", "verdict"]
        out.append(_table(heads, rows, 1))
    names: dict[str, None] = {}
    for counters in result["variants"].values():
        names.update(dict.fromkeys(counters))
    rows = []
    for name in names:
        row = [html.escape(name)]
        values = []
        for variant in variants:
            counter = result["variants"][variant].get(name)
            values.append(None if counter is None else counter["mean"])
            ci = None if counter is None else counter["ci95"]
            half = "" if ci is None else f" &plusmn; {number((ci[1] - ci[0]) / 2)}"
            row.append(number(values[-1]) + half)
        first, last = values[0], values[-1]
        if len(variants) > 1:
            row.append(number(last / first) if first and last is not None else "")
        rows.append(row)
    heads = ["counter", *variants] + (["after / before"] if len(variants) > 1 else [])
    out.append("<details><summary>Counters: mean &plusmn; half of the 95 % interval</summary>")
    out.append(_table(heads, rows, 1) + "</details>")
    return "".join(out)


def replays(result: dict[str, Any]) -> str:
    """A table for each limit."""
    out = []
    for table in result.get("replays", [result]):
        bounds = table["bounds"]
        out.append(f"<p>memory of {number(bounds['memory_pages'])} pages, ")
        out.append(f"{number(bounds['accesses'])} accesses to {number(bounds['unique_pages'])} pages</p>")
        exact = [name for name in ("lru", "opt") if f"{name}_misses" in bounds]
        rows = []
        for names, head, bound in _REPLAY:
            row = [head]
            for counters in table["variants"].values():
                if after := counters.get("killed_after"):
                    row.append(f"killed after {number(after['mean'])} accesses" if head == "misses" else "-")
                    continue
                found = [counters[n]["mean"] for n in names if n in counters]
                row.append(number(sum(found)) if found else "")
            for name in exact:
                row.append(number(bounds.get(bound.format(name))) if bound else "")
            rows.append(row)
        titles = {"lru": "exact LRU", "opt": "OPT"}
        out.append(_table(["", *table["variants"], *(titles[e] for e in exact)], rows, 1))
    return "".join(out)


def curves(result: dict[str, Any]) -> str:
    """Miss ratios: a line a size, a column a policy."""
    sizes = result["sizes"]
    at = [{p["pages"]: p["miss_ratio"] for p in c["points"]} for c in result["curves"]]
    rows = [[number(size), *(number(c.get(size)) for c in at)] for size in sizes]
    heads = ["pages", *(c["policy"] for c in result["curves"])]
    return "<p>Miss ratios</p>" + _table(heads, rows, 0)
