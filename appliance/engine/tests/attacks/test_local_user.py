"""Director, storage daemon and an agent on one host, and a user of it who has no rights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.made_appliance import MadeAppliance

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user")

NOBODY = 65534
# What that user does: tries to read, write and connect to everything it finds.
TRY = """
import json, os, socket, stat, sys
read, written, connected = {}, [], []
for top, folders, names in os.walk(sys.argv[1]):
    if os.access(top, os.W_OK):
        written.append(top)
    for name in names:
        path = os.path.join(top, name)
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            with socket.socket(socket.AF_UNIX) as one:
                if one.connect_ex(path) == 0:
                    connected.append(path)
            continue
        if os.access(path, os.W_OK):
            written.append(path)
        try:
            read[path] = open(path, errors="replace").read()
        except OSError:
            pass
print(json.dumps([read, written, connected]))
"""


def test_it_reads_no_secret_writes_nothing_and_connects_to_no_socket(public_folder: Path) -> None:
    with MadeAppliance(public_folder) as appliance:
        appliance.start()
        token = appliance.token("web1", "--group", "servers")
        appliance.join("web1", token)
        appliance.start_agent("web1")
        appliance.command("run", "housekeeping", "--watch")
        done = subprocess.run(
            [sys.executable, "-c", TRY, str(public_folder)],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )
        passphrase = (public_folder / "state/director/passphrase").read_text().strip()
    read, written, connected = json.loads(done.stdout)
    assert (written, connected) == ([], [])
    # It was able to look: the configurations are for everybody.
    assert f"{public_folder}/etc/director.d/client/web1.conf" in read
    kinds = {os.path.basename(path).rpartition(".")[2] for path in read}
    assert kinds <= {"conf", "toml", "log", "pem"}
    for path, text in read.items():
        for secret in (passphrase, token, "PRIVATE KEY", "strongroom-put", "strongroom-appliance"):
            assert secret not in text, path
