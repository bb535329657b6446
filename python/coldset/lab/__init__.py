"""The lab: published experiments and recorded traces over reclaim policies, on a simulated machine.

>>> import coldset.lab
>>> result = coldset.lab.run("mongodb", seeds=2, scale="1/2048", effort=0.05)
>>> [c["name"] for c in result.verdicts()][:1]
['throughput']
>>> result.variants
['base', 'classic', 'v5']

`run` and `replay` give a `Result`, `sweep` a `Sweep`, `advise`, `ablate`, `compare`, `inspect`, `fidelity` and
`verify` an `Answer`. All have frames of pandas or polars, and
show themselves in Jupyter. Figures are those of the command `coldset lab`, to the last digit.
"""

from __future__ import annotations

from ._answer import Answer
from ._lists import costs, deviations, experiments, params, switches, variants
from ._policy import Policy
from ._result import Chart, Charts, Result
from ._run import mrc, replay, run
from ._shell import ablate, advise, compare, fidelity, inspect, verify
from ._sweep import Cell, Failed, Sweep, cells, sweep
from ._trace import save_trace
from .._coldset import lab_version as version

__all__ = [
    "Answer",
    "Cell",
    "Chart",
    "Charts",
    "Failed",
    "Policy",
    "Result",
    "Sweep",
    "ablate",
    "advise",
    "cells",
    "compare",
    "costs",
    "deviations",
    "experiments",
    "fidelity",
    "inspect",
    "mrc",
    "params",
    "replay",
    "run",
    "save_trace",
    "sweep",
    "switches",
    "variants",
    "verify",
    "version",
]
