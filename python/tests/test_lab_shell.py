"""Commands of the lab as functions: their keywords are the options of the command, and so are their answers."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coldset
import coldset.lab as lab
import numpy as np
import pytest
from coldset.lab import _child, _kinds, _options

pd = pytest.importorskip("pandas")
CIRCLE = np.arange(20_000) % 1000
#: Options that are methods of results, or nothing for a function.
NOT_HERE = {"help", "version", "json", "markdown", "no-plot"}
#: Placeholders of the help by what must take them.
PLACES = {
    "N": "Number",
    "ACCESSES": "Number",
    "NAME,...": "Names",
    "BEFORE,AFTER": "Names",
    "SIZE": "Size",
    "pages|peak|SIZE": "Size",
    "SIZE,...": "Sizes",
    "NAME=VALUE": "Pairs",
    "SWITCH=VALUE": "Pairs",
    "TASK=SIZE": "Limits",
    "ACCESS:SECONDS,...": "Points",
    "KERNEL_MEMORY": "OnOff",
    "LARGE_FOLIOS": "OnOff",
    "HOLD_BLOCKS": "OnOff",
    "FACTOR": "Factor",
    "RATE": "Factor",
    "1/N": "Factor",
    "PERCENT": "Percent",
    "FILE": "PathName",
    "FILE.html": "PathName",
    "FOLDER": "PathName",
    "HOW": "How",
    None: "Flag",
}
#: Options that are amounts of a trace's memory: a whole number is a number of pages there.
OF_THE_TRACE = {"memory", "today", "sizes"}


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_child.command(), "lab", *arguments], capture_output=True, text=True)


def options(help_text: str) -> dict[str, str | None]:
    """Options of a help text, without leading hyphens, and their placeholders."""
    listed = help_text.partition("Options:\n")[2].partition("Examples:\n")[0]
    found = re.findall(r"^ {2,6}(?:-\w, )?--([a-z-]+)(?: \[?<([^>]+)>\]?)?(?:  .*)?$", listed, re.M)
    return {name: place or None for name, place in found}


def differences(subcommand: str, help_text: str) -> list[str]:
    """What the help of the command and the table do not have in common."""
    table = _options.kinds(_options.TABLE[subcommand])
    said = {n: p for n, p in options(help_text).items() if n not in NOT_HERE}
    names = {_kinds.option_of(name)[2:]: kind for name, kind in table.items()}
    wrong = [f"{n} is not in Python" for n in said if n not in names]
    wrong += [f"{n} is not in the command" for n in names if n not in said]
    for name, place in said.items():
        kind = PLACES.get(place, "Text")
        if name in OF_THE_TRACE:
            kind = {"Sizes": "Memories"}.get(kind, "Memory")
        if name in names and names[name] is not getattr(_kinds, kind).__metadata__[0]:
            wrong.append(f"{name} takes {place}, which is {kind}, not {names[name].takes}")
    return wrong


@pytest.mark.parametrize("given", [500, "500pages", 0.5, "2000KiB"])
def test_memory_means_the_same_everywhere(given: object) -> None:
    options = {"kernel_memory": False}
    advice = lab.advise(CIRCLE, memory=given, for_="fifo", **options).frame()
    replay = lab.replay(CIRCLE, memory=given, variants="fifo", **options)
    curve = lab.mrc(CIRCLE, sizes=given, policies="fifo", **options)
    lists = lab.inspect(CIRCLE, memory=given, variants="classic", at=20_000).frame()
    assert advice["pages"].tolist()[-1] == 500
    assert replay.frame()["memory_pages"].unique().tolist() == [500]
    assert curve.frame()["pages"].unique().tolist() == [500]
    assert 400 < lists["pages"].sum() <= 500


@pytest.mark.parametrize("subcommand", sorted(_options.TABLE))
def test_keywords_are_the_options_of_the_command(subcommand: str) -> None:
    shown = command(subcommand, "--help").stdout
    assert len(options(shown)) >= 4
    assert differences(subcommand, shown) == []
    # And all of them are in the signature, which completion shows.
    signature = inspect.signature(getattr(lab, subcommand)).parameters
    assert set(_options.kinds(_options.TABLE[subcommand])) <= set(signature)


def test_a_new_option_is_noticed() -> None:
    shown = command("inspect", "--help").stdout
    more = shown.replace("      --age <N>", "      --newest <N>\n          Planted\n\n      --age <N>")
    assert more != shown and differences("inspect", more) == ["newest is not in Python"]
    assert differences("inspect", shown.replace("--age <N>", "--older <N>")) == [
        "older is not in Python", "age is not in the command"
    ]
    assert differences("inspect", shown.replace("--age <N>", "--age"))[0].startswith("age takes None")


def test_every_function_of_the_table_is_exported() -> None:
    assert set(_options.TABLE) <= set(lab.__all__)


def test_figures_are_those_of_the_command(tmp_path: Path) -> None:
    trace = tmp_path / "circle.pageops"
    lab.save_trace(trace, CIRCLE)
    advice = lab.advise(trace, memory=[0.9, "500pages", 512], for_=["v73", "fifo"], kernel_memory=False)
    line = ["advise", str(trace), "--memory", "90%,500pages,2MiB", "--for", "v73,fifo", "--kernel-memory", "off"]
    said = command(*line, "--json", "-")
    assert advice.data == json.loads(said.stdout) and advice.passed
    # As arithmetic has it: FIFO in a circle larger than memory misses every time.
    table = advice.frame().set_index(["pages", "variant"])["reads"]
    assert [table[p, "fifo"] for p in (1000, 900, 512, 500)] == [1000, 20_000, 20_000, 20_000]
    assert repr(advice).rstrip() == command(*line).stdout.rstrip()
    assert "<pre>" in advice._repr_html_() and advice["unique_pages"] == 1000
    # An array is the same trace, and its file is not named by where it was.
    again = lab.advise(CIRCLE, memory=[0.9, "500pages", 512], for_="v73,fifo", kernel_memory=False)
    assert again.data == advice.data and "coldset-" not in repr(again)


def test_replay_by_the_command_is_the_replay() -> None:
    plain = lab.replay(CIRCLE, memory=[0.5, 250], variants=["fifo", "v5"])
    apart = lab.replay(CIRCLE, memory=[0.5, 250], variants=["fifo", "v5"], one_task=True)
    without = [{k: v for k, v in json.loads(r.to_json()).items() if k != "trace"} for r in (plain, apart)]
    assert without[1]["settings"].pop("one_task") == "on"
    assert without[0] == without[1]
    pd.testing.assert_frame_equal(plain.frame(), apart.frame())
    pd.testing.assert_frame_equal(plain.counters, apart.counters)
    assert apart.variants == ["fifo", "v5"]
    assert {c.id for c in plain.charts} <= {c.id for c in apart.charts} and len(apart.charts) > 3
    assert list(apart.series.columns) == list(plain.series.columns) and len(apart.series) == 0


def test_curves_by_the_command(tmp_path: Path) -> None:
    given: dict[str, Any] = {"policies": ["lru", "opt"], "sizes": ["50%", 1000]}
    apart = lab.mrc(CIRCLE, one_task=True, report=tmp_path / "curves.html", **given)
    table = apart.curves.set_index(["policy", "pages"])["misses"]
    # LRU misses every time until all of the circle fits.
    assert table["lru", 500] == 20_000 and table["lru", 1000] == table["opt", 1000] == 1000
    plain = lab.mrc(CIRCLE, **given)
    assert json.loads(plain.to_json()) == json.loads(apart.to_json())
    assert list(plain.curves.columns) == list(apart.curves.columns)
    assert plain.curves["misses"].tolist() == apart.curves["misses"].tolist()
    assert "<html" in (tmp_path / "curves.html").read_text() and apart.variants == ["lru", "opt"]
    assert "lru" in repr(apart) and "lru" in apart._repr_html_()


def test_options_of_replay_reach_the_machine(tmp_path: Path) -> None:
    def time_ns(**more: Any) -> float:
        counters = lab.replay(CIRCLE, memory=0.5, variants="v5", bounds=False, **more).counters
        return float(counters["time_ns"][0])

    assert time_ns(device="hdd") > 1.5 * time_ns(device="nvme")
    assert time_ns(cost={"nvme_read_lat_ns": 1_000_000}) > 5 * time_ns(order="per-task", cpus=2)
    tasks = (np.arange(20_000) // 10 % 2).astype(int)
    pages = CIRCLE // 2 + tasks * 600
    kept = lab.replay(
        pages, tasks=tasks, objects=tasks, memory="50%", variants="base", low={1: 1 << 20}, clock={0: 0, 20_000: 3.5}
    )
    assert kept.counters["misses"][0] > 0 and "low={1: 1048576}" in kept._call
    page = tmp_path / "page.html"
    lab.replay(CIRCLE, memory=0.5, variants="v5", report=page, csv=tmp_path / "values.csv")
    assert "/coldset-" not in page.read_text() and "misses" in (tmp_path / "values.csv").read_text()
    kept.report(tmp_path / "kept.html")
    assert "<html" in (tmp_path / "kept.html").read_text()


def test_compare_takes_results_and_files(tmp_path: Path) -> None:
    before = lab.replay(CIRCLE, memory="50%", variants="fifo", kernel_memory=False)
    after = lab.replay(CIRCLE, memory="100%", variants="fifo", kernel_memory=False)
    (tmp_path / "after.json").write_text(after.to_json())
    told = lab.compare(before, tmp_path / "after.json")
    table = told.frame().set_index("counter")
    assert list(table.loc["misses", ["before", "after"]]) == [20_000, 1000]
    assert table.loc["misses", "change"] == pytest.approx(-0.95)
    assert told["before"] == "before.json"
    runs = [lab.run("tlb-stress", seeds=2, scale=scale, effort=0.05) for scale in ("1/512", "1/256")]
    frame = lab.compare(*runs).frame()
    mean = runs[1].counters.set_index(["variant", "counter"])["mean"]
    for _, row in frame.iterrows():
        assert row["after"] == pytest.approx(mean[row["variant"], row["counter"]])
    assert len(frame) > 5


def test_exit_code_1_is_an_answer() -> None:
    for only, all_in in [("throttling-oom", True), ("android-heavy", False)]:
        told = lab.verify(only=only, quick=True)
        passed = told.frame().query("`class` in ['A', 'B']")["pass"].all()
        assert told.passed == passed == (command("verify", "--only", only, "--quick").returncode == 0)
        # Should all of its rows come in one day, name an experiment with one that does not.
        assert told.passed == all_in, only
    exact = lab.fidelity(kernels="6.12", cases="d_pread_cyc", policies="mglru-0x7", tolerance=0.01)
    assert exact.passed and exact["cases"][0]["tolerance"] == 0.01
    assert set(exact.frame()["counter"]) >= {"misses", "pgscan"}


def test_ablate_and_inspect() -> None:
    parts = lab.ablate(CIRCLE, memory="50%", variants=["base", "v5"])
    assert set(parts.frame()["change"]) == {c["change"] for c in parts["changes"]} and len(parts.frame()) > 3
    lists = lab.inspect(CIRCLE, memory="2000pages", at=np.int64(800), set={"smaller_batch": True}).frame()
    assert 700 <= lists["file"].sum() <= 800


#: Planted misuse, and what is said about it.
MISUSE: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: lab.advise(CIRCLE, memroy=1), TypeError, r"advise\(\) has no keyword 'memroy'; did you mean 'memory'"),
    (lambda: lab.advise(CIRCLE, **{"for": "v73"}), TypeError, "did you mean 'for_'"),
    (lambda: lab.replay(CIRCLE, fault_arund=1), TypeError, r"replay\(\) has no keyword .* 'fault_around'"),
    (lambda: lab.mrc(CIRCLE, one_tsk=True), TypeError, r"mrc\(\) has no keyword 'one_tsk'; did you mean 'one_task'"),
    (lambda: lab.mrc(CIRCLE, policies=lab.Policy, strict=True), coldset.SettingError, "Policy is written in Python"),
    (lambda: lab.replay(CIRCLE, memry=1), TypeError, "did you mean 'memory'"),
    (lambda: lab.replay(CIRCLE, one_tsk=None), TypeError, "did you mean 'one_task'"),
    (lambda: lab.verify(report="/nowhere/verify.html"), FileNotFoundError, "/nowhere/verify.html"),
    (lambda: lab.verify(qick=True), TypeError, "did you mean 'quick'"),
    (lambda: lab.verify(json="x"), TypeError, "no keyword 'json'"),
    (lambda: lab.advise(CIRCLE, memory=b"1"), TypeError, r"memory is b'1' \(bytes\); it takes a size"),
    (lambda: lab.advise(CIRCLE, memory=True), TypeError, "memory is True"),
    (lambda: lab.advise(CIRCLE, memory=[0.3, None]), TypeError, r"memory is \[0.3, None\]"),
    (lambda: lab.advise(CIRCLE, memory=[]), TypeError, r"memory is \[\]"),
    (lambda: lab.replay(CIRCLE, memory=True), TypeError, "memory is True .* number of pages"),
    (lambda: lab.replay(CIRCLE, memory=1.5), coldset.SettingError, "a share is a float"),
    (lambda: lab.mrc(CIRCLE, sizes={"a": 1}), TypeError, "sizes is {'a': 1}"),
    (lambda: lab.replay(CIRCLE, fault_around=500), coldset.SettingError, "fault_around: 500 bytes .* '500pages'"),
    (lambda: lab.advise(CIRCLE, memory=30.0), coldset.SettingError, "memory: a share is a float"),
    (lambda: lab.advise(CIRCLE, memory=float("nan")), coldset.SettingError, "memory: a share"),
    (lambda: lab.advise(CIRCLE, one_task="yes"), TypeError, r"one_task is 'yes' \(str\); it takes True or False"),
    (lambda: lab.advise(CIRCLE, swappiness=3.5), TypeError, "swappiness is 3.5 .* a whole number"),
    (lambda: lab.advise(CIRCLE, swappiness=300), coldset.SettingError, "'300' for 'swappiness'"),
    (lambda: lab.replay(CIRCLE, clock=[1, 2]), TypeError, r"clock is \[1, 2\]"),
    (lambda: lab.replay(CIRCLE, low={0: None}), TypeError, "low is {0: None}"),
    (lambda: lab.replay(CIRCLE, device="floppy"), coldset.SettingError, "floppy"),
    (lambda: lab.replay(CIRCLE, dirty_ratio=40), coldset.SettingError, "^dirty_ratio, .* no effect on pages.pageops"),
    (lambda: lab.replay(CIRCLE, dirty_limits=3), TypeError, "dirty_limits is 3 .* text"),
    (lambda: lab.ablate(CIRCLE, seeds=3), coldset.SettingError, "^param, scale, effort and seeds go with an experiment"),
    (lambda: lab.ablate("nope"), coldset.SettingError, "no experiment 'nope'"),
    (lambda: lab.ablate({"tasks": []}), TypeError, "trace is {'tasks'"),
    (lambda: lab.advise("-"), coldset.SettingError, "standard input"),
    (lambda: lab.advise(None), TypeError, "trace is None"),
    (lambda: lab.advise("/nowhere"), FileNotFoundError, "/nowhere: cannot open"),
    (lambda: lab.advise("/nowhere", writes=True), coldset.SettingError, "writes goes with an array"),
    (lambda: lab.fidelity("/nowhere"), FileNotFoundError, "/nowhere"),
    (lambda: lab.compare(3, 4), TypeError, "before is 3 "),
    (lambda: lab.compare("/nowhere", "/nowhere"), FileNotFoundError, "/nowhere"),
    (lambda: lab.advise(CIRCLE, backend="excel"), coldset.SettingError, "backend"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(MISUSE)))
def test_misuse(number: int) -> None:
    call, kind, text = MISUSE[number]
    with pytest.raises(kind, match=text) as raised:
        call()
    assert "\n" not in str(raised.value) and "coldset: " not in str(raised.value)


def test_ctrl_c_ends_the_child(tmp_path: Path) -> None:
    """Of a program that alone gets the signal, as a kernel of Jupyter does."""
    program = (
        "import coldset.lab as lab, numpy as np\n"
        "pages = np.random.default_rng(1).integers(0, 200_000, 20_000_000)\n"
        "print('begin', flush=True)\n"
        "lab.replay(pages, memory='50%', one_task=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == "begin\n"
        children: list[int] = []
        for _ in range(300):
            children = [int(pid) for pid in _children(parent.pid)]
            if children:
                break
            time.sleep(0.1)
        time.sleep(0.5)
        os.kill(parent.pid, signal.SIGINT)
        begin = time.monotonic()
        said = parent.communicate(timeout=60)[1]
        assert "KeyboardInterrupt" in said and time.monotonic() - begin < 10
    assert len(children) == 1 and not Path(f"/proc/{children[0]}").exists()
    assert list(tmp_path.iterdir()) == []


def _children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def test_the_package_runs_as_the_command() -> None:
    asked = [sys.executable, "-m", "coldset", "lab", "list", "--switches"]
    done = subprocess.run(asked, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == command("list", "--switches").stdout
