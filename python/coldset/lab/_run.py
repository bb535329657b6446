"""Experiments and replays."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

from .._coldset import LabJob, LabResult, lab_is_journal, lab_mrc, lab_replay, lab_run
from .._errors import SettingError
from . import _kinds, _options, _outside, _policy, _settings
from ._answer import Apart
from ._call import is_file, on_trace
from ._frames import Backend, check
from ._options import MrcOptions, ReplayOptions, signed
from ._progress import Progress
from ._result import Result
from ._settings import Settings
from ._trace import records

if sys.version_info >= (3, 11):
    from typing import Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack

#: Sizes of memory: text, numbers of pages, shares.
Sizes = Union[str, int, float, Iterable[Union[str, int, float]]]
#: How often progress is shown and Ctrl-C is looked for, ms.
_PAUSE = 100


def _finish(job: LabJob, label: str, progress: bool | None) -> LabResult:
    with Progress(label, progress) as bar:
        try:
            while not job.wait(_PAUSE):
                bar.set(*job.progress())
        except BaseException:
            job.stop()
            raise
    return job.result()


class _Shown:
    """What stands for a long argument."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _call(name: str, trace: object, **settings: object) -> str:
    """How a result was made, for its page."""
    given = [f"{k}={v!r}" for k, v in settings.items() if v is not None]
    first = repr(trace) if isinstance(trace, (str, os.PathLike, _Shown)) else "pages"
    return f"coldset.lab.{name}({', '.join([first, *given])})"


def _is_journal(trace: Any, format: str | None) -> bool:
    """A journal of a pool, which the command reads."""
    return format is None and isinstance(trace, (str, os.PathLike)) and lab_is_journal(os.fspath(trace))


def _source(trace: Any, format: str | None, **array: Any) -> tuple[str | None, bytes | None, str]:
    """File, records, and a label."""
    if not is_file(trace):
        _settings.of_a_file({"format": format})
        return None, records(trace, **array), "replay"
    for name, value in array.items():
        if value is not None and value is not False:
            raise SettingError(
                f"{name} goes with an array of page numbers; a trace in a file says it itself"
            )
    path = os.fspath(trace)
    return path, None, os.path.basename(path)


#: Of a workload without one.
_NAME = "workload"


def _experiment(given: Any) -> tuple[str, str | None]:
    """Name, or file of a workload; and the workload in JSON."""
    if isinstance(given, Mapping):
        try:
            return _NAME, json.dumps(given)
        except (TypeError, ValueError) as e:
            raise SettingError(
                f"the workload cannot be used ({e}); it has texts, numbers, True and False, lists and dicts"
            ) from None
    if isinstance(given, os.PathLike):
        return os.fspath(given), None
    if not isinstance(given, str):
        raise TypeError(
            f"experiment is {given!r}; give the name of one, a file ending in .toml, or a dict"
        )
    return given, None


