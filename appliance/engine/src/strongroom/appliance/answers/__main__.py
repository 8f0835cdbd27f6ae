"""`python -m strongroom.appliance.answers FILE` writes the reference; --check only compares."""

from __future__ import annotations

import argparse
import sys

from strongroom.appliance.answers.schema import reference
from strongroom.cli.terminal import Terminal


def main() -> int:
    """Write or compare; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m strongroom.appliance.answers")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--check", action="store_true", help="exit with 1 if the file is stale")
    arguments = parser.parse_args()
    text = reference()
    if not arguments.check:
        with open(arguments.file, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(arguments.file, encoding="utf-8") as file:
        if file.read() == text:
            return 0
    Terminal().message_line(f"stale: {arguments.file}; run make reference")
    return 1


if __name__ == "__main__":
    sys.exit(main())
