"""A compromised agent at the appliance: the folder for files with metrics is open to it.

Root writes the metrics of the storage daemon there once a minute.
"""

import os
import re
import shlex
import subprocess
import sys

from kit.project import ROLES

UNIT = ROLES / "monitoring" / "templates" / "strongroom-storage-metrics.service.j2"
NAMES = (".storage.new", "storage.new", "strongroom-storage.prom.new", "strongroom-storage.prom")
AGENT_USER = 65534


def as_the_unit_does(site, folder):
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    words = shlex.split(line.replace("{{ __monitoring_textfiles }}", str(folder)))
    ours = f"{sys.executable} -m strongroom storage --config {site.configuration}"
    words = [one.replace("/usr/bin/strongroom storage", ours) for one in words]
    if words[0] == "/usr/bin/strongroom":
        words = [*ours.split(), *words[2:]]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_root_writes_to_nothing_that_the_agent_leads_to(site, folder):
    textfiles, outside = folder / "textfiles", folder / "disk"
    textfiles.mkdir()
    textfiles.chmod(0o775)
    outside.write_text("all backups")
    for name in NAMES:
        (textfiles / name).symlink_to(outside)
        if os.geteuid() == 0:
            os.lchown(textfiles / name, AGENT_USER, AGENT_USER)
    done = as_the_unit_does(site, textfiles)
    assert outside.read_text() == "all backups"
    assert done.returncode == 0, done.stderr
    written = textfiles / "strongroom-storage.prom"
    assert not written.is_symlink()
    assert written.stat().st_mode & 0o777 == 0o644
    assert written.read_text().startswith("# HELP strongroom_storage")
    # A device in its place is not a file, and stays as it is.
    written.unlink()
    written.symlink_to("/dev/full")
    assert as_the_unit_does(site, textfiles).returncode != 0
