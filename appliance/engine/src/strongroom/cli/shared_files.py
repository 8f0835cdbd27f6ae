"""What a package puts below `share`, by `python -m strongroom.cli.shared_files FOLDER`.

The manual pages, and the completion scripts of the shells that look for them in a usual place.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from strongroom.cli.commands.completion import completion_script
from strongroom.cli.manual_page import write_pages

# Shell -> where it looks for the script.
_COMPLETIONS: Final = {
    "bash": "bash-completion/completions/strongroom",
    "zsh": "zsh/site-functions/_strongroom",
    "fish": "fish/vendor_completions.d/strongroom.fish",
}


def main() -> int:
    """Write them below the folder that the command line names."""
    parser = argparse.ArgumentParser(prog="shared_files", description="Write what share/ holds.")
    parser.add_argument("folder", metavar="FOLDER")
    folder = parser.parse_args().folder
    write_pages(os.path.join(folder, "man", "man1"))
    for shell, place in _COMPLETIONS.items():
        path = os.path.join(folder, place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(completion_script(shell))
    return 0


if __name__ == "__main__":
    sys.exit(main())
