"""Fork, spawn, signal handlers, and the end of the program: each in a process of its own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_fork_is_refused(run: Run) -> None:
    done = run(
        """
        import os, warnings, coldset
        pool = coldset.Pool("1MiB", swap="lz4:16MiB")
        a = pool.full(4 << 20, 7, "u1")
        group = pool.group("g")
        pid = os.fork()
        if pid == 0:
            refused = 0
            for call in (pool.sync, pool.stats, a.flush, lambda: pool.zeros(3), a.resident,
                         lambda: group.usage, lambda: group.set(max=5), lambda: pool.reclaim(1),
                         lambda: a.advise("willneed"), pool.close, lambda: a.pin().__enter__()):
                try:
                    call()
                except coldset.ForkedError as e:
                    assert "fork" in str(e)
                    refused += 1
            del a, group
            # The end of the child's interpreter leaves the parent's arrays alone.
            raise SystemExit(0 if refused == 11 else 1)
        _, status = os.waitpid(pid, 0)
        assert status == 0, status
        pid = os.fork()
        if pid == 0:
            a.sum()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print("child ended by", os.WTERMSIG(status))
        assert (a == 7).all()
        """
    )
    assert f"child ended by {int(signal.SIGSEGV)}" in ok(done)
    assert "ForkWarning" in done.stderr and "get_context(\"spawn\")" in done.stderr
    assert "Segmentation fault" in done.stderr


def test_a_child_says_the_same_again(run: Run) -> None:
    """What is refused is refused as forked, also after a close; what can be asked for is told."""
    ok(
        run(
            """
            import io, os, pickle, sys, traceback, coldset
            pool = coldset.Pool("1MiB", swap="lz4:16MiB")
            group = pool.group("g")
            a = pool.full(4 << 20, 7, "u1")
            pages = coldset.Pool("1MiB", swap="lz4:16MiB", fault_mode="explicit")
            region = pages.region("64KiB")
            shown = [repr(x) for x in (pool, group, region)]
            pid = os.fork()
            if pid == 0:
                try:
                    for call in (pool.close, pool.close, pool.sync, lambda: pool.zeros(3), lambda: pool.group("h"),
                                 region.close, region.close, region.sync, lambda: region.fix(0).__enter__(),
                                 lambda: a.tofile("out"), lambda: a.tofile("out", ","), lambda: pickle.dumps(a),
                                 lambda: a.readfrom(io.BytesIO(b"abc")), a.copy, lambda: a.astype("f8")):
                        try:
                            call()
                        except coldset.ForkedError:
                            continue
                        raise AssertionError("not refused")
                    assert not os.path.exists("out")
                    assert [repr(x) for x in (pool, group, region)] == shown
                    assert (pool.budget, group.name) == (1 << 20, "/g")
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            assert a[0] == 7
            """
        )
    )


def test_a_child_makes_a_pool_of_its_own(run: Run) -> None:
    ok(
        run(
            """
            import os, coldset
            a = coldset.Pool("1MiB", swap="lz4:16MiB").full(4 << 20, 7, "u1")
            pid = os.fork()
            if pid == 0:
                b = coldset.Pool("1MiB", swap="lz4:16MiB").full(4 << 20, 5, "u1")
                os._exit(0 if b.sum() == 5 * b.size else 1)
            assert os.waitpid(pid, 0)[1] == 0
            assert a.sum() == 7 * a.size
            """
        )
    )


def test_only_fork_warns(run: Run) -> None:
    done = run(
        """
        import os, subprocess, sys, warnings, coldset
        pool = coldset.Pool("1MiB", swap="lz4:16MiB")
        os.waitpid(os.fork() or os._exit(0), 0)      # no arrays yet
        a = pool.full(4 << 20, 7, "u1")
        warnings.simplefilter("error")
        subprocess.run([sys.executable, "-c", ""], check=True)
        subprocess.run("true", shell=True, check=True, capture_output=True)
        os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
        os.system("true")
        assert (a == 7).all()
        """
    )
    ok(done)
    assert done.stderr == ""


def test_spawn_works(run: Run) -> None:
    """Each worker makes its own pool; a file is shared read-only; arrays travel as copies."""
    out = ok(
        run(
            """
            import multiprocessing, os, coldset, numpy as np

            def work(part):
                path, rows, extra = part
                pool = coldset.Pool("1MiB")
                a = pool.memmap(path, "f8", "r", (1024, 1024))
                assert type(extra) is np.ndarray
                return float(a[rows].sum() + extra.sum()), pool.stats()["peak_bytes"]

            if __name__ == "__main__":
                pool = coldset.Pool("2MiB", swap="lz4:16MiB")
                a = pool.memmap("shared", "f8", "w+", (1024, 1024))
                a[:] = 1
                a.flush()
                del a
                extra = pool.full(10, 0.5)
                parts = [("shared", slice(i, i + 256), extra) for i in range(0, 1024, 256)]
                with multiprocessing.get_context("spawn").Pool(2) as workers:
                    got = workers.map(work, parts)
                assert sum(s for s, _ in got) == 1024 * 1024 + 20, got
                assert all(peak <= 1 << 20 for _, peak in got), got
                print("done")
            """,
            "-Werror::coldset.ForkWarning",
        )
    )
    assert "done" in out


USE = """
a = pool.full(4 << 20, 7, "u1")
assert a.sum() == 7 * a.size
b = coldset.Pool("1MiB", swap="lz4:16MiB").full(4 << 20, 1, "u1")
assert b.sum() == b.size and a.sum() == 7 * a.size
"""


@pytest.mark.parametrize(
    "program",
    [
        "import faulthandler, coldset\nfaulthandler.enable()\n"
        'pool = coldset.Pool("1MiB", swap="lz4:16MiB")\n' + USE,
        'import faulthandler, coldset\npool = coldset.Pool("1MiB", swap="lz4:16MiB")\n'
        "faulthandler.enable()\n" + USE,
    ],
    ids=["before", "after"],
)
@pytest.mark.parametrize("flags", [(), ("-X", "faulthandler"), ("-X", "dev")])
def test_faulthandler(run: Run, program: str, flags: tuple[str, ...]) -> None:
    done = run(program, *flags)
    ok(done)
    assert done.stderr == ""


def test_a_foreign_sigbus_still_has_its_traceback(run: Run) -> None:
    done = run(
        """
        import mmap, os, coldset
        pool = coldset.Pool("1MiB", swap="lz4:16MiB")
        a = pool.full(4 << 20, 7, "u1")
        file = os.open("short", os.O_RDWR | os.O_CREAT)
        os.truncate(file, 8192)
        m = mmap.mmap(file, 8192)
        os.truncate(file, 0)
        m[5000]
        """
    )
    assert done.returncode == -signal.SIGBUS
    assert "Fatal Python error: Bus error" in done.stderr and "program.py" in done.stderr


def test_a_handler_that_was_taken_away_is_one_clear_error(run: Run) -> None:
    done = run(
        """
        import faulthandler, coldset
        faulthandler.enable()
        pool = coldset.Pool("1MiB")
        faulthandler.disable()
        try:
            coldset.Pool("1MiB")
        except coldset.HandlerError as e:
            print(e)
        """
    )
    out = ok(done)
    assert "SIGBUS" in out and "faulthandler.enable()" in out


def test_arrays_outlive_the_faulthandler_that_came_with_them(run: Run) -> None:
    """It restores what it has found, and that is the pager's handler: no thread notices, and so at the end."""
    done = run(
        """
        import faulthandler, coldset
        pool = coldset.Pool("1MiB", swap="lz4:16MiB")
        a = pool.full(4 << 20, 7, "u1")
        faulthandler.disable()
        assert a.sum() == 7 * a.size
        b = coldset.Pool("1MiB", swap="lz4:16MiB").full(4 << 20, 1, "u1")
        assert b.sum() == b.size and a.sum() == 7 * a.size
        """
    )
    ok(done)
    foreign = run(
        """
        import faulthandler, mmap, os, coldset
        pool = coldset.Pool("1MiB", swap="lz4:16MiB")
        faulthandler.disable()
        file = os.open("short", os.O_RDWR | os.O_CREAT)
        os.truncate(file, 8192)
        m = mmap.mmap(file, 8192)
        os.truncate(file, 0)
        m[5000]
        """
    )
    assert foreign.returncode == -signal.SIGBUS and foreign.stderr == ""


