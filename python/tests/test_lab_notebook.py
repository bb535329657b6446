"""The notebook runs, and shows what it should."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "before_after.ipynb"
HTML, VEGA = "text/html", "application/vnd.vegalite.v5+json"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    # Nobody's settings.
    settings = str(tmp_path_factory.mktemp("settings"))
    os.environ["IPYTHONDIR"] = os.environ["JUPYTER_CONFIG_DIR"] = settings
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return notebook


def outputs(notebook: Any, tag: str) -> list[Any]:
    (cell,) = [c for c in notebook.cells if tag in c.metadata.get("tags", [])]
    assert all(o.output_type != "error" for o in cell.outputs)
    return list(cell.outputs)


def kinds(notebook: Any, tag: str) -> list[set[str]]:
    return [set(o.get("data", {})) for o in outputs(notebook, tag)]


def first_table(notebook: Any, tag: str) -> str:
    tables = [o["data"][HTML] for o in outputs(notebook, tag) if HTML in o.get("data", {})]
    return str(tables[0])


def shown(notebook: Any) -> list[list[str]]:
    """What each cell shows, in characters. Temporary folders have another name each time."""
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    texts = [
        ["".join(o.get("text") or o["data"]["text/plain"]) for o in c["outputs"] if o.get("name") != "stderr"]
        for c in cells
    ]
    return [[re.sub(r"/tmp/\w+", "/tmp/results", text) for text in cell] for cell in texts]


def test_it_is_stored_with_what_it_shows(executed: Any) -> None:
    stored = json.loads(NOTEBOOK.read_text())
    assert shown(stored) == shown(executed), "renew it: target/venv/bin/python scripts/notebook"
    pictures = [o for c in stored["cells"] for o in c.get("outputs", []) if "image/svg+xml" in o.get("data", {})]
    assert len(pictures) > 10


def test_tables_and_charts(executed: Any) -> None:
    for tag in ("experiments", "why", "steps", "again"):
        assert any(HTML in kind for kind in kinds(executed, tag)), tag
    for tag in ("run", "replay"):
        shown = kinds(executed, tag)
        charts = [kind for kind in shown if VEGA in kind]
        assert len(charts) >= 1, tag
    for cell in executed.cells:
        for output in cell.get("outputs", []):
            spec = output.get("data", {}).get(VEGA)
            if spec is not None:
                assert output["data"]["text/plain"] == f"[chart: {spec['title']['text']}]"
    table = first_table(executed, "run")
    assert "verdict" in table and "TLB shootdowns" in table
    assert "OPT" in first_table(executed, "replay")
    text = "".join(o.get("text", "") for o in outputs(executed, "again"))
    assert "0 computed, 12 found\n" in text


def test_nothing_is_printed_beside(executed: Any) -> None:
    for cell in executed.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                # A slow machine sees progress.
                text = output["text"].strip()
                assert text == "" or "run/s" in text or "s/run" in text, text


def test_it_shows_in_html(executed: Any) -> None:
    nbconvert = pytest.importorskip("nbconvert")
    pytest.importorskip("vl_convert")
    page, _ = nbconvert.HTMLExporter().from_notebook_node(executed)
    charts = sum(VEGA in kind for tag in ("run", "replay") for kind in kinds(executed, tag))
    assert page.count("image/svg+xml") >= charts > 0
    assert "95 % interval" in page
