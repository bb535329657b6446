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


def test_random_programs_as_on_kernels(tmp_path: Path) -> None:
    """Sums over programs: under a limit a few pages higher or lower each alone differs by some percent, there and here."""
    measured: dict[tuple[str, str], float] = {}
    ours: dict[tuple[str, str], float] = {}
    for seed in (101, 103, 105):
        words = runpy.run_path(str(ROOT / "examples" / "random_work.py"))["trace"](seed)
        words.tofile(tmp_path / "work.pageops")
        recorded: dict[str, Any] = json.loads((ROOT / "data" / "validation" / f"random-{seed}.json").read_text())
        variants = [kernel["variant"] for kernel in recorded["result"]["kernels"]]
        swap = f"zram:{recorded['result']['kernels'][0]['prediction']['swap_pages']}pages"
        for pages in (12_239, 12_288, 12_337):
            options: dict[str, Any] = {"memory": f"{pages}pages", "variants": variants, "bounds": False, "swap": swap}
            frame = lab.replay(tmp_path / "work.pageops", **options).frame().set_index(["variant", "counter"])["value"]
            for variant in variants:
                counted = frame[variant]
                refaults = counted[REFAULTS] + counted["workingset_refault_anon"]
                for name, value in (("refaults", refaults), ("scanned", counted["pgscan"])):
                    ours[variant, name] = ours.get((variant, name), 0) + value / 3
        for kernel in recorded["result"]["kernels"]:
            for name in ("refaults", "scanned"):
                at = kernel["variant"], name
                measured[at] = measured.get(at, 0) + kernel["counters"][name]["measured"]
    assert len(measured) == 6
    for at, value in measured.items():
        assert ours[at] == pytest.approx(value, rel=0.04 if at[1] == "refaults" else 0.02), at


def test_a_pass_that_skips_every_task_leaves_the_filter(tmp_path: Path) -> None:
    """What 6.18 activates follows from it: with a filter that is emptied it is 12 % more."""
    work = runpy.run_path(str(ROOT / "examples" / "random_work.py"))
    work["only_reads"](work["trace"](101)).tofile(tmp_path / "work.pageops")
    recorded: dict[str, Any] = json.loads((ROOT / "data" / "validation" / "random-101-reads.json").read_text())
    kernel = recorded["result"]["kernels"][0]
    assert kernel["variant"] == "v618"
    options: dict[str, Any] = {"variants": "v618", "bounds": False, "swap": "zram:27135pages"}
    activated, refaults = 0.0, 0.0
    # The kernel's mean is over limits as near as these.
    for pages in (12_239, 12_288, 12_337):
        replay = lab.replay(tmp_path / "work.pageops", memory=f"{pages}pages", **options)
        counted = replay.frame().set_index("counter")["value"]
        activated += counted["pgactivate"] / 3
        refaults += (counted[REFAULTS] + counted["workingset_refault_anon"]) / 3
    assert activated == pytest.approx(kernel["counters"]["activated"]["measured"], rel=0.04)
    assert refaults == pytest.approx(kernel["counters"]["refaults"]["measured"], rel=0.01)
