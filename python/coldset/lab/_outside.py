"""Policies written in Python that decide for the simulated machine."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from .._errors import PolicyError, SettingError
from . import _settings
from ._policy import Policy, only_numbers, raised, split

#: What is said of a page, by number: as in `python/src/lab/policies.rs`.
_INSERT, _HIT, _PUT_BACK, _PUT_BACK_USED, _DUE, _REMOVE = range(6)


def _own(policy: type, method: str) -> bool:
    """The class has a method of its own of this name, beside the one of `Policy`."""
    given = getattr(policy, method, None)
    return callable(given) and given is not getattr(Policy, method, None)


class Maker:
    """What the native half has to know of a class, and how it makes policies."""

    def __init__(self, policy: type, at: str = "access") -> None:
        self.policy, self.name, self.at = policy, policy.__name__, at
        self.uses = _own(policy, "hit")
        self.removes, self.due = _own(policy, "remove"), _own(policy, "due")
        self.moves = bool(getattr(policy, "hits_move", False))
        self.files_first = bool(getattr(policy, "files_first", False))

    def make(self, frames: int) -> _Instance:
        return _Instance(self.policy, frames, self.at)


def _put_back(policy: Any, called: list[str]) -> Callable[[int, bool], None]:
    """As a policy without the method takes a page back. The method that is at it is in `called`."""

    def put_back(page: int, used: bool) -> None:
        called[:] = ["insert"]
        policy.insert(page)
        if used:
            called[:] = ["hit"]
            policy.hit(page)
        called.clear()

    return put_back


class _Instance:
    """One policy. Its mistakes are told as such."""

    def __init__(self, policy: type, frames: int, at: str) -> None:
        self.name, self.frames, self.at = policy.__name__, frames, at
        try:
            made = self.policy = policy(frames)
        except Exception as error:
            self.failed("__init__", error)
        #: What has been called in place of a method that the class does not have.
        self.instead: list[str] = []
        put_back = made.put_back if _own(policy, "put_back") else _put_back(made, self.instead)
        self.calls: list[tuple[str, Any]] = [
            ("insert", made.insert),
            ("hit", made.hit),
            ("put_back", lambda page: put_back(page, False)),
            ("put_back", lambda page: put_back(page, True)),
            ("due", getattr(made, "due", None)),
            ("remove", getattr(made, "remove", None)),
        ]

    def failed(self, method: str, error: Exception, at: int | None = None) -> NoReturn:
        where = "" if at is None else f", at {self.at} {at:,}"
        raise raised(self.name, method, error, self.frames, where) from error

    def tell(self, at: int, said: list[int]) -> None:
        """What has happened: what is said and the page, by turns."""
        calls, word = self.calls, 0
        words = iter(said)
        try:
            for word, page in zip(words, words):
                calls[word][1](page)
        except Exception as error:
            method = self.instead.pop() if self.instead else calls[word][0]
            self.failed(method, error, at)

    def evict(self, at: int) -> int:
        try:
            victim = self.policy.evict()
        except Exception as error:
            self.failed("evict", error, at)
        try:
            page = operator.index(victim)
        except TypeError:
            self.refuse(victim, at)
        if not 0 <= page < 1 << 63:
            self.refuse(victim, at)
        return page

    def refuse(self, victim: object, at: int) -> NoReturn:
        raise PolicyError(
            f"{self.name}.evict returned {victim!r}, which is not a page in memory (memory of "
            f"{self.frames:,} pages, at {self.at} {at:,})"
        )


def variants(given: object) -> list[str | Maker]:
    """Names of variants, and classes ready to run, in the order in which they are given."""
    if isinstance(given, type):
        given = [given]
    every = _settings.some("variants", given)
    names, classes = split(every)
    if not classes or not isinstance(every, list):
        return list(names or [])
    return [Maker(v) if isinstance(v, type) else str(v) for v in every]


def in_pool(policy: type) -> Maker:
    """A class, ready to decide for a pool of the pager."""
    split([policy])
    return Maker(policy, "miss")


def refuse(given: list[str | Maker], options: Mapping[str, object]) -> None:
    """Classes where the command replays in a process of its own."""
    own = [v.name for v in given if isinstance(v, Maker)]
    if own and options:
        raise SettingError(only_numbers(own[0], options))
