"""Cells on processes of this machine. The supervisor is that of the command `coldset lab sweep`."""

from __future__ import annotations

from .._coldset import lab_supervise
from . import _child
from ._tally import Failed, Tally


def run(tally: Tally, folder: str, jobs: int | None) -> None:
    """Computes the cells that are to do, by `jobs` processes or one for each CPU."""
    found = tally.found
    computed, meanwhile, failed = lab_supervise(
        folder, tally.todo, jobs, _child.command(), lambda done, _: tally.show(found + done)
    )
    tally.computed = computed
    tally.found = found + meanwhile
    tally.failed = [Failed(*one) for one in failed]
