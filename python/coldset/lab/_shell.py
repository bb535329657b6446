"""Commands of the lab as functions: each runs the command in a process of its own."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from . import _call
from ._answer import Answer
from ._frames import Backend, check
from ._options import (
    AblateOptions,
    AdviseOptions,
    CompareOptions,
    FidelityOptions,
    InspectOptions,
    VerifyOptions,
    signed,
)

if sys.version_info >= (3, 11):
    from typing import Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack

@signed
def advise(
    trace: Any,
    *,
    writes: Any = None,
    objects: Any = None,
    tasks: Any = None,
    anon: bool = False,
    backend: Backend = "pandas",
    **options: Unpack[AdviseOptions],
) -> Answer:
    """What less memory costs a trace: reads, swap traffic and time, against today's.

    `trace` is a file of any format that `coldset lab list` names, or an array of page numbers (then `writes`,
    `objects`, `tasks` and `anon` are as in `save_trace`). Keywords are the options of `coldset lab advise`,
    with underscores; `for_` names the kernels and policies. `memory` are sizes ("64MiB"), whole numbers of
    pages, or shares of today's memory (0.3 or "30%").

    >>> import coldset.lab, numpy
    >>> circle = numpy.arange(20_000) % 1000
    >>> advice = coldset.lab.advise(circle, memory=[0.9, 500], for_="fifo", kernel_memory=False)
    >>> advice.frame()[["pages", "variant", "reads"]].values.tolist()
    [[1000, 'fifo', 1000.0], [900, 'fifo', 20000.0], [500, 'fifo', 20000.0]]
    """
    check(backend)
    array = {"writes": writes, "objects": objects, "tasks": tasks, "anon": anon}
    return Answer("advise", _call.on_trace("advise", trace, array, options), backend)


@signed
def ablate(
    trace_or_experiment: Any,
    *,
    writes: Any = None,
    objects: Any = None,
    tasks: Any = None,
    anon: bool = False,
    backend: Backend = "pandas",
    **options: Unpack[AblateOptions],
) -> Answer:
    """Which change carries the gain: each patch alone, and each taken away.

    It takes the name of an experiment or the file of a workload, or a trace as `advise` does. Keywords are
    the options of `coldset lab ablate`; `memory` is of traces, `param`, `scale`, `effort` and `seeds` are of
    experiments.

    >>> import coldset.lab
    >>> parts = coldset.lab.ablate("tlb-stress", seeds=2, scale="1/512", effort=0.05)
    >>> set(parts.frame()["change"])
    {'batched_dirty_flush'}
    """
    check(backend)
    array = {"writes": writes, "objects": objects, "tasks": tasks, "anon": anon}
    return Answer("ablate", _call.on_trace("ablate", trace_or_experiment, array, options), backend)


@signed
def compare(
    before: Any, after: Any, *, backend: Backend = "pandas", **options: Unpack[CompareOptions]
) -> Answer:
    """Compares two results, seed by seed: of `run`, of `replay`, or files that `--json` of the command or
    `to_json` wrote.

    >>> import coldset.lab, numpy
    >>> circle = numpy.arange(20_000) % 1000
    >>> given = {"variants": "fifo", "kernel_memory": False}
    >>> small, large = (coldset.lab.replay(circle, memory=m, **given) for m in ("50%", "100%"))
    >>> table = coldset.lab.compare(small, large).frame().set_index("counter")
    >>> [int(table.loc["misses", side]) for side in ("before", "after")]
    [20000, 1000]
    """
    check(backend)
    return Answer("compare", _call.on_results("compare", [before, after], options), backend)


@signed
def inspect(
    trace: Any,
    *,
    writes: Any = None,
    objects: Any = None,
    tasks: Any = None,
    anon: bool = False,
    backend: Backend = "pandas",
    **options: Unpack[InspectOptions],
) -> Answer:
    """Replays a trace and shows what the lists hold at a point of it.

    `trace` is as in `advise`, keywords are the options of `coldset lab inspect`: `at` is the number of
    accesses after which it looks, `memory` the limit.

    >>> import coldset.lab, numpy
    >>> lists = coldset.lab.inspect(numpy.arange(5000) % 1000, variants="classic", memory=2000, at=800)
    >>> table = lists.frame()
    >>> int(table[table["list"] == "inactive_file"]["pages"].sum())    # and 25 in a batch of 31, not full yet
    775
    """
    check(backend)
    array = {"writes": writes, "objects": objects, "tasks": tasks, "anon": anon}
    return Answer("inspect", _call.on_trace("inspect", trace, array, options), backend)


@signed
def fidelity(
    dir: str | os.PathLike[str] | None = None,
    *,
    backend: Backend = "pandas",
    **options: Unpack[FidelityOptions],
) -> Answer:
    """Replays what ran on a real kernel and compares the counters. `passed` is False if a case is out that is not
    known to be.

    `dir` has reference tables; without it the built-in ones are taken. Keywords are the options of
    `coldset lab fidelity`; `tolerance` is a share (0.01) or a text ("1%").

    >>> import coldset.lab
    >>> told = coldset.lab.fidelity(kernels="6.12", cases="d_pread_cyc", policies="mglru-0x7")
    >>> told.passed, told["in"], told["of"]
    (True, 1, 1)
    """
    check(backend)
    return Answer("fidelity", _call.alone("fidelity", [] if dir is None else [dir], options), backend)


@signed
def verify(*, backend: Backend = "pandas", **options: Unpack[VerifyOptions]) -> Answer:
    """Runs all experiments, or those that `only` names, and judges their claims. `passed` is False if a claim of
    class A or B is out.

    Keywords are the options of `coldset lab verify`; `sensitivity` is True, "all" or "each". All experiments
    take minutes to an hour.

    >>> import coldset.lab
    >>> table = coldset.lab.verify(only="tlb-stress", quick=True).frame()
    >>> "bogo operations" in set(table["name"])
    True
    """
    check(backend)
    return Answer("verify", _call.alone("verify", [], options), backend)
