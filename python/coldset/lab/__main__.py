"""`python -m coldset.lab sweep`: what `coldset lab sweep --dask` calls."""

from __future__ import annotations

import argparse
import json
import sys

from .._errors import Error
from ._sweep import Sweep, sweep


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m coldset.lab", description=__doc__)
    command = parser.add_subparsers(dest="command", required=True).add_parser(
        "sweep", help="compute the cells of a grid"
    )
    command.add_argument("grid", metavar="GRID", help="grid in TOML")
    command.add_argument("--out", metavar="DIR", required=True, help="folder for the results")
    command.add_argument("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster")
    command.add_argument("--jobs", metavar="N", type=int, help="processes of this machine")
    command.add_argument("--counters", metavar="NAME,...", default="", help="counters of the table")
    command.add_argument("--json", metavar="FILE", help='what was done ("-": standard output)')
    command.add_argument("--markdown", action="store_true", help="tables in Markdown")
    return parser.parse_args()


def _report(done: Sweep, args: argparse.Namespace) -> None:
    distinct = len({cell.key for cell in done.cells})
    said = {
        "dir": str(done.path),
        "cells": distinct,
        "computed": done.computed,
        "found": done.found,
        "failed": [{"cell": f.cell, "key": f.key, "reason": f.reason} for f in done.failed],
    }
    if args.json is not None and args.json != "-":
        with open(args.json, "w") as file:
            print(json.dumps(said, indent=2), file=file)
    if args.json == "-":
        print(json.dumps(said, indent=2))
    else:
        names = [name for name in args.counters.split(",") if name]
        print(done.table(names, markdown=args.markdown))
        print(f"{done.computed + done.found} of {distinct} cells: {done.computed} computed now, "
              f"{done.found} found.\n{done.path}")
    for failed in done.failed:
        print(f"coldset: FAILED {failed.cell}: {failed.reason}", file=sys.stderr)


def main() -> int:
    """Returns the exit code: as `coldset lab sweep`."""
    args = _arguments()
    try:
        done = sweep(args.grid, out=args.out, jobs=args.jobs, dask=args.dask)
    except KeyboardInterrupt:
        print(
            f"coldset: interrupted: what is finished is kept in {args.out}; the same command goes on "
            "from there",
            file=sys.stderr,
        )
        return 130
    except (Error, OSError, ImportError, ValueError) as e:
        print(f"coldset: {e}", file=sys.stderr)
        return 2 if isinstance(e, ValueError) else 3
    _report(done, args)
    if any(failed.killed for failed in done.failed):
        return 3
    return 1 if done.failed else 0


if __name__ == "__main__":
    sys.exit(main())
