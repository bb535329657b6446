"""Runs, replays and lists of the lab."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coldset
import coldset.lab as lab
import numpy as np
import pytest

pd = pytest.importorskip("pandas")
SMALL: dict[str, Any] = {"scale": "1/2048", "effort": 0.05}


@pytest.fixture(scope="module")
def result() -> lab.Result:
    return lab.run("mongodb", variants=["base", "classic", "v5"], seeds=3, progress=False, **SMALL)


@pytest.fixture(scope="module")
def replayed() -> lab.Result:
    circle = np.arange(20_000) % 1000
    return lab.replay(circle, memory=["25%", 500], variants=["fifo", "v5"])


def test_frames_agree_with_the_json(result: lab.Result) -> None:
    value = json.loads(result.to_json())
    assert result.variants == ["base", "classic", "v5"] and value["seeds"] == [1, 2, 3]
    table = result.frame().set_index(["variant", "seed", "counter"])["value"]
    means = result.counters.set_index(["variant", "counter"])
    count = 0
    for variant, counters in value["variants"].items():
        for name, counter in counters.items():
            assert [table[variant, seed, name] for seed in (1, 2, 3)] == counter["per_seed"]
            assert means.loc[(variant, name), "mean"] == pytest.approx(counter["mean"], rel=1e-12)
            assert means.loc[(variant, name), "lo"] == pytest.approx(counter["ci95"][0])
            count += 1
    assert count > 20 and len(table) == 3 * count
    claims = result.claims
    assert list(claims["claim"]) == [c["name"] for c in value["claims"]]
    assert list(claims["passed"]) == [c["pass"] for c in value["claims"]]
    assert set(result.series.columns) == {"variant", "seed", "series", "at_ns", "value"}
    assert len(result.series) > 0
    assert set(result.histograms.columns) == {"variant", "seed", "histogram", "upper_ns", "count"}


def test_a_run_is_what_the_command_runs(result: lab.Result) -> None:
    again = lab.run("mongodb", seeds=3, jobs=1, **SMALL)
    assert again.to_json() == result.to_json()
    assert repr(again) == repr(result) and "throughput" in repr(result)


def test_settings_reach_the_run() -> None:
    kwargs = {**SMALL, "effort": "1/50", "seeds": 1, "variants": "base"}
    plain = lab.run("mongodb", **kwargs)
    changed = lab.run(
        "mongodb", set={"smaller_batch": True}, cost={"nvme_read_lat_ns": 20_000},
        params={"threads": 16}, **kwargs,
    )
    parameters = json.loads(changed.to_json())["parameters"]
    assert parameters == {
        "threads": "16", "set smaller_batch": "on", "cost nvme_read_lat_ns": "20000"
    }
    assert plain.frame()["value"].tolist() != changed.frame()["value"].tolist()
    assert plain.verdicts() == [] and len(plain.claims) == 0


def test_arrays_are_traces(replayed: lab.Result, tmp_path: Path) -> None:
    table = replayed.frame().set_index(["memory_pages", "variant", "counter"])["value"]
    for memory in (250, 500):
        # A circle larger than memory never hits under FIFO and LRU.
        assert table[memory, "fifo", "misses"] == 20_000
        assert table[memory, "(bounds)", "lru_misses"] == 20_000
        assert 1000 <= table[memory, "(bounds)", "opt_misses"] < 20_000
    wide = replayed.counters.set_index(["memory_pages", "variant"])
    assert wide.loc[(250, "fifo"), "misses"] == 20_000
    assert set(replayed.series.columns) == {"memory_pages", "variant", "series", "access", "value"}
    path = tmp_path / "circle.pageops"
    lab.save_trace(path, np.arange(20_000) % 1000)
    again = lab.replay(path, memory=["25%", "500pages"], variants="fifo,v5")
    # The command tells the file, too.
    told = json.loads(again.to_json())
    assert told.pop("trace") == "circle.pageops" and told == json.loads(replayed.to_json())
    command = [sys.executable, "-m", "coldset", "lab", "replay", path, "--memory=25%,500pages", "--variants=fifo,v5"]
    subprocess.run([*command, f"--json={tmp_path / 'json'}"], check=True, capture_output=True)
    assert again.to_json() == (tmp_path / "json").read_text()


def test_journals_are_traces(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    try:
        pool = coldset.Pool("1MiB", swap="lz4:16MiB")
    except coldset.Error as e:
        pytest.skip(str(e))
    pool.record(path)
    pool.zeros(4 << 20, "u1")[:] = 1
    pool.stop_recording()
    plain = lab.replay(path, variants="v5")
    apart = json.loads(lab.replay(path, variants="v5", one_task=True).to_json())
    assert apart["settings"].pop("one_task") == "on" and apart == json.loads(plain.to_json())
    assert plain.variants == ["v5"] and "journal" in json.loads(plain.to_json())
    assert lab.mrc(path, policies=["lru", "fifo"], points=3).variants == ["lru", "fifo"]
    plain.report(tmp_path / "page.html")
    assert "<!DOCTYPE html>" in (tmp_path / "page.html").read_text()
    with pytest.raises(coldset.SettingError, match="Mine is written in Python; convert the journal first"):
        lab.replay(path, variants=Mine)
    with pytest.raises(coldset.SettingError, match="Mine is written in Python; convert the journal first"):
        lab.mrc(path, policies=Mine)


class Mine(lab.Policy):
    """First in, first out."""

    def __init__(self, frames: int) -> None:
        self.queue: list[int] = []

    def insert(self, page: int) -> None:
        self.queue.append(page)

    def evict(self) -> int:
        return self.queue.pop(0)


@pytest.mark.parametrize("empty", [[], (), np.array([])])
def test_an_empty_list_is_no_default(empty: Any) -> None:
    circle = np.arange(2000) % 600
    for call, name in (
        (lambda: lab.replay(circle, memory=0.5, variants=empty), "variants"),
        (lambda: lab.replay(circle, memory=0.5, variants=empty, device="hdd"), "variants"),
        (lambda: lab.replay(circle, memory=empty), "memory"),
        (lambda: lab.replay(circle, memory=empty, device="hdd"), "memory"),
        (lambda: lab.mrc(circle, policies=empty), "policies"),
        (lambda: lab.mrc(circle, sizes=empty), "sizes"),
    ):
        with pytest.raises(coldset.SettingError, match=f"^{name} is empty; .* at least one"):
            call()


def test_none_is_the_default() -> None:
    circle = np.arange(2000) % 600
    given = lab.replay(circle, memory=0.5, variants=None)
    assert given.to_json() == lab.replay(circle, memory=0.5).to_json()


def test_writes_objects_and_anonymous_memory() -> None:
    rng = np.random.default_rng(1)
    pages = rng.integers(0, 600, 8_000)
    writes = rng.random(8_000) < 0.5
    dirty = lab.replay(pages, writes=writes, memory="50%", variants="v5", bounds=False).counters
    clean = lab.replay(pages, memory="50%", variants="v5", bounds=False).counters
    assert dirty["disk_written_pages"][0] > clean["disk_written_pages"][0]
    objects = pages % 3
    both = lab.replay(pages, objects=objects, memory="50%", variants="v5").frame()
    assert both["value"].max() >= 8_000
    anon = lab.replay(pages, writes=True, anon=True, memory="50%", variants="v5").counters
    assert anon["pswpin"][0] > 0
    # Addresses of a program: pages beyond 2^31 keep their order.
    high = lab.replay(pages + (0x7F00_0000_0000 >> 12), memory="50%", variants="v5", bounds=False)
    assert high.counters["misses"][0] == clean["misses"][0]


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    result = lab.replay(np.arange(4000) % 600, memory="50%", variants="v5", backend="polars")
    for frame in (result.frame(), result.counters, result.series):
        assert isinstance(frame, polars.DataFrame)
    assert isinstance(result.frame(backend="pandas"), pd.DataFrame)
    assert isinstance(lab.variants(backend="polars"), polars.DataFrame)


def test_lists() -> None:
    experiments = lab.experiments().set_index("experiment")
    assert experiments.loc["mongodb", "before"] == "base" and len(experiments) >= 13
    assert "timer_hz=250" in experiments.loc["throttling-oom", "deviations"]
    deviations = lab.deviations().set_index(["of", "cost"])
    assert deviations.loc[("throttling-oom", "timer_hz"), "here"] == 250
    assert "lab replay" in set(lab.deviations()["of"])
    variants = set(lab.variants()["variant"])
    assert {"classic", "base", "v5", "+tlbbatch"} <= variants
    assert lab.switches("base").set_index("switch").loc["smaller_batch", "value"] == "off"
    assert "threads" in set(lab.params("mongodb")["param"])
    assert set(lab.costs()["mark"]) == {"P", "A", "S"}
    assert lab.version().startswith(coldset.__version__ + "+")
    assert coldset.lab is lab


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: lab.run("mongo"), ValueError, "did you mean 'mongodb'"),
        (lambda: lab.run("mongodb", variants="v55"), ValueError, "did you mean 'v5'"),
        (lambda: lab.run("mongodb", seeds=0), ValueError, "seeds is 0"),
        (lambda: lab.run("mongodb", seeds=1.5), ValueError, "seeds is 1.5"),
        (lambda: lab.run("mongodb", scale=64), ValueError, "1/64"),
        (lambda: lab.run("mongodb", effort=0), ValueError, "0.001"),
        (lambda: lab.run("mongodb", set={"smaler_batch": 1}), ValueError, "smaller_batch"),
        (lambda: lab.run("mongodb", set="smaller_batch"), ValueError, "name=value"),
        (lambda: lab.run("mongodb", cost={"nvme": 1}), ValueError, "nvme"),
        (lambda: lab.run("mongodb", cost={"nvme_read_lat_ns": 1.5}), ValueError, "whole number"),
        (lambda: lab.run("mongodb", params={"thread": 1}), ValueError, "threads"),
        (lambda: lab.run("mongodb", backend="arrow"), ValueError, "pandas"),
        (lambda: lab.run("mongodb", scale="1/65536", seeds=1), coldset.Error, "use 1/"),
        (lambda: lab.replay("/nowhere.trace"), FileNotFoundError, "/nowhere.trace"),
        (lambda: lab.replay(np.arange(0)), ValueError, "empty"),
        (lambda: lab.replay(np.arange(9.0)), ValueError, "whole numbers"),
        (lambda: lab.replay(np.zeros((2, 2), int)), ValueError, "one dimension"),
        (lambda: lab.replay([1, -1]), ValueError, "-1 to 1"),
        (lambda: lab.replay([1, 2], writes=[True]), ValueError, "one for each"),
        (lambda: lab.replay([1, 2], objects=[1, 256]), ValueError, "255"),
        (lambda: lab.replay(np.arange(900), memory="5%"), ValueError, "128"),
        (lambda: lab.replay("x.trace", anon=True), ValueError, "anon"),
        (lambda: lab.params("mongo"), ValueError, "experiments"),
        (lambda: lab.run("mongodb", cost={"x": 1}), ValueError, r"no cost is named 'x'; see: coldset.lab.costs\(\)"),
        (lambda: lab.run("mongodb", set={"x": 1}), ValueError, r"no switch is named 'x' \(see: coldset.lab.switches\(\)\)"),
        (lambda: lab.run("mongodb", variants="vv5"), ValueError, r"'vv5' \(see: coldset.lab.variants\(\)\)"),
        (lambda: lab.run("mongo"), ValueError, r"\(see: coldset.lab.experiments\(\)\); did you mean"),
        (lambda: lab.replay([1, 2], variants="vv5"), ValueError, r"coldset.lab.variants\(\)"),
        (lambda: lab.cells({"experiments": "mongodb", "variants": "vv5"}), ValueError, r"coldset.lab.variants\(\)"),
        (lambda: lab.replay(b"path"), TypeError, r"trace is b'path' \(bytes\); it takes the path of a file or an array"),
        (lambda: lab.mrc(b"path"), TypeError, r"trace is b'path' \(bytes\); it takes the path of a file or an array"),
        (lambda: lab.mrc([1, 2], xyzzy=1), TypeError, "format, jobs, kernel_memory"),
        (lambda: lab.cells({"experimets": "mongodb"}), ValueError, "did you mean 'experiments'"),
        (lambda: lab.cells({"experiments": {1, 2}}), ValueError, "lists and dictionaries"),
        (lambda: lab.cells("/nowhere.toml"), FileNotFoundError, "nowhere"),
    ],
)
def test_mistakes(call: Callable[[], object], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_display(result: lab.Result, replayed: lab.Result) -> None:
    html = result._repr_html_()
    value = json.loads(result.to_json())
    for part in ("mongodb", "95 % interval", "verdict", "base", "v5", "pgscan"):
        assert part in html
    for claim in value["claims"]:
        assert claim["name"] in html
    assert "OPT" in replayed._repr_html_()
    for shown in (result, replayed):
        assert len(shown.charts) > 0
        # A picture takes a moment each.
        for chart in shown.charts[:2]:
            bundle = chart._repr_mimebundle_()
            spec = bundle["application/vnd.vegalite.v5+json"]
            assert "vega-lite/v5" in spec["$schema"]
            assert chart.title in bundle["text/plain"]
    first = result.charts[0]
    assert result.charts[first.id] is first
    with pytest.raises(KeyError, match=first.id):
        result.charts["nothing"]
    pytest.importorskip("vl_convert")
    assert first._repr_mimebundle_()["image/svg+xml"].startswith("<svg")


def test_reports_and_curves(result: lab.Result, replayed: lab.Result, tmp_path: Path) -> None:
    for made, part in ((result, "coldset.lab.run("), (replayed, "coldset.lab.replay(pages")):
        made.report(tmp_path / "out.html")
        page = (tmp_path / "out.html").read_text()
        assert page.startswith("<!") and part in page
    circle = np.arange(20_000) % 1000
    curves = lab.mrc(circle, policies=["lru", "fifo", "opt"], sizes=["25%", 500, "100%"])
    table = curves.curves.set_index(["policy", "pages"])["misses"]
    assert table["lru", 500] == table["fifo", 250] == 20_000 and table["opt", 1000] == 1000
    assert curves.variants == ["lru", "fifo", "opt"] and len(curves.charts) == 1
    assert "Miss ratios" in curves._repr_html_() and "lru" in repr(curves)
    with pytest.raises(ValueError, match="no page of curves"):
        curves.report(tmp_path / "curves.html")
    with pytest.raises(ValueError, match="sieve"):
        lab.mrc(circle, policies="seive")


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, replayed: lab.Result) -> None:
    for name in ("pandas", "polars", "tqdm", "tqdm.auto"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'coldset\[lab\]'"):
        replayed.frame()
    with pytest.raises(ImportError, match=r"pip install 'coldset\[polars\]'"):
        replayed.frame(backend="polars")
    with pytest.raises(ImportError, match="tqdm"):
        lab.replay([1] * 200 + list(range(300)), memory=128, progress=True)
    # Nobody asked for it: no bar.
    lab.replay(list(range(300)), memory=128, variants="v5")


def test_ctrl_c_stops_a_run(tmp_path: Path) -> None:
    """It stops long before the run would end."""
    program = tmp_path / "long.py"
    program.write_text(
        "import coldset.lab\nprint('begin', flush=True)\n"
        "try:\n    coldset.lab.run('mongodb', seeds=1000, scale='1/64', effort=4)\n"
        "except KeyboardInterrupt:\n    print('stopped', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == "begin\n"
            time.sleep(0.5)
            os.kill(child.pid, signal.SIGINT)
            out, _ = child.communicate(timeout=30)
        finally:
            child.kill()
    assert out == "stopped\n" and child.returncode == 0


def test_results_can_be_pickled() -> None:
    circle = np.arange(5000) % 1000
    for made in (
        lab.replay(circle, memory=200, variants="v5"),
        lab.replay(circle, memory=200, variants="v5", device="hdd"),
        lab.mrc(circle, policies="lru"),
        lab.run("tlb-stress", seeds=2, scale="1/512", effort=0.05),
    ):
        again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(made))))
        assert again.to_json() == made.to_json() and repr(again) == repr(made)
        assert again.counters.equals(made.counters) and again.frame().equals(made.frame())
        assert [chart.spec for chart in again.charts] == [chart.spec for chart in made.charts]


def test_counters_of_who_was_killed_have_other_names(tmp_path: Path) -> None:
    path = tmp_path / "stores.pageops"
    lab.save_trace(path, np.arange(9000) % 3000, writes=True, anon=True)
    apart: dict[str, Any] = {"one_task": True}
    for more in ({}, apart):
        result = lab.replay(path, memory=1000, variants=["v5", "v618"], swap="nvme:1MiB", **more)
        counters = result.counters
        assert (counters["killed_after"] < 9000).all()
        assert "misses" not in counters and "until_killed.misses" in counters
        assert (counters["events_oom_kill"] == 1).all()
        assert {"until_killed.misses", "killed_after"} <= {*result.frame()["counter"]}


def test_memory_that_is_only_loaded_from_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="page of zeroes"):
        lab.replay(range(5000), memory=0.5, variants="v5", anon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lab.replay(range(5000), memory=0.5, variants="v5", anon=True, writes=True)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"trace": np.ones(5000, bool)}, "True and False"),
        ({"trace": np.ma.masked_equal(np.arange(5000), 7)}, "masked"),
        ({"trace": np.arange(5000) - 1}, "negative"),
        ({"kernel_memory": 3}, "kernel_memory is 3"),
        ({"swap": 5}, "swap is 5"),
        ({"bounds": "no"}, "bounds is 'no'"),
        ({"format": "csv"}, "format says how a file is read"),
        ({"columns": "page=1"}, "columns says how a file is read"),
    ],
)
def test_what_an_array_does_not_go_with(given: dict[str, Any], part: str) -> None:
    with pytest.raises((TypeError, coldset.SettingError), match=part):
        lab.replay(**{"trace": range(5000), "memory": 200, "variants": "lru", **given})
