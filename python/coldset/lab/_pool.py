"""Cells on processes of this machine. The supervisor is that of the command `coldset lab sweep`."""

from __future__ import annotations

import sys

from .._coldset import lab_supervise
from ._tally import Failed, Tally


def run(tally: Tally, folder: str, jobs: int | None) -> None:
    """Computes the cells that are to do, by `jobs` processes or one for each CPU."""
    # The command, with the modules that this process finds.
    command = f"import sys; sys.path[:] = {sys.path!r}; import coldset._command as c; sys.exit(c.main())"
    worker = [sys.executable, "-c", command]
    found = tally.found
    computed, meanwhile, failed = lab_supervise(
        folder, tally.todo, jobs, worker, lambda done, _: tally.show(found + done)
    )
    tally.computed = computed
    tally.found = found + meanwhile
    tally.failed = [Failed(*one) for one in failed]
