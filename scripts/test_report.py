"""Opens pages of `coldset lab ... --report` in headless Chromium and looks whether they are right.

Usage: test_report.py PAGES [--shots DIR], PAGES being a folder of NAME.html with NAME.json.
"""

import json
import pathlib
import re
import shutil
import sys
from decimal import Decimal

from playwright.sync_api import sync_playwright

SIZE_MAX = 3_000_000
# Schemes of colour and media that a reader may have.
LOOKS = [("light", "screen"), ("dark", "screen"), ("light", "print")]

# Every number in a table with its text and place in the JSON; every chart with what was drawn.
READ = """() => ({
  cells: Array.from(document.querySelectorAll('td[data-json]'), td => ({
    text: td.textContent, value: td.dataset.value, place: td.dataset.json})),
  json: document.getElementById('result').textContent,
  charts: Array.from(document.querySelectorAll('.chart'), div => ({
    id: div.dataset.chart,
    about: div.parentElement.querySelector('figcaption p').textContent,
    pictures: div.querySelectorAll('svg').length,
    titles: Array.from(div.querySelectorAll('.role-axis-title text'), t => t.textContent),
    marks: div.querySelectorAll('.mark-line path[d], .mark-rect path[d], .mark-symbol path[d]').length,
    bad: /NaN|undefined|Infinity/.test(div.innerHTML),
    box: div.getBoundingClientRect().toJSON()})),
  ready: document.documentElement.dataset.charts,
  title: document.title,
  headline: document.querySelector('.headline').textContent,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  ids: Array.from(document.querySelectorAll('[id]'), e => e.id),
})"""

# Colours of a screenshot (a data URL) of a chart: how many, and the share of the commonest.
COLOURS = """async url => {
  const image = new Image(); image.src = url; await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const at = canvas.getContext('2d'); at.drawImage(image, 0, 0);
  const pixels = new Uint32Array(at.getImageData(0, 0, image.width, image.height).data.buffer);
  const counts = new Map();
  for (const p of pixels) counts.set(p, (counts.get(p) || 0) + 1);
  return [counts.size, Math.max(...counts.values()) / pixels.length];
}"""


def at_pointer(value, pointer):
    """RFC 6901."""
    for key in pointer.split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def check_numbers(name, page, written):
    """Cells hold the exact number of the JSON and show it to the digits they have."""
    inside = json.loads(page["json"])
    assert inside == written, f"{name}: the JSON in the page is not that of --json"
    assert page["cells"], f"{name}: no numbers"
    for cell in page["cells"]:
        exact = at_pointer(inside, cell["place"])
        factor = 100 if cell["text"].endswith("%") else 1
        assert abs(float(cell["value"]) - float(exact)) <= 1e-14 * abs(float(exact)), (name, cell, exact)
        shown = cell["text"].split(" ")[0].replace(",", "")
        if shown == "n/a":
            continue
        # Half of the last digit that is shown, in the scientific form as well.
        last = Decimal(1).scaleb(Decimal(shown).as_tuple().exponent)
        error = abs(Decimal(shown) - factor * Decimal(repr(float(exact))))
        assert error <= last * Decimal("0.5000001"), (name, cell, exact)


def check_variants(name, page, written):
    """Every variant has its figures in a table, but for replays that were killed."""
    places = {cell["place"] for cell in page["cells"]}
    tables = [("", written)] + [(f"/replays/{i}", table) for i, table in enumerate(written.get("replays", []))]
    for place, table in tables:
        for variant, counters in table.get("variants", {}).items():
            # Of a comparison and of an ablation, tables are of two of them.
            if "killed_after" in counters or name in ("compare", "ablate"):
                continue
            start = f"{place}/variants/{variant.replace('~', '~0').replace('/', '~1')}/"
            assert any(p.startswith(start) for p in places), f"{name}: no figure of {variant}"


