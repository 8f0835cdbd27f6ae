"""A storage daemon, and the identity of an agent, for tests that have Ansible but no engine.

It runs with the engine's own Python, and uses the engine's test kit: storage_daemon.py FOLDER. It tells its port on
standard output, and runs until standard input ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "appliance/engine/tests"))

from kit.storage_site import StorageSite

site = StorageSite(Path(sys.argv[1]))
try:
    site.identity("web1", "agent")
    print(site.port, flush=True)
    sys.stdin.read()
finally:
    sys.exit(site.stop())
