"""The native half; users import `coldset`."""

from collections.abc import Callable
from typing import Any, Literal, final

__all__ = [
    "Fix",
    "Group",
    "LabCell",
    "LabClaim",
    "LabJob",
    "LabResult",
    "LabStore",
    "PAGE_SIZE",
    "Pages",
    "Pin",
    "Pool",
    "Region",
    "__version__",
    "command",
    "install_handler",
    "lab_cells",
    "lab_compute",
    "lab_is_journal",
    "lab_lists",
    "lab_mrc",
    "lab_replay",
    "lab_run",
    "lab_sequence",
    "lab_supervise",
    "lab_version",
    "lab_work",
    "parse_size",
    "probe",
    "whose_handler",
]

__version__: str
PAGE_SIZE: int

def whose_handler() -> Literal["ours", "nobody", "other"]:
    """Whose handler SIGBUS has."""

def probe() -> list[str]:
    """Tries each kernel feature that arrays need. Returns their names.

    Raises MissingFeature, which names the first that is missing.
    """

def command(arguments: list[str], /) -> int:
    """Runs the command `coldset`; the program's name comes first. Returns its exit code."""

def install_handler() -> None:
    """Installs the pager's handler of SIGBUS, or puts it on top of one that has come since.

    Raises HandlerError where a miss could not arrive.
    """

def parse_size(text: str, /) -> int:
    """Bytes of a size such as "2GiB", "512M" or "4096"."""