def run(
    experiment: str | os.PathLike[str] | Mapping[str, object],
    *,
    variants: str | Iterable[str] | None = None,
    seeds: int = 5,
    scale: str | int | None = None,
    effort: float | str = 1,
    set: Settings | str | None = None,
    cost: Settings | str | None = None,
    params: Settings | str | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
    backend: Backend = "pandas",
) -> Result:
    """Runs an experiment over variants and seeds 1 to `seeds`, and judges its claims.

    `experiment` is the name of a built-in one, or a workload of your own: a file in TOML whose name ends in
    `.toml`, or a dict with the same keys (`docs/how-to/own-workload.md`).
    The first variant is "before", the last one "after"; one may carry switches of its own
    ("base+smaller_batch=on"). `scale` is the share of the original's memory and data ("1/64"), `effort` a
    factor on the operations. `set` changes switches in all variants, `cost` costs of the machine,
    `params` parameters of the experiment: mappings, or "name=value" texts. `jobs` is the number of threads.
    `progress` shows a bar of tqdm; by default on a terminal or in a notebook, if it is installed. Ctrl-C stops
    the run.

    >>> import coldset.lab
    >>> result = coldset.lab.run("tlb-stress", seeds=2, scale="1/512", effort=0.05)
    >>> sorted(result.frame().columns)
    ['counter', 'seed', 'value', 'variant']
    >>> step = {"load": "f", "at": "cyclic", "cpu": "1us"}
    >>> mine = {
    ...     "files": [{"name": "f", "size": "8MiB"}],
    ...     "tasks": [{"name": "reader", "phases": [{"count": 5000, "steps": [step]}]}],
    ...     "results": ["ops", "pgpgin"],
    ... }
    >>> frame = coldset.lab.run(mine, seeds=1, variants="v5").frame()
    >>> [int(n) for n in frame["value"]]  # pgpgin is in KiB
    [5000, 8192]
    """
    check(backend)
    name, workload = _experiment(experiment)
    job = lab_run(
        name,
        workload,
        variants=_settings.several(variants),
        seeds=_settings.count("seeds", seeds, 1, 10_000),
        scale=_settings.scale(scale),
        effort=str(effort),
        switches=_settings.assignments(set),
        costs=_settings.costs(cost),
        params=_settings.pairs("parameter", params),
        jobs=_settings.jobs(jobs),
    )
    call = _call(
        "run", name if workload is None else _Shown("{...}"), variants=variants, seeds=seeds, scale=scale, effort=effort, set=set,
        cost=cost, params=params,
    )
    return Result(_finish(job, os.path.basename(name), progress), backend, call)


@signed
def replay(
    trace: Any,
    *,
    memory: Sizes | None = None,
    variants: str | type | Iterable[str | type] | None = ("classic", "base", "v5"),
    writes: Any = None,
    objects: Any = None,
    tasks: Any = None,
    anon: bool = False,
    set: Settings | str | None = None,
    swap: str | None = None,
    swappiness: int = 60,
    kernel_memory: bool = True,
    bounds: bool = True,
    format: str | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
    backend: Backend = "pandas",
    **options: Unpack[ReplayOptions],
) -> Result:
    """Replays a trace over variants and memory limits, beside exact LRU and OPT.

    `trace` is a file of any format that `coldset lab list` names, or an array of page numbers in the
    order of the accesses (then `writes`, `objects`, `tasks` and `anon` are as in `save_trace`).
    `memory` are limits: sizes ("64MiB"), shares of the different pages of the trace (0.25 or "25%"), or whole
    numbers of pages. `swap`, `swappiness` and `kernel_memory` are as on the command line.

    All other options of `coldset lab replay` are keywords too, with underscores: `one_task=True`,
    `device="hdd"`, `large_folios=True`, `low={1: "16MiB"}`, `clock={0: 0, 32768: 6.58}`. With one of them the command
    replays in a process of its own: the same figures, but no progress, and `series` is empty. So it does with a journal
    of a pool.

    A variant may be a class of your own, which decides what leaves memory: see `Policy`. It runs in Python, and takes
    none of the other options.

    >>> import coldset.lab, numpy
    >>> circle = numpy.arange(10_000) % 1000
    >>> result = coldset.lab.replay(circle, memory="50%", variants=["fifo", "v5"])
    >>> table = result.frame().set_index(["variant", "counter"])["value"]
    >>> int(table["fifo", "misses"]), int(table["(bounds)", "lru_misses"])
    (10000, 10000)
    """
    check(backend)
    array = {"writes": writes, "objects": objects, "tasks": tasks, "anon": anon}
    named = {
        "memory": memory, "variants": variants, "set": set, "swap": swap, "swappiness": swappiness,
        "kernel_memory": kernel_memory,
    }
    call = _call("replay", trace, **named, **options)
    _options.check("replay", options, [*named, *array, "backend", "progress"])
    if variants is None:
        variants = named["variants"] = ("classic", "base", "v5")
    every = _outside.variants(variants)
    more = {name: value for name, value in options.items() if value is not None}
    _outside.refuse(every, more)
    journal = _is_journal(trace, format)
    if journal and (own := [v for v in every if not isinstance(v, str)]):
        raise SettingError(f"{own[0].name} is written in Python; convert the journal first (coldset lab convert)")
    if more or journal:
        limits = _kinds.pages("memory", memory) or None
        named.update(memory=limits, bounds=None if bounds else "none", format=format, jobs=jobs)
        told = on_trace("replay", trace, array, {**named, **more}, page=True)
        return Result(Apart("replay", told), backend, call)
    path, data, label = _source(trace, format, **array)
    job = lab_replay(
        path,
        data,
        variants=every,
        memory=_kinds.pages("memory", memory),
        switches=_settings.assignments(set),
        swap=_settings.word("swap", swap),
        swappiness=_settings.count("swappiness", swappiness, 0, 200),
        kernel_memory=_settings.flag("kernel_memory", kernel_memory),
        bounds=_settings.flag("bounds", bounds),
        format=_settings.word("format", format),
        jobs=_settings.jobs(jobs),
    )
    return Result(_finish(job, label, progress), backend, call)


