"""The command `coldset` in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from .._errors import Error, SettingError

#: Exit codes with a result: good, and a claim or case that is out of its band.
_RESULTS = (0, 1)
_USAGE = 2


def command() -> list[str]:
    """Starts the command, with the modules that this process finds."""
    program = f"import sys; sys.path[:] = {sys.path!r}; import coldset._command as c; sys.exit(c.main())"
    return [sys.executable, "-c", program]


@dataclass(frozen=True)
class Told:
    """What the command wrote."""

    #: Tables.
    text: str
    #: The result in JSON, empty if there is none.
    json: str
    #: The page of `--report`, if it was asked for.
    page: str | None
    #: Exit code 0.
    passed: bool

    def without(self, folder: str) -> Told:
        """With the bare names of the files in a folder."""
        page = None if self.page is None else self.page.replace(folder, "")
        return Told(self.text.replace(folder, ""), self.json.replace(folder, ""), page, self.passed)


def _communicate(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error. An exception, as of Ctrl-C, ends the child."""
    child = subprocess.Popen(
        [*command(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
    try:
        text, said = child.communicate()
    except BaseException:
        child.kill()
        child.wait()
        raise
    return child.returncode, text, said


def _in_python(line: str, keywords: Collection[str]) -> str:
    """A line of the command with options as they are called here."""

    def keyword(option: re.Match[str]) -> str:
        name = option[1].replace("-", "_")
        found = next((k for k in (name, f"{name}_") if k in keywords), None)
        return option[0] if found is None else found

    line = line.removeprefix("coldset: ").removesuffix(" (see --help)")
    return re.sub(r"--([a-z][a-z-]*)(?: <[^>]*>)?", keyword, line)


def _clean(page: str, folder: str) -> str:
    """A page whose command writes no file of ours."""
    return re.sub(rf" '?--(json|report)[= ]{re.escape(folder)}[^ <'\"]*'?", "", page)


def _error(code: int, line: str) -> Exception:
    """As `run` and `replay` raise it: OSError for what the system refused."""
    if number := re.search(r"\(os error (\d+)\)", line):
        return OSError(int(number[1]), line)
    return SettingError(line) if code == _USAGE else Error(line)


def tell(
    subcommand: str,
    arguments: Sequence[str],
    keywords: Collection[str],
    *,
    page: bool = False,
    inside: str | None = None,
) -> Told:
    """Runs `coldset lab SUBCOMMAND ARGUMENTS`. Its errors are exceptions with its line, in which options are
    keywords. Files in the folder `inside` are told by their bare names."""
    with tempfile.TemporaryDirectory(prefix="coldset-") as folder:
        result, report = Path(folder, "result.json"), Path(folder, "report.html")
        given = [f"--json={result}", *([f"--report={report}"] if page else []), *arguments]
        code, text, said = _communicate(["lab", subcommand, *given])
        notes = [line for line in said.splitlines() if line.strip() and folder not in line]
        if code not in _RESULTS or (code != 0 and not result.exists()):
            last = _in_python(notes[-1], keywords) if notes else f"the command ended with exit code {code}"
            raise _error(code, last if inside is None else last.replace(inside, ""))
        for note in notes:
            print(note, file=sys.stderr)
        told = Told(
            text,
            result.read_text("utf-8") if result.exists() else "",
            _clean(report.read_text("utf-8"), folder) if report.exists() else None,
            code == 0,
        )
        return told if inside is None else told.without(inside)
