"""`python -m strongroom_appliance.answers FOLDER` writes the reference; --check only compares."""

from __future__ import annotations

import sys

from strongroom.cli.command_reference import write_pages
from strongroom_appliance.answers.schema import reference

if __name__ == "__main__":
    sys.exit(write_pages("python -m strongroom_appliance.answers", {"answer-file.md": reference()}))
