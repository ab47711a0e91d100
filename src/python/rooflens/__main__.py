"""The command line: `python -m rooflens`."""

import os
import sys

from . import _rooflens


def main() -> int:
    """Runs the command of the arguments. Reports of `--jobs` are processes of the same Python."""
    program = [sys.executable, "-m", "rooflens"]
    # An exit flushes what Python holds; standard output of Rust is flushed by the command.
    return _rooflens.command(["rooflens", *sys.argv[1:]], [os.fsdecode(word) for word in program])


if __name__ == "__main__":
    sys.exit(main())
