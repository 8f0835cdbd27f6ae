# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Kernel settings: their files in sysctl.d, and their values in /proc/sys."""

from __future__ import annotations

import os
import re

# As systemd-sysctl reads them: of two files with one name the first folder's counts, and files are
# read in the order of their names, whatever their folder.
FOLDERS = ("etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d")
# Of each pair one is 0: writing one clears the other, and 0 cannot be written.
RATIO_OF = {
    "vm.dirty_bytes": "vm.dirty_ratio",
    "vm.dirty_background_bytes": "vm.dirty_background_ratio",
}
NAME = re.compile(r"^[a-z0-9_-]+([./][A-Za-z0-9_:@*-]+)+$")


class Settings:
    """The settings of a host, below a root folder (another one in tests)."""

    def __init__(self, root="/"):
        self.root = root

    def value_path(self, name):
        """Where the kernel shows a setting."""
        return os.path.join(self.root, "proc/sys", name.replace(".", "/"))

    def read(self, name):
        """The effective value, blanks made single; None if the kernel does not have the setting."""
        try:
            with open(self.value_path(name), encoding="utf-8") as file:
                return normal(file.read())
        except OSError:
            return None

    def write(self, name, value):
        """Set the effective value. Raises OSError where the kernel refuses."""
        with open(self.value_path(name), "w", encoding="utf-8") as file:
            file.write(value + "\n")

    def later_files(self, path):
        """The files that are read after this one, in order."""
        found = {}
        for folder in FOLDERS:
            try:
                names = os.listdir(os.path.join(self.root, folder))
            except OSError:
                continue
            for name in names:
                if name.endswith(".conf"):
                    found.setdefault(name, os.path.join(self.root, folder, name))
        ours = os.path.basename(path)
        return [found[name] for name in sorted(found) if name > ours]

    def overrides(self, path):
        """Settings that later files make: name to (file, value)."""
        found = {}
        for later in self.later_files(path):
            try:
                with open(later, encoding="utf-8") as file:
                    text = file.read()
            except OSError:
                continue
            for name, value in parse(text).items():
                found[name] = (later, value)
        return found


def normal(value):
    """A value as it is compared: blanks and tabs between its numbers are one blank."""
    return " ".join(str(value).split())


def parse(text):
    """The settings of a file: name to value."""
    found = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#;" or "=" not in line:
            continue
        name, value = line.split("=", 1)
        found[name.strip().lstrip("-").replace("/", ".")] = normal(value)
    return found


def render(settings, heading):
    """The text of a file with these settings."""
    lines = ["# " + heading] if heading else []
    lines += ["%s = %s" % (name, settings[name]) for name in sorted(settings)]
    return "\n".join(lines) + "\n"
