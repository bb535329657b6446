"""The options of the commands that `_shell` runs: one table, by which they are typed, checked and written.

A keyword is called as the option of the command, with underscores; behind a word of Python is one more
(`for_`). `json` and `markdown` are left out: results have both forms; and `no_plot`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict, TypeVar, get_type_hints

from ._kinds import (
    Factor,
    Flag,
    How,
    Kind,
    Limits,
    Memories,
    Memory,
    Names,
    Number,
    OnOff,
    Pairs,
    PathName,
    Percent,
    Points,
    Size,
    Text,
    unknown,
)


class Reading(TypedDict, total=False):
    """How a trace is read, but for its format."""

    blocks_per_page: Number
    access: Text
    events: Names
    columns: Names
    one_task: Flag
    strict: Flag


class AdviseOptions(Reading, total=False):
    """Of `advise`."""

    format: Text
    memory: Memories
    today: Memory
    for_: Names
    swap: Text
    swappiness: Number
    device: Text
    read_ahead_kb: Number
    dirty_limits: Text
    kernel_memory: OnOff
    report: PathName
    jobs: Number


class AblateOptions(Reading, total=False):
    """Of `ablate`."""

    format: Text
    memory: Memory
    variants: Names
    param: Pairs
    scale: Factor
    effort: Factor
    cost: Pairs
    seeds: Number
    report: PathName
    jobs: Number


class CompareOptions(TypedDict, total=False):
    """Of `compare`."""

    report: PathName


class InspectOptions(Reading, total=False):
    """Of `inspect`."""

    format: Text
    variants: Names
    set: Pairs
    memory: Memory
    swap: Text
    swappiness: Number
    at: Number
    age: Number
    evict: Text


class FidelityOptions(TypedDict, total=False):
    """Of `fidelity`."""

    cases: Names
    kernels: Names
    policies: Names
    phases: Number
    series: Flag
    traces: PathName
    tolerance: Percent
    jobs: Number


class VerifyOptions(TypedDict, total=False):
    """Of `verify`."""

    only: Names
    seeds: Number
    quick: Flag
    sensitivity: How
    cost: Pairs
    report: PathName
    jobs: Number


class ReplayOptions(Reading, total=False):
    """Of `replay`, but for those that its signature names."""

    stream: Flag
    limit: Text
    watermarks: Text
    own_pages: Number
    fault_around: Size
    read_ahead: Size
    read_ahead_kb: Number
    device: Text
    file_system: Text
    large_folios: OnOff
    extents: Number
    hold_blocks: OnOff
    thp: Text
    dirty_ratio: Number
    dirty_background_ratio: Number
    dirty_limits: Text
    inodes: Text
    clock: Points
    pace: Text
    order: Text
    cpus: Number
    scale: Factor
    cost: Pairs
    fold_phases: Number
    fold_every: Size
    low: Limits
    csv: PathName
    report: PathName


class AllReplayOptions(ReplayOptions, total=False):
    """Of `replay`."""

    variants: Names
    set: Pairs
    format: Text
    memory: Memories
    kernel_memory: OnOff
    swap: Text
    swappiness: Number
    bounds: Text
    jobs: Number


class MrcOptions(Reading, total=False):
    """Of `mrc`, but for those that its signature names."""

    csv: PathName
    report: PathName


class AllMrcOptions(MrcOptions, total=False):
    """Of `mrc`."""

    policies: Names
    format: Text
    points: Number
    sizes: Memories
    count: Text
    kernel_memory: OnOff
    sample: Factor
    jobs: Number


#: By command.
TABLE: dict[str, Any] = {
    "ablate": AblateOptions,
    "advise": AdviseOptions,
    "compare": CompareOptions,
    "fidelity": FidelityOptions,
    "inspect": InspectOptions,
    "mrc": AllMrcOptions,
    "replay": AllReplayOptions,
    "verify": VerifyOptions,
}


def kinds(options: Any) -> dict[str, Kind]:
    """Keywords of a table and what they take."""
    hints = get_type_hints(options, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


_F = TypeVar("_F", bound=Callable[..., Any])


def signed(function: _F) -> _F:
    """With the keywords of the table in its signature, for `help` and for completion."""
    plain = inspect.signature(function)
    own = {name: p for name, p in plain.parameters.items() if p.kind is not p.VAR_KEYWORD}
    more = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=getattr(hint, "__forward_arg__", hint),
        )
        for name, hint in TABLE[function.__name__].__annotations__.items()
        if name not in own
    ]
    setattr(function, "__signature__", plain.replace(parameters=[*own.values(), *more]))
    return function


def check(function: str, given: Mapping[str, object], others: Iterable[str] = ()) -> None:
    """Raises TypeError for a keyword that is neither in the table nor one of the others."""
    known = kinds(TABLE[function])
    for name in given:
        if name not in known:
            raise unknown(function, name, [*known, *others])


def write(function: str, given: Mapping[str, object]) -> list[str]:
    """Keywords as arguments of the command. None is as if it was not given."""
    known = kinds(TABLE[function])
    arguments = []
    for name, value in given.items():
        if value is not None:
            arguments += known[name].write(name, value)
    return arguments
