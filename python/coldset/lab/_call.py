"""Commands of the lab on a trace in a file or an array, and on results."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._errors import SettingError
from . import _child, _options, _settings
from ._child import Told
from ._trace import records


def is_file(trace: Any) -> bool:
    """A trace is in a file, and no array."""
    if isinstance(trace, (bytes, dict)) or trace is None:
        raise TypeError(
            f"trace is {trace!r} ({type(trace).__name__}); it takes the path of a file or an array of page numbers"
        )
    return isinstance(trace, (str, os.PathLike))


def _file(folder: str, trace: Any, array: Mapping[str, Any]) -> str:
    """The file of a trace; an array becomes one in the folder."""
    if not is_file(trace):
        path = Path(folder, "pages.pageops")
        path.write_bytes(records(trace, **array))
        return str(path)
    for name, value in array.items():
        if value is not None and value is not False:
            raise SettingError(f"{name} goes with an array of page numbers; a trace in a file says it itself")
    return _path("trace", trace)


def _path(what: str, given: Any) -> str:
    path = os.fspath(given)
    if not isinstance(path, str):
        raise TypeError(f"{what} is {given!r} ({type(given).__name__}); it takes the path of a file")
    if path == "-":
        raise SettingError(f"{what} is '-', the standard input of the command; give a file or an array")
    return path


def _said(given: Sequence[Any], folder: str, what: str) -> list[str]:
    """Files of results; what has JSON of its own becomes one in the folder."""
    names = ["before", "after"]
    paths = []
    for name, result in zip(names, given):
        if isinstance(result, (str, os.PathLike)):
            paths.append(_path(name, result))
            continue
        if not hasattr(result, "to_json"):
            raise TypeError(
                f"{name} is {result!r} ({type(result).__name__}); it takes a result of {what} or the path of its JSON"
            )
        path = Path(folder, f"{name}.json")
        path.write_text(result.to_json())
        paths.append(str(path))
    return paths


def _ask(function: str, inputs: Sequence[str], options: Mapping[str, object], folder: str | None, page: bool) -> Told:
    report = options.get("report")
    rest = {name: value for name, value in options.items() if name != "report"}
    if report is not None:
        # For the check of its type; the page is written below, without our files in it.
        _options.write(function, {"report": report})
        if not Path(str(report)).absolute().parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"report {str(report)!r} would be in a folder that is not there")
    arguments = [*_options.write(function, rest), "--", *inputs]
    keywords = _options.kinds(_options.TABLE[function])
    inside = None if folder is None else folder + os.sep
    told = _child.tell(function, arguments, keywords, page=page or report is not None, inside=inside)
    if report is not None:
        Path(str(report)).write_text(told.page or "", "utf-8")
    return told


def on_trace(
    function: str, trace: Any, array: Mapping[str, Any], options: Mapping[str, object], page: bool = False
) -> Told:
    """Runs a command whose argument is a trace."""
    _options.check(function, options, array)
    if not is_file(trace):
        _settings.of_a_file(options)
    with tempfile.TemporaryDirectory(prefix="coldset-") as folder:
        return _ask(function, [_file(folder, trace, array)], options, folder, page)


def on_results(function: str, results: Sequence[Any], options: Mapping[str, object]) -> Told:
    """Runs a command whose arguments are results."""
    _options.check(function, options)
    with tempfile.TemporaryDirectory(prefix="coldset-") as folder:
        paths = _said(results, folder, "run or replay")
        return _ask(function, paths, options, folder, False)


def alone(function: str, inputs: Sequence[Any], options: Mapping[str, object]) -> Told:
    """Runs a command whose arguments are paths or none."""
    _options.check(function, options)
    return _ask(function, [_path("dir", path) for path in inputs], options, None, False)