@signed
def mrc(
    trace: Any,
    *,
    policies: str | type | Iterable[str | type] | None = None,
    points: int = 12,
    sizes: Sizes | None = None,
    sample: float | str | None = None,
    count: str = "reads",
    kernel_memory: bool = True,
    objects: Any = None,
    format: str | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
    backend: Backend = "pandas",
    **options: Unpack[MrcOptions],
) -> Result:
    """Miss-ratio curves of a trace: the share of misses over the size of memory, for each policy.

    `trace` is a file or an array of page numbers (then `objects` as in `save_trace`). `policies` are
    variants, "opt" (Belady) and "lru-stack"; `sizes` are as `memory` of `replay`, or `points` of them
    are chosen. With `sample`, such as 0.01, samples of the pages stand for all, with an error.

    A miss is a reference for which something is read, as in `replay`; with `count="absences"`, every reference
    to an absent page, as in the literature. Kernel policies are replayed, with or without `kernel_memory`.

    How a trace is read (`one_task`, `events`, `access`, ...), `report` and `csv` are keywords as the command has
    options; then, and of a journal of a pool, the command computes in a process of its own.

    A policy may be a class of your own: see `Policy`. It runs in Python, for each size one after the other, some
    hundred times slower.

    >>> import coldset.lab, numpy
    >>> circle = numpy.arange(10_000) % 1000
    >>> curves = coldset.lab.mrc(circle, policies=["lru", "opt"], sizes=["50%", "100%"])
    >>> [float(r) for r in curves.curves.query("policy == 'lru'")["miss_ratio"]]
    [1.0, 0.1]
    """
    check(backend)
    names, own = _policy.split(policies)
    if own and sample is not None:
        raise SettingError(f"{own[0].__name__} is written in Python and takes all pages; leave out sample")
    call = _call(
        "mrc", trace, policies=policies, points=points, sizes=sizes, sample=sample, count=count,
        kernel_memory=kernel_memory, **options,
    )
    named = {"objects": objects, "format": format, "jobs": jobs, "backend": backend, "progress": progress}
    _options.check("mrc", options, named)
    more = {name: value for name, value in options.items() if value is not None}
    if (journal := _is_journal(trace, format)) and own:
        raise SettingError(f"{own[0].__name__} is written in Python; convert the journal first (coldset lab convert)")
    if more or journal:
        if own:
            raise SettingError(_policy.only_numbers(own[0].__name__, more))
        given = {
            "policies": names or None, "sizes": _kinds.pages("sizes", sizes) or None,
            "points": None if sizes is not None else points, "sample": sample, "count": count,
            "kernel_memory": kernel_memory, "format": format, "jobs": jobs,
        }
        told = on_trace("mrc", trace, {"objects": objects}, {**given, **more})
        return Result(Apart("curves", told), backend, call)
    path, data, label = _source(trace, format, objects=objects)
    job = lab_mrc(
        path,
        data,
        policies=names or [],
        sizes=_kinds.pages("sizes", sizes),
        points=_settings.count("points", points, 1, 1000),
        sample=None if sample is None else str(sample),
        count=count,
        kernel_memory=_settings.flag("kernel_memory", kernel_memory),
        format=_settings.word("format", format),
        jobs=_settings.jobs(jobs),
    )
    done = _policy.add(_finish(job, label, progress), own, (path, data), count, format, progress)
    return Result(done, backend, call)
