"""What there is."""

from __future__ import annotations

import json
from typing import Any

from .._coldset import lab_lists
from .._errors import SettingError
from ._frames import Backend, columns, frame


def _rows(what: str, variant: str = "base") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(lab_lists(variant))[what]
    return rows


def experiments(*, backend: Backend = "pandas") -> Any:
    """The published experiments: a frame with name, what it is, before, after, scale, source and
    costs that are different there.

    >>> import coldset.lab
    >>> "mongodb" in set(coldset.lab.experiments()["experiment"])
    True
    """
    return frame(columns(_rows("experiments")), backend)


def variants(*, backend: Backend = "pandas") -> Any:
    """Policy variants, and suffixes that go behind any of them."""
    return frame(columns(_rows("variants")), backend)


def switches(variant: str = "base", *, backend: Backend = "pandas") -> Any:
    """Every switch with its value in a variant, what it takes and what it changes.

    >>> import coldset.lab
    >>> table = coldset.lab.switches("v5").set_index("switch")
    >>> str(table.loc["smaller_batch", "value"])
    'on'
    """
    return frame(columns(_rows("switches", variant)), backend)


def params(experiment: str | None = None, *, backend: Backend = "pandas") -> Any:
    """Parameters of an experiment, or of all, with their defaults; for `run(..., params=...)`."""
    rows = _rows("params")
    if experiment is not None:
        names = {row["experiment"] for row in _rows("experiments")}
        if experiment not in names:
            raise SettingError(
                f"there is no experiment {experiment!r}; see coldset.lab.experiments()"
            )
        rows = [row for row in rows if row["experiment"] == experiment]
    return frame(columns(rows), backend)


def costs(*, backend: Backend = "pandas") -> Any:
    """Costs of the simulated machine with unit, source and mark: P published, A assumed, S a setting of
    the model; for `run(..., cost=...)`."""
    return frame(columns(_rows("costs")), backend)


def deviations(*, backend: Backend = "pandas") -> Any:
    """Costs that an experiment, or a replay, declares to be different from the one table, and why;
    `run(..., cost=...)` overrides them."""
    return frame(columns(_rows("deviations")), backend)
