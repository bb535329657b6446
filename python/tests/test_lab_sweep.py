"""Sweeps on processes of this machine and on a Dask cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import coldset
import coldset.lab as lab
import numpy as np
import pytest

pd = pytest.importorskip("pandas")
#: Cells of a fraction of a second.
GRID: dict[str, Any] = {
    "experiments": "tlb-stress",
    "scales": "1/512",
    "effort": 0.25,
    "seeds": 4,
    "variants": ["base", "base+tlbbatch"],
}
#: The same and more: not finished before somebody who waits for the first cells has seen them.
LONGER: dict[str, Any] = {**GRID, "seeds": 20}
#: Not finished before a signal arrives.
ENDLESS: dict[str, Any] = {**GRID, "seeds": 400}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> lab.Sweep:
    return lab.sweep(GRID, out=tmp_path_factory.mktemp("local"), jobs=2, progress=False)


def rows(folder: Path) -> Any:
    """All that is in a folder, in a fixed order."""
    frame = pd.read_parquet(folder)
    return frame.sort_values(["key", "counter"]).reset_index(drop=True)


def finished(folder: Path) -> set[str]:
    return {p.name for p in folder.glob("part-*.parquet")}


def wait_for(folder: Path, cells: int) -> set[str]:
    end = time.monotonic() + 100
    while len(found := finished(folder)) < cells:
        assert time.monotonic() < end, "no progress"
        time.sleep(0.01)
    return found


def test_a_sweep_is_a_table(local: lab.Sweep) -> None:
    assert (local.computed, local.found, local.failed) == (8, 0, [])
    frame = local.frame()
    assert list(frame.columns) == [
        "experiment", "scale", "effort", "variant", "seed", "counter", "value"
    ]
    assert set(frame["seed"]) == {1, 2, 3, 4}
    # The values are those of a run.
    run = lab.run("tlb-stress", seeds=4, scale="1/512", effort=0.25).frame()
    order = ["variant", "seed", "counter"]
    ours = frame.set_index(order)["value"].sort_index()
    assert ours.equals(run.set_index(order)["value"].sort_index())
    assert "base+tlbbatch" in local.table() and "8 of 8 cells" in repr(local)
    assert "<pre>" in local._repr_html_()


def test_the_folder_is_read_at_once(local: lab.Sweep) -> None:
    pytest.importorskip("pyarrow")
    frame = rows(local.path)
    assert list(frame.columns) == [
        "key", "version", "experiment", "trace", "memory_pages", "variant", "seed", "scale",
        "effort", "switches", "costs", "params", "counter", "value",
    ]
    assert len(frame) == len(local.frame())
    assert set(frame["version"]) == {lab.version()}
    assert frame["key"].nunique() == 8
    by_variant = frame.drop_duplicates("variant").set_index("variant")["switches"]
    assert json.loads(by_variant["base"]) == {}
    assert json.loads(by_variant["base+tlbbatch"]) == {"batched_dirty_flush": "v2"}


def test_polars_reads_it(local: lab.Sweep) -> None:
    polars = pytest.importorskip("polars")
    assert len(polars.read_parquet(local.path)) == len(local.frame())
    assert len(local.frame(backend="polars")) == len(local.frame())


def test_duckdb_reads_it(local: lab.Sweep) -> None:
    duckdb = pytest.importorskip("duckdb")
    query = f"select count(*) from read_parquet('{local.path}/*.parquet')"
    assert duckdb.sql(query).fetchone()[0] == len(local.frame())


def test_nothing_is_computed_twice(local: lab.Sweep, tmp_path: Path) -> None:
    again = lab.sweep(GRID, out=local.path)
    assert (again.computed, again.found) == (0, 8)
    # The command finds it, too, and Python finds what the command has computed.
    more = lab.sweep({**GRID, "seeds": [2, 7]}, out=local.path)
    assert (more.computed, more.found) == (2, 2)
    grid = tmp_path / "grid.toml"
    grid.write_text("\n".join(f"{k} = {json.dumps(v)}" for k, v in GRID.items()))
    assert lab.sweep(grid, out=local.path).found == 8


def test_a_killed_worker_costs_nothing_finished(tmp_path: Path, local: lab.Sweep) -> None:
    me = os.getpid()
    killed: list[int] = []

    def kill_one() -> None:
        wait_for(tmp_path, 2)
        for task in Path(f"/proc/{me}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                if b"sweep-worker" in command and not killed:
                    killed.append(child)
                    os.kill(child, signal.SIGKILL)

    thread = threading.Thread(target=kill_one)
    thread.start()
    done = lab.sweep(LONGER, out=tmp_path, jobs=2)
    thread.join()
    assert len(killed) == 1
    assert done.failed == [] and done.computed + done.found == 40
    done = lab.sweep(GRID, out=tmp_path)
    assert done.found == 8
    pd.testing.assert_frame_equal(done.frame(), local.frame())


def test_a_killed_program_goes_on(tmp_path: Path, local: lab.Sweep) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import json, sys, coldset.lab\n"
        "coldset.lab.sweep(json.loads(sys.argv[1]), out=sys.argv[2], jobs=2)\n"
    )
    out = tmp_path / "out"
    out.mkdir()
    before: set[str] = set()
    for number in (signal.SIGKILL, signal.SIGINT):
        child = subprocess.Popen(
            [sys.executable, program, json.dumps(ENDLESS), out],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_for(out, len(before) + 1)
        child.send_signal(number)
        assert child.wait(60) != 0
        now = finished(out)
        assert before < now
        before = now
    kept = {f"part-{cell.key}.parquet" for cell in lab.cells(GRID)} & before
    done = lab.sweep(GRID, out=out, jobs=2)
    assert kept and done.found >= len(kept) and done.computed + done.found == 8
    pd.testing.assert_frame_equal(done.frame(), local.frame())


def test_failures_are_named(tmp_path: Path) -> None:
    grid = {"experiments": "mongodb", "variants": "base", "scales": ["1/65536"], "effort": 0.01}
    for _ in range(2):
        done = lab.sweep(grid, out=tmp_path, jobs=1)
        assert (done.computed, done.found) == (0, 0)
        assert "scale=1/65536" in done.failed[0].cell and "use 1/" in done.failed[0].reason
    with pytest.raises(ValueError, match="give one"):
        lab.sweep(grid, out=tmp_path, client=object(), dask="tcp://x:1")
    (tmp_path / "other.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="other.parquet"):
        lab.sweep(grid, out=tmp_path)


@pytest.fixture(scope="module")
def cluster() -> Any:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


def test_dask_with_a_killed_worker(cluster: Any, tmp_path: Path, local: lab.Sweep) -> None:
    """No finished result is lost, the sweep ends, and its rows are those of a local one."""
    out = tmp_path / "out"
    out.mkdir()
    seen: list[set[str]] = []

    def kill_one() -> None:
        seen.append(wait_for(out, 2))
        # It has a cell under way: each worker has two.
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    thread = threading.Thread(target=kill_one)
    thread.start()
    with cluster.get_client() as client:
        done = lab.sweep({**GRID, "seeds": 6}, out=out, client=client)
    thread.join()
    assert done.failed == [] and done.computed + done.found == 12
    # What was there is there, computed once: cells of the killed worker that were finished count as found.
    assert len(seen[0]) >= 2 and done.found <= 1
    same = rows(out)
    same = same[same["seed"] <= 4].reset_index(drop=True)
    expected = rows(local.path)
    expected = expected[expected["seed"] <= 4].reset_index(drop=True)
    pd.testing.assert_frame_equal(same, expected)


def test_dask_loses_an_answer_before_it_is_read(
    cluster: Any, tmp_path: Path, local: lab.Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done and is under way again, for its worker has died, is waited for."""
    import distributed

    wait, early = distributed.wait, iter([True, True])

    def too_early(futures: Any, **how: Any) -> Any:
        if next(early, False):
            return type(wait([]))(set(futures), set())
        return wait(futures, **how)

    monkeypatch.setattr(distributed, "wait", too_early)
    with cluster.get_client() as client:
        done = lab.sweep(GRID, out=tmp_path / "out", client=client)
    assert next(early, False) is False and done.failed == []
    pd.testing.assert_frame_equal(done.frame(), local.frame())


