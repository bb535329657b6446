"""Progress, shown on terminals and in notebooks only."""

from __future__ import annotations

import sys
import time
import warnings
from types import TracebackType
from typing import Any

from ._frames import need


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def _bar(label: str, wanted: bool | None, total: int) -> Any:
    """A bar of tqdm, or None. `wanted` None: on a terminal or in a notebook, if tqdm is installed."""
    if wanted is False:
        return None
    notebook = _in_notebook()
    seen = notebook or (sys.stderr is not None and sys.stderr.isatty())
    if not seen:
        return None
    try:
        with warnings.catch_warnings():
            # Without ipywidgets it draws with characters.
            warnings.simplefilter("ignore")
            tqdm = need("tqdm.auto", "progress=True", "lab").tqdm
            return tqdm(
                desc=label,
                total=total or None,
                unit="run",
                leave=False,
                disable=False if notebook else None,
            )
    except ImportError:
        return None


#: Shorter work shows no bar, s.
_DELAY = 1.0


class Progress:
    """A bar of a number of steps that becomes known on the way."""

    def __init__(self, label: str, wanted: bool | None) -> None:
        if wanted:
            need("tqdm", "progress=True", "lab")
        self._label = label
        self._wanted = wanted
        self._begin: float | None = time.monotonic()
        self._bar: Any = None

    def set(self, done: int, total: int) -> None:
        """Shows how much is done."""
        if self._begin is not None:
            if time.monotonic() - self._begin < _DELAY:
                return
            self._begin = None
            self._bar = _bar(self._label, self._wanted, total)
        bar = self._bar
        if bar is not None and (bar.n, bar.total) != (done, total or None):
            bar.total = total or None
            bar.n = done
            bar.refresh()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