def has_unit(title):
    """`memory, MiB`, `pages per s`, `change of x, %`; lists and measures are names, not numbers."""
    unit = r"(, (%|ns|µs|ms|s|MiB)\b)|(, %)|\bper (s|1000 accesses)$|^(pages|MiB|events)$|\((logarithmic|.*unit.*)\)"
    return re.search(unit, title) or re.search(r"^(measure|patch or switch|list \(by age)", title)


def check_charts(name, page):
    """Each chart is drawn, with two titled axes that have units."""
    assert page["ready"] == "drawn", f"{name}: {page['ready']}"
    assert len(set(page["ids"])) == len(page["ids"]), f"{name}: an id occurs twice"
    for chart in page["charts"]:
        what = f"{name}, {chart['id']}"
        assert len(set(chart["titles"])) >= 2, f"{what}: axis titles {chart['titles']}"
        for title in chart["titles"]:
            assert has_unit(title), f"{what}: no unit in '{title}'"
        assert chart["pictures"] == 1, f"{what}: {chart['pictures']} pictures"
        assert chart["marks"] > 0 and not chart["bad"], f"{what}: nothing drawn, or NaN"
        assert chart["about"], what


def check_pixels(name, browser_page):
    """More than one colour beside the ground in the picture of each chart."""
    import base64

    for chart in browser_page.query_selector_all(".chart"):
        picture = base64.b64encode(chart.screenshot()).decode()
        colours, ground = browser_page.evaluate(COLOURS, "data:image/png;base64," + picture)
        what = f"{name}, {chart.get_attribute('data-chart')}"
        assert colours > 8 and ground < 0.999, f"{what}: {colours} colours, ground {ground:.4f}"


def look(browser, path, shots):
    """One page in all looks; returns how many charts and numbers it has."""
    name = path.stem
    assert path.stat().st_size < SIZE_MAX, f"{path}: {path.stat().st_size} bytes"
    written = json.loads(path.with_suffix(".json").read_text())
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    tab = context.new_page()
    errors, requests = [], []
    tab.on("console", lambda m: m.type in ("error", "warning") and errors.append(m.text))
    tab.on("pageerror", lambda e: errors.append(str(e)))
    tab.on("request", lambda r: r.url.startswith("data:") or requests.append(r.url))
    page = None
    for scheme, media in LOOKS:
        tab.emulate_media(color_scheme=scheme, media=media)
        if page is None:
            tab.goto(path.as_uri())
            tab.wait_for_function("document.documentElement.dataset.charts", timeout=30_000)
        page = tab.evaluate(READ)
        where = f"{name} ({scheme}, {media})"
        check_charts(where, page)
        if media == "screen":
            assert page["wide"] <= 0, f"{where}: wider than the window by {page['wide']} pixels"
        check_pixels(where, tab)
        if shots:
            tab.screenshot(path=shots / f"{name}-{scheme}-{media}.png", full_page=True)
    check_numbers(name, page, written)
    check_variants(name, page, written)
    tab.emulate_media(media="screen")
    tab.set_viewport_size({"width": 360, "height": 640})
    wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{name}: wider than a narrow window by {wide} pixels"
    assert requests == [path.as_uri()], f"{name}: fetched {requests[1:]}"
    assert not errors, f"{name}: {errors}"
    context.close()
    return len(page["charts"]), len(page["cells"])


def main(pages, shots=None):
    """All pages of a folder."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for path in sorted(pages.glob("*.html")):
            charts, numbers = look(browser, path, shots)
            print(f"test-report: {path.name}: {path.stat().st_size >> 10} KiB, {charts} charts, {numbers} numbers")
        browser.close()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    folder = None
    if "--shots" in arguments:
        at = arguments.index("--shots")
        folder = pathlib.Path(arguments[at + 1])
        folder.mkdir(parents=True, exist_ok=True)
    main(pathlib.Path(arguments[0]).resolve(), folder)