def test_dask_by_address_and_without_the_folder(
    cluster: Any, tmp_path: Path, local: lab.Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command hands over to Python; workers that do not have the folder send their results."""
    grid = tmp_path / "grid.toml"
    grid.write_text("\n".join(f"{k} = {json.dumps(v)}" for k, v in GRID.items()))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "coldset.lab", "sweep", grid, "--out", out, "--json", "-"]
    command += ["--dask", cluster.scheduler_address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["computed"] == 8
    pd.testing.assert_frame_equal(lab.sweep(GRID, out=out).frame(), local.frame())

    from coldset.lab import _dask

    def nowhere(folder: str, token: str, cell: str) -> tuple[str, str]:
        from coldset.lab import _worker

        return _worker.work_anywhere("/nowhere", token, cell)

    monkeypatch.setattr(_dask, "work_anywhere", nowhere)
    small = {**GRID, "seeds": [1]}
    with cluster.get_client() as client:
        sent = lab.sweep(small, out=tmp_path / "sent", client=client)
    assert sent.computed == 2
    ours = sent.frame()
    theirs = local.frame()
    theirs = theirs[theirs["seed"] == 1].reset_index(drop=True)
    pd.testing.assert_frame_equal(ours, theirs)


def test_the_command_of_the_wheel(tmp_path: Path, local: lab.Sweep) -> None:
    """It starts its workers as it was started itself."""
    command = Path(sys.executable).with_name("coldset")
    if not command.exists():
        pytest.skip("the package is not installed as a wheel")
    grid = tmp_path / "grid.toml"
    grid.write_text("\n".join(f"{k} = {json.dumps(v)}" for k, v in {**GRID, "seeds": 1}.items()))
    arguments = ["lab", "sweep", grid, "--out", tmp_path / "out", "--json", "-"]
    done = subprocess.run([command, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["computed"] == 2


def test_dask_nobody_answers(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    import coldset.lab._dask as dask

    with pytest.raises(OSError, match="dask scheduler"):
        dask.connect("tcp://127.0.0.1:1", "1s")


def test_a_sweep_of_a_trace(tmp_path: Path) -> None:
    lab.save_trace(tmp_path / "circle.pageops", np.arange(10_000) % 1000)
    grid = {"traces": str(tmp_path / "circle.pageops"), "memory": ["25%", 500], "variants": "fifo"}
    done = lab.sweep(grid, out=tmp_path / "out", jobs=1)
    misses = done.frame().query("counter == 'misses'")
    assert list(misses["memory"]) == ["25%", "500pages"] and set(misses["value"]) == {10_000}


def test_a_grid_takes_numbers_as_the_other_functions_do(tmp_path: Path) -> None:
    path = str(tmp_path / "t.pageops")
    lab.save_trace(path, np.arange(5000))
    grid = {"traces": path, "variants": "v5", "memory": [0.1, np.int64(400)], "swappiness": np.array([10, 60])}
    limits = [dict(cell.settings())["memory"] for cell in lab.cells(grid)]
    assert limits == ["10%", "10%", "400pages", "400pages"]
    with pytest.raises(coldset.SettingError, match="'effort' is nan"):
        lab.cells({"experiments": "mongodb", "effort": float("nan")})
    with pytest.raises(coldset.SettingError, match="'seeds' does not go with traces"):
        lab.cells({**grid, "seeds": 3})
