"""What runs in the processes of a pool or a cluster. Arguments and answers are plain texts."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait

from .._coldset import lab_compute, lab_work
from .._errors import Error

#: What became of a cell: "computed", "found", "busy", "failed" or "row", and why or the row.
Answer = tuple[str, str]


def begin() -> None:
    """In a new process of a pool: Ctrl-C is for the one that has made it, and when that one goes, this
    one goes, too, at once. Nobody would get what it computes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def follow() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def work(folder: str, cell: str) -> Answer:
    """Computes a cell into a folder."""
    return lab_work(folder, cell)


def work_anywhere(folder: str, token: str, cell: str) -> Answer:
    """Computes a cell into a folder if this machine has it (the token is a file in it), otherwise
    sends the row."""
    if os.path.exists(os.path.join(folder, ".work", token)):
        return lab_work(folder, cell)
    try:
        return "row", lab_compute(cell)
    except (Error, OSError) as e:
        return "failed", str(e)
