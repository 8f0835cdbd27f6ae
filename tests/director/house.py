"""An appliance and its agents, real processes on loopback, for tests that have Ansible but no engine.

It runs with the engine's own Python, and uses the engine's test kit: house.py FOLDER. It tells on standard output where
everything is, then obeys lines of standard input (`start NAME`, `stop NAME`), each answered by a line, until that ends.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "appliance/engine/tests"))

from kit.made_appliance import MadeAppliance

MEMBERS = {"web1": "servers", "web2": "servers", "db1": "databases"}
# Jobs that fail, that leave something out, and that wait until somebody cancels them; a viewer's rights.
FURTHER = """
FileSet {{ Name = Nothing; Include {{ File = "/nowhere/at/all" }} }}
FileSet {{ Name = Half; Include {{ File = "{data}"; File = "/nowhere/at/all" }} }}
Job {{ Name = broken; Job Defs = databases; Client = db1; FileSet = Nothing }}
Job {{ Name = half; Job Defs = servers; Client = web1; FileSet = Half }}
Profile {{
  Name = viewer; Command ACL = status, clients, jobs, runs, snapshots; Job ACL = *all*; Client ACL = web1
  FileSet ACL = *all*; Pool ACL = *all*; Storage ACL = *all*
}}
"""


def make(appliance: MadeAppliance) -> None:
    """Start the daemons. Members have joined; db1 is without TLS, and web2 is unreachable."""
    data = appliance.folder / "data"
    data.mkdir()
    (data / "letter").write_text("Dear all\n")
    (data / "poem").write_text("O\n")
    # No schedule starts a run while tests count them.
    far = datetime.now(UTC) + timedelta(hours=12)
    appliance.write_answers(plain_clients='["db1"]', backup_time=f'"{far:%H:%M}"')
    appliance.start()
    # The FileSet of the answers is the whole machine: too much for a test.
    resources = appliance.folder / "etc/director.d"
    groups = resources / "jobdefs/groups.conf"
    groups.write_text(groups.read_text().replace("File = /\n", f'File = "{data}"\n'))
    appliance.command("reload")
    for name, group in MEMBERS.items():
        appliance.join(name, appliance.token(name, "--group", group))
    plain = resources / "client/db1.conf"
    text = plain.read_text().replace("Password = unused", "Password = unused; TLS Enable = no")
    plain.write_text(text.replace('Client = "db1" }', 'Client = "db1"; Overdue After = 1 second }'))
    (resources / "job/further.conf").write_text(FURTHER.format(data=data))
    appliance.command("reload")
    for name in ("web1", "db1"):
        appliance.start_agent(name)
    appliance.command("token", "create", "viewer", "--profile", "viewer", "--output", str(appliance.folder / "token"))


def main() -> int:
    """Make it, and keep it until standard input ends."""
    with MadeAppliance(Path(sys.argv[1])) as appliance:
        make(appliance)
        place = {"url": appliance.url, "environment": appliance.environment}
        print(json.dumps(place), flush=True)
        for line in sys.stdin:
            action, name = line.split()
            if action == "start":
                appliance.start_agent(name)
            else:
                appliance.agents.pop(name).stop()
            print(json.dumps({action: name}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
