"""Cells on a pool of processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ._tally import Tally
from ._worker import Answer, begin, work

#: Attempts at a cell whose worker is killed.
_ATTEMPTS = 2
#: Pause before a cell that another sweep has is asked for again, s.
_PAUSE = 0.1


class _Pool:
    """A pool that is made anew when a worker has been killed."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._made: ProcessPoolExecutor | None = None

    def submit(self, folder: str, cell: str) -> Future[Answer]:
        if self._made is None:
            # fork would copy locks that threads hold.
            context = multiprocessing.get_context("spawn")
            self._made = ProcessPoolExecutor(self.jobs, context, begin)
        return self._made.submit(work, folder, cell)

    def kill(self) -> None:
        """Ends the workers at once. What they have finished is on disk."""
        pool, self._made = self._made, None
        if pool is None:
            return
        # There is no public way before Python 3.14.
        workers: dict[int, Any] = getattr(pool, "_processes", None) or {}
        for process in list(workers.values()):
            process.kill()
        pool.shutdown(wait=True, cancel_futures=True)


def run(tally: Tally, folder: str, jobs: int | None) -> None:
    """Computes the cells that are to do. When a worker is killed, the cells that were under way are
    tried again one by one, so that the one that kills workers is known."""
    queue = deque(tally.todo)
    suspects: deque[Any] = deque()
    attempts: dict[str, int] = {}
    pool = _Pool(min(jobs or os.cpu_count() or 1, max(len(queue), 1)))
    under_way: dict[Future[Answer], Any] = {}
    try:
        while queue or suspects or under_way:
            alone = bool(suspects)
            source = suspects if alone else queue
            room = 1 if alone else pool.jobs + 1
            while source and len(under_way) < room:
                cell = source.popleft()
                try:
                    under_way[pool.submit(folder, cell.json())] = cell
                except BrokenProcessPool:
                    source.appendleft(cell)
                    break
            if not under_way:
                pool.kill()
                continue
            done, _ = wait(under_way, timeout=1, return_when=FIRST_COMPLETED)
            broken = []
            for future in done:
                cell = under_way.pop(future)
                try:
                    answer = future.result()
                except BrokenProcessPool:
                    broken.append(cell)
                    continue
                except Exception as e:
                    tally.failed_because(cell, f"{type(e).__name__}: {e}")
                    continue
                if answer[0] == "busy":
                    time.sleep(_PAUSE)
                    queue.append(cell)
                else:
                    tally.note(cell, answer)
            if broken:
                broken += under_way.values()
                under_way.clear()
                pool.kill()
                for cell in broken:
                    if len(broken) == 1:
                        attempts[cell.key] = attempts.get(cell.key, 0) + 1
                    if attempts.get(cell.key, 0) >= _ATTEMPTS:
                        tally.failed_because(cell, "its worker was killed or crashed", killed=True)
                    else:
                        suspects.append(cell)
    finally:
        pool.kill()
