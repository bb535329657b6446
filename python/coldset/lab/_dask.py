"""Cells on a Dask cluster."""

from __future__ import annotations

import os
import time
import uuid
from collections import deque
from pathlib import Path
from typing import Any

from ._frames import need
from ._tally import Tally
from ._worker import work_anywhere

_PAUSE = 0.1


def connect(address: str, timeout: str = "10s") -> Any:
    """A client of a scheduler."""
    distributed = need("distributed", "a Dask cluster", "dask")
    try:
        return distributed.Client(address, timeout=timeout)
    except (OSError, ValueError) as e:
        raise OSError(
            f"no Dask scheduler answers at {address}: {e}; start one with `dask scheduler`"
        ) from e


def run(tally: Tally, folder: str, client: Any) -> None:
    """Computes the cells that are to do. Workers that have the folder write their results
    themselves; the others send them. Dask gives the cells of a worker that dies to others."""
    distributed = need("distributed", "a Dask cluster", "dask")
    queue = deque(tally.todo)
    attempt = uuid.uuid4().hex[:12]
    token = Path(folder, ".work", f"dask-{attempt}")
    token.touch()
    under_way: dict[Any, Any] = {}
    pause = False
    try:
        while queue or under_way:
            # Enough for all threads, few enough to be given up quickly.
            threads = sum(client.nthreads().values()) if not under_way or queue else 0
            while queue and len(under_way) < max(2 * threads, 2):
                cell = queue.popleft()
                future = client.submit(
                    work_anywhere,
                    folder,
                    token.name,
                    cell.json(),
                    key=f"coldset-{attempt}-{cell.key[:16]}-{uuid.uuid4().hex[:8]}",
                    pure=False,
                )
                under_way[future] = cell
            if pause:
                time.sleep(_PAUSE)
                pause = False
            try:
                done = distributed.wait(
                    list(under_way), timeout=1, return_when="FIRST_COMPLETED"
                ).done
            except (TimeoutError, distributed.TimeoutError):
                continue
            for future in done:
                status = future.status
                if status in ("pending", "lost"):
                    # The worker has died with the answer; Dask computes it again.
                    continue
                cell = under_way.pop(future)
                if status != "finished":
                    error = future.exception()
                    killed = isinstance(error, distributed.KilledWorker)
                    tally.failed_because(cell, f"{type(error).__name__}: {error}", killed=killed)
                    continue
                answer = future.result()
                future.release()
                if answer[0] == "row":
                    claim = tally.store.claim(cell.key)
                    if claim is not None and not tally.store.has(cell.key):
                        tally.append(cell, claim, answer[1])
                    else:
                        tally.note(cell, ("found", ""))
                elif answer[0] == "busy":
                    queue.append(cell)
                    pause = True
                else:
                    tally.note(cell, answer)
    finally:
        for future in under_way:
            future.cancel()
        try:
            os.unlink(token)
        except FileNotFoundError:
            pass
