"""Replays beside what kernels did with the same accesses (`data/validation`)."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import coldset.lab as lab
import pytest

pytest.importorskip("pandas")
ROOT = Path(__file__).resolve().parents[2]
REFAULTS = "workingset_refault_file"


@pytest.mark.parametrize(
    ("name", "low", "error"),
    [("groups-low", {1: "24MiB"}, 0.002), ("groups-over", {0: "40MiB", 1: "40MiB"}, 0.01)],
)
def test_groups_of_three_programs_as_on_kernels(tmp_path: Path, name: str, low: dict[int, str], error: float) -> None:
    words = runpy.run_path(str(ROOT / "examples" / "three_groups.py"))["trace"](1, 5)
    words.tofile(tmp_path / "groups-read.pageops")
    recorded: dict[str, Any] = json.loads((ROOT / "data" / "validation" / f"{name}.json").read_text())
    for kernel in recorded["result"]["kernels"]:
        options: dict[str, Any] = {"memory": "64MiB", "variants": kernel["variant"], "low": low, "bounds": False}
        frame = lab.replay(tmp_path / "groups-read.pageops", **options).frame().set_index("counter")["value"]
        for counter, ours in (("refaults", REFAULTS), ("scanned", "pgscan")):
            measured = kernel["counters"][counter]["measured"]
            assert frame[ours] == pytest.approx(measured, rel=error), (kernel["kernel"], counter)


@pytest.mark.parametrize(
    ("kind", "record", "low", "error"),
    [
        ("shared", "shared", None, 0.005),
        ("swapped", "swapped", {0: "24MiB"}, 0.01),
        ("written", "written", None, 0.015),
        ("mixed", "mixed", None, 0.03),
        ("mixed", "mixed-one", None, 0.05),
        ("sparse", "sparse", None, 0.001),
    ],
)
def test_kinds_of_work_as_on_kernels(
    tmp_path: Path, kind: str, record: str, low: dict[int, str] | None, error: float
) -> None:
    words = runpy.run_path(str(ROOT / "examples" / "kinds_of_work.py"))[kind]()
    words.tofile(tmp_path / "work.pageops")
    recorded: dict[str, Any] = json.loads((ROOT / "data" / "validation" / f"{record}.json").read_text())
    for kernel in recorded["result"]["kernels"]:
        setting = kernel["prediction"]
        options: dict[str, Any] = {"memory": "64MiB", "variants": kernel["variant"], "bounds": False}
        options["swappiness"] = setting["swappiness"]
        options["swap"] = f"zram:{setting['swap_pages']}pages" if setting["swap"] == "zram" else "none"
        if low:
            options["low"] = low
        frame = lab.replay(tmp_path / "work.pageops", **options).frame().set_index("counter")["value"]
        refaults = frame[REFAULTS] + frame.get("workingset_refault_anon", 0)
        for ours, counter in ((refaults, "refaults"), (frame["pgscan"], "scanned")):
            measured = kernel["counters"][counter]["measured"]
            assert ours == pytest.approx(measured, rel=error), (kernel["kernel"], counter)
