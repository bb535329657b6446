"""A model of arrays: random programs against numpy's own arrays, shrunk when they disagree.

hypothesis draws the programs. A worker process runs them, so that an abort, a signal or a hang is a failure
of the step that met it, and is shrunk like any other. `COLDSET_SOAK_SECONDS` runs new ones for as long.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

SOAK = float(os.environ.get("COLDSET_SOAK_SECONDS", "0"))

# Seconds for one step; the machine may be busy.
PATIENCE = 60

HANDLES = st.integers(0, 30)
POOLS = st.integers(0, 1)
SEEDS = st.integers(0, 1 << 20)
SWAPS = st.sampled_from(["temp:256MiB", "lz4:256MiB+temp:256MiB", "lz4:256MiB+zstd+temp:256MiB"])
POLICIES = st.sampled_from(["v5", "classic", "s3fifo"])


class Worker:
    """A process that runs steps."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="coldset-model-")
        self.errors = Path(self.folder.name, "stderr")
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("model_worker.py")), self.folder.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(line.rstrip("\n"))
        self.answers.put("")

    def step(self, name: str, arguments: dict[str, Any]) -> str:
        """The answer: `ok`, `skipped`, or how it failed."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps([name, arguments]) + "\n")
            self.process.stdin.flush()
            answer = self.answers.get(timeout=PATIENCE)
        except queue.Empty:
            return f"no answer within {PATIENCE} s: it hangs"
        except BrokenPipeError:
            answer = ""
        if answer == "":
            code = self.process.wait()
            said = self.errors.read_text(errors="replace").strip().splitlines()[-12:]
            return f"the process ended with {code}:\n" + "\n".join(said)
        return answer

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


class Arrays(RuleBasedStateMachine):
    """Each rule is a step of the worker. `worker` is kept from program to program while it works."""

    worker: Worker | None = None

    def __init__(self) -> None:
        super().__init__()
        self.handles = 0
        self.pools: set[int] = set()
        if Arrays.worker is None:
            Arrays.worker = Worker()

    def step(self, name: str, **arguments: Any) -> str:
        assert Arrays.worker is not None
        answer = Arrays.worker.step(name, arguments)
        if answer not in ("ok", "skipped"):
            Arrays.worker.stop()
            Arrays.worker = None
            raise AssertionError(f"{name} {arguments}: {answer}")
        return answer

    def new(self) -> int:
        self.handles += 1
        return self.handles - 1

    @rule(pool=POOLS, swap=SWAPS, policy=POLICIES, thread=st.integers(0, 4))
    def pool(self, pool: int, swap: str, policy: str, thread: int) -> None:
        mode = "thread" if thread == 0 else "sigbus"
        self.step("pool", pool=pool, swap=swap, policy=policy, mode=mode)
        self.pools.add(pool)

    @precondition(lambda self: self.pools)
    @rule(pool=POOLS, size=st.integers(1, 900_000), dtype=st.sampled_from(["u1", "i4", "f8"]))
    def zeros(self, pool: int, size: int, dtype: str) -> None:
        self.step("zeros", pool=pool, handle=self.new(), size=size, dtype=dtype)

    @precondition(lambda self: self.pools)
    @rule(pool=POOLS, seed=SEEDS, rows=st.integers(1, 2000))
    def array(self, pool: int, seed: int, rows: int) -> None:
        self.step("array", pool=pool, handle=self.new(), seed=seed, rows=rows)

    @precondition(lambda self: self.pools)
    @rule(pool=POOLS, file=st.integers(0, 2), size=st.integers(1, 900_000))
    def map(self, pool: int, file: int, size: int) -> None:
        self.step("map", pool=pool, handle=self.new(), file=file, size=size)

    @precondition(lambda self: self.handles)
    @rule(
        of=HANDLES,
        start=st.integers(0, 100_000),
        step=st.integers(1, 9),
        how=st.sampled_from(["slice", "back", "transposed", "bytes", "plain"]),
    )
    def view(self, of: int, start: int, step: int, how: str) -> None:
        of %= self.handles
        self.step("view", of=of, handle=self.new(), start=start, step=step, how=how)

    @precondition(lambda self: self.handles)
    @rule(handle=HANDLES)
    def delete(self, handle: int) -> None:
        self.step("delete", handle=handle % self.handles)

    @precondition(lambda self: self.handles)
    @rule(
        handle=HANDLES,
        seed=SEEDS,
        how=st.sampled_from(["all", "some", "ufunc", "part", "sort"]),
    )
    def store(self, handle: int, seed: int, how: str) -> None:
        self.step("store", handle=handle % self.handles, seed=seed, how=how)

    @precondition(lambda self: self.handles)
    @rule(handle=HANDLES)
    def compare(self, handle: int) -> None:
        self.step("compare", handle=handle % self.handles)

    @precondition(lambda self: self.handles)
    @rule(handle=HANDLES, advice=st.sampled_from(["normal", "random", "sequential", "willneed"]))
    def advise(self, handle: int, advice: str) -> None:
        self.step("advise", handle=handle % self.handles, advice=advice)

    @precondition(lambda self: self.handles)
    @rule(handle=HANDLES, what=st.sampled_from(["let_go", "flush", "pin"]))
    def call(self, handle: int, what: str) -> None:
        self.step(what, handle=handle % self.handles)

    @precondition(lambda self: self.pools)
    @rule(pool=POOLS, what=st.sampled_from(["reclaim", "sync"]))
    def pool_call(self, pool: int, what: str) -> None:
        self.step(what, pool=pool)

    @rule()
    def collect(self) -> None:
        self.step("collect")

    @precondition(lambda self: self.pools)
    @rule(pool=POOLS, threads=st.integers(1, 3))
    def start_churn(self, pool: int, threads: int) -> None:
        self.step("start_churn", pool=pool, threads=threads)

    @rule()
    def stop_churn(self) -> None:
        self.step("stop_churn")

    @precondition(lambda self: self.pools)
    @rule(pool=POOLS, block=st.booleans())
    def close(self, pool: int, block: bool) -> None:
        self.step("close", pool=pool, block=block)

    @precondition(lambda self: self.pools)
    @rule(pool=POOLS)
    def forget_pool(self, pool: int) -> None:
        self.step("forget_pool", pool=pool)

    def teardown(self) -> None:
        if Arrays.worker is not None:
            self.step("end")


def run(programs: int, phases: tuple[Phase, ...]) -> None:
    try:
        run_state_machine_as_test(
            Arrays,
            settings=settings(
                max_examples=programs,
                stateful_step_count=30,
                deadline=None,
                database=None,
                print_blob=True,
                phases=phases,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        if Arrays.worker is not None:
            Arrays.worker.stop()
            Arrays.worker = None


def test_arrays_hold_what_numpys_hold() -> None:
    phases = (Phase.generate, Phase.shrink)
    run(40, phases)
    end = time.monotonic() + SOAK
    while time.monotonic() < end:
        run(200, phases)


def test_one_thread_that_drops_arrays(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The ordinary program that a race with the pool's own threads ended."""
    done = run(
        """
        import numpy as np, coldset
        pool = coldset.Pool("4MiB", swap="lz4:64MiB+temp:128MiB")
        a, plain = pool.zeros(2 << 20), np.zeros(2 << 20)
        r = np.random.default_rng(0)
        for n in range(100):
            b = pool.zeros(100000 + n % 7 * 10000)
            np.add(a[: b.size], 1.0, out=b)
            assert (b == plain[: b.size] + 1).all()
            at = r.integers(0, 2 << 20, 500)
            a[at] += 1
            plain[at] += 1
            del b
        assert (a == plain).all()
        print("survived")
        """
    )
    assert done.returncode == 0 and "survived" in done.stdout, done.stdout + done.stderr
