"""What runs in the processes of a Dask cluster. Arguments and answers are plain texts."""

from __future__ import annotations

import os

from .._coldset import lab_compute, lab_work
from .._errors import Error

#: What became of a cell: "computed", "found", "busy", "failed" or "row", and why or the row.
Answer = tuple[str, str]


def work_anywhere(folder: str, token: str, cell: str) -> Answer:
    """Computes a cell into a folder if this machine has it (the token is a file in it), otherwise
    sends the row."""
    if os.path.exists(os.path.join(folder, ".work", token)):
        return lab_work(folder, cell)
    try:
        return "row", lab_compute(cell)
    except (Error, OSError) as e:
        return "failed", str(e)
