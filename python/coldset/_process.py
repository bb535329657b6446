"""What concerns the process: its end, fork, signal handlers."""

from __future__ import annotations

import atexit
import faulthandler
import os
import sys
import warnings
import weakref
from typing import TypeVar

from ._coldset import Pages, Region, install_handler
from ._errors import ForkWarning

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
    """Installs the pager's handler of SIGBUS before the first pool, beneath faulthandler and on top of it.

    faulthandler.enable() takes SIGBUS over when it is called for the first time. It therefore is
    called here, if nobody has: a later call then does not take anything over, and an access to an
    array in a child of fork ends with a traceback. When it is disabled, at the end of the interpreter at the
    latest, it restores what it has found: threads that still use arrays then must find ours.
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


atexit.register(_sync_at_exit)
os.register_at_fork(before=_before_fork)
