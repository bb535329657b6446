"""The process: its end, fork, signal handlers."""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys
import warnings
import weakref
from typing import TypeVar

from ._coldset import Pages, Region, install_handler, whose_handler
from ._errors import ForkWarning, HandlerError

_R = TypeVar("_R", Region, Pages)

_pid = os.getpid()
_prepared = False
_alive: weakref.WeakSet[Region | Pages] = weakref.WeakSet()


def note(region: _R) -> _R:
    """Remembers that a region is alive."""
    _alive.add(region)
    return region


def _sync_at_exit() -> None:
    if os.getpid() != _pid:
        return
    for region in list(_alive):
        if not region.read_only:
            try:
                region.sync(0, len(region))
            except OSError as e:
                print(f"coldset: at exit: {e}", file=sys.stderr)


def _before_fork() -> None:
    if os.getpid() == _pid and len(_alive) > 0:
        warnings.warn(
            "this process has coldset arrays and forks: in the child they do not exist, and touching "
            'one is a segmentation fault. Use subprocess or multiprocessing.get_context("spawn")',
            ForkWarning,
            stacklevel=2,
        )


def prepare_signals() -> None:
    """Installs the pager's SIGBUS handler before the first pool, both beneath faulthandler and on top of it.

    faulthandler.enable() takes SIGBUS over when it is first called. So it is called here, unless somebody has
    called it: a later call then takes nothing over, and an access to an array in a child of fork ends with a traceback.
    When faulthandler is disabled, at the latest at the end of the interpreter, it restores the handler that it found.
    That must be ours, for threads that still use arrays.
    """
    global _prepared
    stderr = sys.__stderr__
    if _prepared or faulthandler.is_enabled() or stderr is None:
        return
    install_handler()
    _prepared = True
    try:
        faulthandler.enable(file=stderr)
    except (AttributeError, OSError, RuntimeError, ValueError):
        # Standard error is not a file: there is nowhere to write to.
        return
    install_handler()


def check_handler() -> None:
    """Raises HandlerError if `signal.signal` has taken SIGBUS away since the first pool: Python's handler only notes the
    signal and returns, and so the access that missed would run again, and miss again, for ever.

    Another library's handler is left alone: it may chain to the pager's.
    """
    whose = whose_handler()
    if whose == "nobody" or (whose == "other" and callable(signal.getsignal(signal.SIGBUS))):
        raise HandlerError(
            "signal.signal(signal.SIGBUS, ...) has replaced the handler by which misses arrive, and arrays cannot be used any "
            "more; leave SIGBUS alone once there is a pool (a handler set before the first pool is kept and called for "
            "signals that are no misses)"
        )


atexit.register(_sync_at_exit)
os.register_at_fork(before=_before_fork)
