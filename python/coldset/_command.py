"""The command `coldset`, as the wheel installs it."""

import signal
import sys

from coldset._coldset import command


def main() -> int:
    """Runs it with the arguments of this process."""
    # Python would defer Ctrl-C; the command should end at once, as programs do.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command(["coldset", *sys.argv[1:]])
