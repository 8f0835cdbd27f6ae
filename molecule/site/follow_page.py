"""Do what docs/guides/fleet-in-ten-minutes.md says, on a copy of the example inventory.

    follow_page.py FOLDER APPLIANCE CLIENT KEY    the addresses of two hosts, and the key that lets Ansible in

Every block that says `sh on=controller` is given as it stands, in one shell, in the order of the page, in a copy of the
project below FOLDER; a command that fails ends it. Only `make` is left out, which was done before. The three lines of
the table are changed as the page says.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs/guides/fleet-in-ten-minutes.md"
BLOCK = re.compile(r"^```sh on=controller\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^\| `(inventory/[^`]+)` \| `([^`]+: [^`]+)` \|", re.MULTILINE)


def commands():
    """The commands of the page, in order."""
    return [line for block in BLOCK.findall(PAGE.read_text()) for line in block.splitlines()]


def lines_to_change():
    """The table: file and line."""
    return LINE.findall(PAGE.read_text())


def copy_project(folder):
    """What a clone has of what the commands need, with its own inventory."""
    shutil.copytree(PROJECT / "ansible", folder / "ansible", symlinks=True)
    for name in ("roles", "plugins", "meta", "galaxy.yml", "build", "molecule", "Makefile"):
        if (PROJECT / name).exists():
            (folder / name).symlink_to(PROJECT / name)


def change_lines(folder, values):
    """Give each line of the table its value. A line that is there twice, or not, is a fault of the page."""
    for (name, line), value in zip(lines_to_change(), values, strict=True):
        path = folder / "ansible" / name
        text = path.read_text()
        found = re.findall(rf"^ *{re.escape(line)}$", text, re.MULTILINE)
        if len(found) != 1:
            sys.exit(f"{name} has the line {line!r} {len(found)} times")
        path.write_text(
            re.sub(rf"^( *){re.escape(line)}$", rf"\g<1>{line.split(':')[0]}: {value}", text, flags=re.MULTILINE)
        )


def environment(folder):
    """That of somebody who has just opened a shell: Molecule has its own configuration for Ansible."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MOLECULE_"))}
    # Hosts of the same addresses come and go; connections are kept by address.
    kept = {name: os.environ[name] for name in ("ANSIBLE_HOME", "ANSIBLE_SSH_CONTROL_PATH_DIR") if name in os.environ}
    return {
        **own,
        **kept,
        "ANSIBLE_HOST_KEY_CHECKING": "false",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder / "facts"),
        "ANSIBLE_NOCOLOR": "1",
    }


def main():
    """Run as a program."""
    folder = Path(sys.argv[1])
    copy_project(folder)
    change_lines(folder, sys.argv[2:5])
    given = [line for line in commands() if not line.startswith("make ")]
    script = "".join(f"echo '$ '{line!r}\n{line}\n" for line in given)
    done = subprocess.run(["bash", "-eu", "-c", script], cwd=folder, env=environment(folder), check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