def test_the_end_of_the_program_syncs(run: Run, tmp_path: Path) -> None:
    """Arrays in modules, in cycles and in threads; pools that are gone; files written at the end."""
    done = run(
        """
        import threading, coldset
        a = coldset.Pool("1MiB").memmap("a", "u1", "w+", 4 << 20)
        a[:] = 1
        pool = coldset.Pool("1MiB", swap="lz4:16MiB")
        b = pool.memmap("b", "u1", "w+", 4 << 20)
        b[:] = 2
        c = pool.full(4 << 20, 3, "u1")
        cycle = [c[5:]]
        cycle.append(cycle)
        coldset.keep = (pool, c)
        def run():
            import time
            while True:
                c.sum()
        threading.Thread(target=run, daemon=True).start()
        """
    )
    ok(done)
    assert done.stderr == ""
    assert (tmp_path / "a").read_bytes() == b"\1" * (4 << 20)
    assert (tmp_path / "b").read_bytes() == b"\2" * (4 << 20)


def test_an_ordinary_user(run: Run, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("this is run by an ordinary user already")
    done = run(
        """
        import ctypes, os, coldset
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        # A program that was started by that user has its own /proc; one that changed has not.
        assert ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) == 0    # PR_SET_DUMPABLE
        a = coldset.Pool("1MiB", swap="lz4:16MiB").full(4 << 20, 7, "u1")
        assert a.sum() == 7 * a.size
        print(os.geteuid())
        """
    )
    assert "65534" in ok(done)


def test_an_example_program(tmp_path: Path) -> None:
    """Both arms of the column sums agree."""
    import json

    program = Path(__file__).parents[1] / "examples" / "column_sums.py"
    rows = {}
    for arm in ("coldset", "memmap"):
        done = subprocess.run(
            [sys.executable, str(program), "--mib", "16", "--budget-mib", "4", "--arm", arm,
             "--dir", str(tmp_path)],
            capture_output=True, text=True, timeout=120,
        )
        rows[arm] = json.loads(ok(done))
    assert rows["coldset"]["checksum"] == rows["memmap"]["checksum"] != 0
    assert rows["coldset"]["peak_bytes"] <= 4 << 20
    assert rows["memmap"]["cpu_seconds"] > 0


CLOSING = """
    import os, resource, sys, coldset
    first, end, reuse = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    pool = coldset.Pool("4MiB", swap="lz4:8MiB+temp:32MiB")
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(1024, hard)
    a = pool.zeros(2 << 20)
    a[:] = 1
    os.closerange(first, end)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # The numbers go to a file of the program's.
    n = 0
    while reuse and n < 1200:
        n = os.open(reuse[0], os.O_RDWR)
    for i in range(3):
        assert a.sum() == (2 << 20) * (i + 1), a.sum()
        a += 1
    print("right")
    """


def close_descriptors(run: Run, *arguments: object) -> subprocess.CompletedProcess[str]:
    program = CLOSING.replace("sys.argv[1]", repr(str(arguments[0])))
    program = program.replace("sys.argv[2]", repr(str(arguments[1])))
    return run(program.replace("sys.argv[3:]", repr([str(a) for a in arguments[2:]])))


@pytest.mark.parametrize("end", [200, 1024])
def test_descriptors_are_out_of_a_daemons_way(run: Run, end: int) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2048:
        pytest.skip("the hard limit leaves no room for descriptors above 1024")
    assert "right" in ok(close_descriptors(run, 3, end))


def test_a_lost_descriptor_is_one_line_and_an_end(run: Run, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    contents = bytes(range(256)) * (8 << 12)
    theirs.write_bytes(contents)
    for arguments in ([], [theirs]):
        done = close_descriptors(run, 3, 65536, *arguments)
        assert done.returncode == -signal.SIGABRT, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        lines = [line for line in done.stderr.splitlines() if "coldset: " in line]
        assert len(lines) == 1 and "closed or replaced by the program" in lines[0], done.stderr
        assert "right" not in done.stdout
        assert theirs.read_bytes() == contents
