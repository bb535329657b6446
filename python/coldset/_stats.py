"""A snapshot of a pool's counters."""

from __future__ import annotations

import importlib
from typing import Any


class Stats(dict[str, Any]):
    """Counters by name. Latencies are below `miss` and `evict`, the engine's own counters below
    `engine`.

    >>> import coldset
    >>> stats = coldset.Pool("1MiB").stats()
    >>> stats["budget_bytes"], stats["misses"], stats["miss"]["count"]
    (1048576, 0, 0)
    """

    def flat(self) -> dict[str, int]:
        """All counters in one level, with names such as `miss.p99_ns` and `engine.pgscan_direct`."""
        flat: dict[str, int] = {}
        for name, value in self.items():
            if isinstance(value, dict):
                flat.update({f"{name}.{key}": number for key, number in value.items()})
            else:
                flat[name] = value
        return flat

    def as_frame(self) -> Any:
        """A one-row data frame with the columns of `flat()`, from pandas or else from polars.

        `pandas.concat` stacks several snapshots.

        Raises ImportError if neither package is installed.
        """
        for name in ("pandas", "polars"):
            try:
                package = importlib.import_module(name)
            except ImportError:
                continue
            return package.DataFrame([self.flat()])
        raise ImportError(
            "as_frame needs pandas or polars: pip install pandas (or use the dictionary itself, or its "
            "flat())"
        )