@final
class Pool:
    def __new__(cls, settings: list[tuple[str, str]], policy: object | None = None) -> Pool: ...
    @property
    def budget(self) -> int: ...
    def resize(self, bytes: int) -> None: ...
    def root(self) -> Group: ...
    def sync(self) -> None: ...
    def record(self, path: str) -> None: ...
    def stop_recording(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...

@final
class Group:
    @property
    def name(self) -> str: ...
    @property
    def usage(self) -> int: ...
    def group(
        self,
        name: str,
        *,
        min: int | None = None,
        low: int | None = None,
        high: int | None = None,
        max: int | None = None,
    ) -> Group: ...
    def set(
        self,
        *,
        min: int | None = None,
        low: int | None = None,
        high: int | None = None,
        max: int | None = None,
    ) -> None: ...
    def generations(self) -> list[tuple[int, int, int]]: ...
    def reclaim(self, bytes: int, /) -> int: ...
    def anonymous(self, bytes: int, /) -> Region: ...
    def anonymous_pages(self, bytes: int, /) -> Pages: ...
    def file_pages(self, path: str, writable: bool, *, empty: bool = False, grow: int = 0) -> Pages: ...
    def file(
        self,
        path: str,
        writable: bool,
        *,
        shared: bool = False,
        empty: bool = False,
        grow: int = 0,
    ) -> Region: ...

@final
class Region:
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def address(self) -> int: ...
    @property
    def read_only(self) -> bool: ...
    def __len__(self) -> int: ...
    def check(self) -> None: ...
    def sync(self, start: int, end: int) -> None: ...
    def advise(self, start: int, end: int, advice: str) -> None: ...
    def resident(self, start: int, end: int) -> int: ...
    def pin(self, start: int, end: int, write: bool) -> Pin: ...

@final
class Pages:
    @property
    def read_only(self) -> bool: ...
    def __len__(self) -> int: ...
    def fix(self, page: int, write: bool) -> Fix: ...
    def sync(self, start: int, end: int) -> None: ...
    def resident(self) -> int: ...

@final
class Fix:
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

@final
class Pin:
    def release(self) -> None: ...

def lab_lists(variant: str, /) -> str:
    """Tables as JSON lists of objects: experiments, params, variants, switches (of a variant), costs,
    deviations from them."""

def lab_version() -> str:
    """Version that is part of every key of a sweep."""

def lab_run(
    name: str,
    workload: str | None,
    *,
    variants: list[str] | None,
    seeds: int,
    scale: str | None,
    effort: str,
    switches: list[str],
    costs: list[tuple[str, int]],
    params: list[tuple[str, str]],
    jobs: int | None,
) -> LabJob:
    """Starts an experiment, or a workload in a file or in JSON, over variants and seeds 1 to `seeds`."""

def lab_replay(
    path: str | None,
    records: bytes | None,
    *,
    variants: list[Any],
    memory: list[str],
    switches: list[str],
    swap: str | None,
    swappiness: int,
    kernel_memory: bool,
    bounds: bool,
    format: str | None,
    jobs: int | None,
) -> LabJob:
    """Starts a replay, of a file or of records of 8 bytes, over variants and limits."""

def lab_is_journal(path: str, /) -> bool:
    """True for a journal of the pager, recognised by its beginning."""

def lab_mrc(
    path: str | None,
    records: bytes | None,
    *,
    policies: list[str],
    sizes: list[str],
    points: int,
    sample: str | None,
    count: str,
    kernel_memory: bool,
    format: str | None,
    jobs: int | None,
) -> LabJob:
    """Starts miss-ratio curves of a trace."""

def lab_sequence(
    path: str | None, records: bytes | None, *, count: str, format: str | None
) -> tuple[bytes, bytes, bytes]:
    """The references of a trace: numbers of pages as little-endian 32-bit integers, a byte each, 1 if a miss
    costs nothing, and the pages that are gone for good, each after the position of the next reference."""

def lab_cells(name: str, text: str, toml: bool, base: str) -> list[LabCell]:
    """All cells of a grid in TOML or JSON. Traces are looked for from `base`."""

def lab_work(dir: str, cell: str) -> tuple[str, str]:
    """Computes a cell into a folder. Returns "computed", "found", "busy" or "failed", and why."""

def lab_compute(cell: str) -> str:
    """Computes a cell. Returns its row, for `LabStore.append`."""

def lab_supervise(
    dir: str,
    cells: list[LabCell],
    jobs: int | None,
    worker: list[str],
    look: Callable[[int, int], None],
) -> tuple[int, int, list[tuple[str, str, str, bool]]]:
    """Computes the cells that are to do on processes of this machine, which `worker` starts. Returns
    how many were computed, how many found, and those that failed: cell, key, reason, killed."""

@final
class LabJob:
    def wait(self, milliseconds: int) -> bool: ...
    def progress(self) -> tuple[int, int]: ...
    def stop(self) -> None: ...
    def result(self) -> LabResult: ...

@final
class LabResult:
    @property
    def kind(self) -> str: ...
    def json(self) -> str: ...
    def text(self) -> str: ...
    def html(self, command: str) -> str | None: ...
    def curves(self) -> dict[str, list[Any]]: ...
    def with_curve(self, policy: str, misses: list[int]) -> LabResult: ...
    def sizes(self) -> list[int]: ...
    def values(self) -> dict[str, list[Any]]: ...
    def means(self) -> dict[str, list[Any]]: ...
    def series(self) -> dict[str, list[Any]]: ...
    def histograms(self) -> dict[str, list[Any]]: ...
    def charts(self) -> list[tuple[str, str, str, str]]: ...

@final
class LabCell:
    @property
    def key(self) -> str: ...
    @property
    def experiment(self) -> str: ...
    def settings(self) -> list[tuple[str, str]]: ...
    def describe(self) -> str: ...
    def json(self) -> str: ...

@final
class LabClaim:
    def release(self) -> None: ...

@final
class LabStore:
    def __new__(cls, dir: str) -> LabStore: ...
    def keys(self) -> set[str]: ...
    def has(self, key: str) -> bool: ...
    def claim(self, key: str) -> LabClaim | None: ...
    def append(self, claim: LabClaim, row: str) -> None: ...
    def merge(self) -> None: ...
    def values(self, keys: set[str]) -> dict[str, list[Any]]: ...
    def table(self, cells: list[LabCell], counters: list[str], markdown: bool) -> str: ...
