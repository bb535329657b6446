"""Policies written in Python."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from .._coldset import LabResult, lab_sequence
from .._errors import PolicyError, SettingError
from . import _settings
from ._progress import Progress

#: What a policy has to answer.
_METHODS = ("insert", "hit", "evict")
#: All that is looked for in a class.
_KNOWN = (*_METHODS, "remove", "put_back", "due", "hits_move", "files_first")
#: Of a page: it is gone, and the policy has not been told.
_STALE = 2
#: References between two looks at the progress bar.
_STEP = 1 << 16


class Policy:
    """A cache policy of your own, for `coldset.lab.mrc` and `coldset.lab.replay`. It is made anew for each size of
    memory; on the machine of a replay, for the files and the anonymous memory of each memory cgroup.

    Pages are numbers from 0, in the order of their first use, those of files and of anonymous memory alike. Any class
    with `insert`, `hit` and `evict` will do; this one says what they are given.

    There is more to tell, if the class has methods for it; of a replay all of it, of curves the first:

    - `remove(page)`: a page leaves without having been evicted: its file is cut, its memory given back. Without the
      method the page stays with the policy until it evicts it, which evicts nothing, and one that comes back before
      is a hit.
    - `put_back(page, used)`: a page that `evict` gave up stays, for it is dirty or busy, or (`used`) was found in use
      through a mapping. Without the method it is inserted, and hit if it was used.
    - `due(page)`: a page that had to be written first can go, and should be the next. Without the method such pages go
      before the policy is asked.

    >>> import coldset.lab
    >>> class Fifo(coldset.lab.Policy):
    ...     def __init__(self, frames):
    ...         self.queue = []
    ...     def insert(self, page):
    ...         self.queue.append(page)
    ...     def evict(self):
    ...         return self.queue.pop(0)
    >>> curves = coldset.lab.mrc([1, 2, 3, 1, 2, 3], policies=["fifo", Fifo], sizes=[2, 3], count="absences")
    >>> [int(n) for n in curves.curves["misses"]]
    [6, 3, 6, 3]
    """

    #: In a replay: a use moves the page in a list, as exact LRU does, which takes the machine time under a lock.
    hits_move = False
    #: In a replay: files go before anonymous memory as long as there are any. Otherwise swappiness weighs them.
    files_first = False

    def __init__(self, frames: int) -> None:
        """Memory has room for so many pages. In a replay that is the limit, which files, anonymous memory and the kernel
        share."""

    def insert(self, page: int) -> None:
        """A page comes into memory. There is room for it: `evict` has been asked before if there was none. In a replay it
        may have been read ahead."""
        raise NotImplementedError

    def hit(self, page: int) -> None:
        """A page in memory is used. In a replay, by a call: uses through a mapping are seen when the page is to go. For a
        class that does not define it nobody looks for them."""

    def evict(self) -> int:
        """The page that goes, one of those in memory. It is gone when this returns."""
        raise NotImplementedError


def _misspelt(policy: type) -> None:
    """Refuses a name of the class that looks like one that would be called, which the class does not have."""
    given = {name for c in policy.__mro__ if c not in (Policy, object) for name in vars(c)}
    missing = [name for name in _KNOWN if name not in given]
    for name in sorted(given):
        near = difflib.get_close_matches(name.lower(), missing, 1, 0.75)
        if near and name[0] != "_":
            raise SettingError(
                f"the policy {policy.__name__} has {name!r}, which nobody calls; did you mean {near[0]!r}? Otherwise "
                f"begin its name with an underscore: _{name}"
            )


def split(policies: object) -> tuple[list[str] | None, list[type]]:
    """Names, and classes."""
    if inspect.isclass(policies):
        policies = [policies]
    if policies is None or isinstance(policies, str) or not isinstance(policies, Iterable):
        return _settings.several(policies), []  # type: ignore[arg-type]
    given = _settings.some("policies", policies)
    classes = [p for p in given if inspect.isclass(p)]
    names = [str(p) for p in given if not inspect.isclass(p)]
    if not classes:
        return names, []
    known = set(names)
    for c in classes:
        _misspelt(c)
        missing = [m for m in _METHODS if not callable(getattr(c, m, None))]
        if missing:
            raise SettingError(
                f"the policy {c.__name__} has no method {missing[0]}; it needs insert(page), hit(page) and evict()"
            )
        if c.__name__ in known:
            raise SettingError(f"two policies are called {c.__name__!r}; rename the class")
        known.add(c.__name__)
    # Curves have a policy of the lab beside them, which says what the sizes are.
    return names or ["lru"], classes


def raised(policy: str, method: str, error: Exception, frames: int, where: str) -> PolicyError:
    """What is said of an exception in a method of a policy."""
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    return PolicyError(f"{policy}.{method} raised {what} (memory of {frames:,} pages{where})")


class _Cache:
    """Memory of so many pages under a policy."""

    def __init__(self, policy: type, frames: int, pages: int, gone: list[list[int]]) -> None:
        self.name, self.frames = policy.__name__, frames
        self.resident = bytearray(pages)
        self.held = 0
        #: Pages that are gone for good and the number of the reference before which they are, the next one last.
        self.leaving = gone[::-1]
        try:
            self.policy = policy(frames)
        except Exception as error:
            self.failed("__init__", error)

    def failed(self, method: str, error: Exception, at: int | None = None) -> NoReturn:
        where = "" if at is None else f", at reference {at:,}"
        raise raised(self.name, method, error, self.frames, where) from error

    def misses(self, keys: list[int], free: bytes, begin: int) -> int:
        """References from number `begin` on; those that missed."""
        resident, policy, misses = self.resident, self.policy, 0
        leaving = self.leaving
        method, at = "hit", begin
        try:
            insert, hit, evict = policy.insert, policy.hit, policy.evict
            remove = getattr(policy, "remove", None)
            for at, page in enumerate(keys, begin):
                while leaving and leaving[-1][0] <= at:
                    method = "remove"
                    self.leave(leaving.pop()[1], remove)
                if resident[page]:
                    method = "hit"
                    hit(page)
                    continue
                misses += not free[at]
                full = self.held == self.frames
                while full:
                    method = "evict"
                    victim = evict()
                    method = ""
                    full = not self.gone(victim, at)
                method = "insert"
                insert(page)
                resident[page] = 1
                self.held += 1
        except Exception as error:
            if not method:
                raise
            self.failed(method, error, at)
        return misses

    def leave(self, page: int, remove: Any) -> None:
        """A page is gone for good. A policy that takes no removals has it until it evicts it."""
        if self.resident[page]:
            self.held -= 1
            self.resident[page] = 0 if remove else _STALE
            if remove:
                remove(page)

    def gone(self, victim: Any, at: int) -> bool:
        """A victim is evicted. False: it was gone before, so that there is no more room than there was."""
        try:
            there = 0 <= victim < len(self.resident) and self.resident[victim]
        except TypeError:
            there = False
        if not there:
            raise PolicyError(
                f"{self.name}.evict returned {victim!r}, which is not a page in memory (memory of "
                f"{self.frames:,} pages, at reference {at:,})"
            )
        stale = self.resident[victim] == _STALE
        self.resident[victim] = 0
        self.held -= not stale
        return not stale


def add(
    native: LabResult,
    policies: list[type],
    source: tuple[str | None, bytes | None],
    count: str,
    format: str | None,
    progress: bool | None,
) -> LabResult:
    """Curves with those of policies written in Python."""
    if not policies:
        return native
    keys, free, left = lab_sequence(*source, count=count, format=format)
    numbers = np.frombuffer(keys, "<u4")
    pages = int(numbers.max()) + 1 if len(numbers) else 0
    gone = np.frombuffer(left, "<u4").reshape(-1, 2).tolist()
    sizes = native.sizes()
    steps = len(policies) * len(sizes) * len(numbers)
    with Progress("policies in Python", progress) as bar:
        done = 0
        for policy in policies:
            of_sizes = []
            for size in sizes:
                cache, misses = _Cache(policy, size, pages, gone), 0
                for begin in range(0, len(numbers), _STEP):
                    part = numbers[begin : begin + _STEP].tolist()
                    misses += cache.misses(part, free, begin)
                    done += len(part)
                    bar.set(done, steps)
                of_sizes.append(misses)
            native = native.with_curve(policy.__name__, of_sizes)
    return native


#: Options that say how a trace is read.
READING = {"columns", "access", "events", "blocks_per_page", "one_task", "strict"}


def only_numbers(policy: str, options: Iterable[str]) -> str:
    """Why a policy of the program's own does not go with these options, and what to do."""
    names = ", ".join(options)
    remedy = "convert the trace first (coldset lab convert), and" if READING & set(options) else "for it"
    return f"{policy} is written in Python; {remedy} leave out {names}"
