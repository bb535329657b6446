"""`python -m coldset`: the command `coldset`."""

import sys

from coldset._command import main

if __name__ == "__main__":
    sys.exit(main())
