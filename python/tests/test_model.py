"""A model of arrays: random programs against numpy's own arrays, shrunk when they disagree.

hypothesis draws the programs. A worker process runs them, so that an abort, a signal or a hang is a failure
of the step that met it, and is shrunk like any other, which takes minutes at most (`COLDSET_MODEL_SHRINK=0`
leaves that out). `COLDSET_SOAK_SECONDS` runs new programs for as long.
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
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

SOAK = float(os.environ.get("COLDSET_SOAK_SECONDS", "0"))

# Seconds for one step; the machine may be busy.
PATIENCE = 60

NUMBERS = st.integers(0, 30)
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
        self.made = 0
        self.live: list[int] = []
        self.pools: list[int] = []
        if Arrays.worker is None:
            Arrays.worker = Worker()

    def step(self, name: str, **arguments: Any) -> bool:
        """False if there was nothing to do."""
        assert Arrays.worker is not None
        answer = Arrays.worker.step(name, arguments)
        if answer not in ("ok", "skipped"):
            Arrays.worker.stop()
            Arrays.worker = None
            raise AssertionError(f"{name} {arguments}: {answer}")
        return answer == "ok"

    def make(self, name: str, **arguments: Any) -> None:
        handle, self.made = self.made, self.made + 1
        if self.step(name, handle=handle, **arguments):
            self.live.append(handle)

    @initialize(
        swap=SWAPS,
        policy=POLICIES,
        thread=st.integers(0, 4),
        size=st.integers(200_000, 500_000),
        churn=st.integers(0, 3),
    )
    def begin(self, swap: str, policy: str, thread: int, size: int, churn: int) -> None:
        """A pool, an array that is larger, and threads that make temporaries."""
        self.pool(0, swap, policy, thread)
        self.make("zeros", pool=0, size=size, dtype="f8")
        self.step("store", handle=0, seed=size, how="all")
        if churn:
            self.step("start_churn", pool=0, threads=churn)

    @precondition(lambda self: len(self.pools) < 2)
    @rule(pool=st.integers(0, 1), swap=SWAPS, policy=POLICIES, thread=st.integers(0, 4))
    def pool(self, pool: int, swap: str, policy: str, thread: int) -> None:
        mode = "thread" if thread == 0 else "sigbus"
        if self.step("pool", pool=pool, swap=swap, policy=policy, mode=mode):
            self.pools.append(pool)

    @precondition(lambda self: self.pools)
    @rule(
        pool=NUMBERS,
        kind=st.sampled_from(["u1", "i4", "f8", "copy", "file", "file"]),
        number=st.integers(0, 2),
        size=st.integers(1, 500_000),
    )
    def array(self, pool: int, kind: str, number: int, size: int) -> None:
        pool = self.pools[pool % len(self.pools)]
        if kind == "copy":
            self.make("array", pool=pool, seed=size, rows=1 + size // 500)
        elif kind == "file":
            self.make("map", pool=pool, file=number, size=size)
        else:
            self.make("zeros", pool=pool, size=size, dtype=kind)

    @precondition(lambda self: self.live)
    @rule(
        of=NUMBERS,
        start=st.integers(0, 100_000),
        step=st.integers(1, 9),
        how=st.sampled_from(["slice", "slice", "back", "transposed", "bytes", "plain"]),
    )
    def view(self, of: int, start: int, step: int, how: str) -> None:
        of = self.live[of % len(self.live)]
        self.make("view", of=of, start=start, step=step, how=how)

    @precondition(lambda self: len(self.live) > 1)
    @rule(handle=NUMBERS, collect=st.booleans())
    def delete(self, handle: int, collect: bool) -> None:
        self.step("delete", handle=self.live.pop(handle % len(self.live)))
        if collect:
            self.step("collect")

    @precondition(lambda self: self.live)
    @rule(
        handle=NUMBERS,
        seed=st.integers(0, 1 << 20),
        how=st.sampled_from(["all", "some", "some", "ufunc", "ufunc", "part", "part", "sort"]),
    )
    def store(self, handle: int, seed: int, how: str) -> None:
        self.step("store", handle=self.live[handle % len(self.live)], seed=seed, how=how)

    @precondition(lambda self: self.live)
    @rule(
        handle=NUMBERS,
        what=st.sampled_from(
            ["compare", "compare", "normal", "random", "sequential", "willneed", "let_go", "flush", "pin"]
        ),
    )
    def use(self, handle: int, what: str) -> None:
        handle = self.live[handle % len(self.live)]
        if what in ("compare", "let_go", "flush", "pin"):
            self.step(what, handle=handle)
        else:
            self.step("advise", handle=handle, advice=what)

    @precondition(lambda self: self.pools)
    @rule(pool=NUMBERS, what=st.sampled_from(["reclaim", "sync", "start", "start", "stop", "drop"]))
    def call(self, pool: int, what: str) -> None:
        pool = self.pools[pool % len(self.pools)]
        if what == "start":
            self.step("start_churn", pool=pool, threads=2)
        elif what == "stop":
            self.step("stop_churn")
        elif what == "drop":
            self.pools.remove(pool)
            how = ["close", "forget_pool"][self.made % 2]
            self.step(how, pool=pool)
        else:
            self.step(what, pool=pool)

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
    shrink = os.environ.get("COLDSET_MODEL_SHRINK") != "0"
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    run(16, phases)
    end = time.monotonic() + SOAK
    while time.monotonic() < end:
        run(200, phases)


@pytest.mark.parametrize("helpers", [0, 3])
def test_arrays_are_dropped_beside_reclaim(
    run: Callable[..., subprocess.CompletedProcess[str]], helpers: int
) -> None:
    """An ordinary program of one thread (and one with helpers), which a race with the pool's own threads
    ended within seconds."""
    done = run(
        """
        import os, threading, numpy as np, coldset
        pool = coldset.Pool("4MiB", swap="lz4:64MiB+temp:128MiB")
        end = threading.Event()
        def help(t):
            while not end.is_set():
                c = pool.zeros(50000 + t * 1000)
                c += t
                assert c[0] == c[-1] == t
        helpers = [threading.Thread(target=help, args=(t,)) for t in range(int(os.environ["HELPERS"]))]
        for thread in helpers:
            thread.start()
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
        end.set()
        for thread in helpers:
            thread.join()
        assert (a == plain).all()
        print("survived")
        """,
        env={"HELPERS": str(helpers)},
    )
    assert done.returncode == 0 and "survived" in done.stdout, done.stdout + done.stderr
