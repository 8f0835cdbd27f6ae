"""Follow docs/guides/install.md, then fleet-in-ten-minutes.md, on fresh hosts without the internet.

    follow_install.py [SUITE]       SUITE: bookworm (Python 3.11) or trixie (3.13)

All have the release folder. The appliance (vault) and a client (web1) install from the apt
repository, web2 from package files, and desk the command alone. What says `sh on=builder` is given
on this machine, unless there is a release with packages of the suite already. Around the pages
stands only what they cannot do: files are carried to other hosts, and where hosts of ours find
packages of Debian they have them already. Afterwards: what came back is what was backed up, and the
socket that serves packages is all that strangers see of them.

Needs the same as follow_fleet.py, and mmdebstrap and gpg. Exit status: 0 when every step was right.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from follow_fleet import PROJECT, Host, StepError, command, on_fresh_hosts, say, steps_of

GUIDES = PROJECT / "docs" / "guides"
RELEASES = PROJECT / "build" / "release"
HOSTS = ("vault", "web1", "web2", "desk")
TOKEN = "servers.token"


class Follower:
    """Takes the steps of pages; knows what has to be carried where."""

    def __init__(self, suite: str, hosts: dict[str, Host]) -> None:
        self._suite = suite
        self._hosts = hosts

    def follow(self, page: str) -> None:
        """Do what a page says."""
        taken = 0
        for step in steps_of((GUIDES / page).read_text()):
            for name in step.hosts:
                if name == "controller":
                    # With Ansible: molecule/site gives these.
                    continue
                say(f"--- {name}: docs/guides/{page}, line {step.line}")
                if name == "builder":
                    # Below the steps that need what it makes.
                    continue
                self._hosts[name].give("cd")
                if TOKEN in step.text and name != "vault":
                    self.carry(Path("root") / TOKEN, "vault", name)
                self._hosts[name].give(step.text)
                taken += 1
        if not taken:
            raise StepError(f"docs/guides/{page} has no step for a host")

    def bring(self, page: str) -> None:
        """Give each host the release folder, made as the page says if there is none."""
        (making,) = (one for one in steps_of((GUIDES / page).read_text()) if "builder" in one.hosts)
        found = [one.parents[3] for one in RELEASES.glob(f"*/apt/dists/{self._suite}/InRelease")]
        if not found:
            command("bash", "-e", "-c", f"cd {PROJECT}; {making.text}")
            found = [
                one.parents[3] for one in RELEASES.glob(f"*/apt/dists/{self._suite}/InRelease")
            ]
        for name in ("vault", "web2", "desk"):
            shutil.copytree(found[-1], self._hosts[name].root / "root" / "release")
        shutil.copy2(found[-1] / "apt" / "strongroom.asc", self._hosts["web1"].root / "root")

    def carry(self, file: Path, start: str, end: str) -> None:
        """Copy a file from one host to another."""
        shutil.copy2(self._hosts[start].root / file, self._hosts[end].root / file)


def look_around(hosts: dict[str, Host]) -> None:
    """A restore, and what was installed where."""
    vault, web1, web2, desk = (hosts[name] for name in HOSTS)
    say("--- a restore")
    web1.give("echo strongroom > /srv/file")
    vault.give("strongroom run web1 --watch")
    vault.give("strongroom restore latest:/srv/file --client web1 --target /tmp/back")
    if web1.give("find /tmp/back -name file -type f -exec cat {} +") != "strongroom\n":
        raise StepError("the file did not come back as it was")
    say("--- what is served")
    web1.give(
        "for path in /apt/../../director/passphrase /apt/%2e%2e/%2e%2e/director/passphrase; do\n"
        "  exec 3<> /dev/tcp/vault.example.org/9105\n"
        "  printf 'GET %s HTTP/1.0\\r\\n\\r\\n' $path >&3; head -1 <&3 | grep -q ' 404 '\n"
        "done"
    )
    for host, wanted in ((web1, "agent"), (web2, "agent"), (vault, "director storage")):
        said = host.give(
            "dpkg-query --show --showformat '${db:Status-Abbrev}${Package}\\n' 'strongroom-*'"
        )
        found = " ".join(sorted(re.findall(r"^ii strongroom-(\S+)$", said, re.MULTILINE)))
        if found != wanted:
            raise StepError(f"{host.name} has {found} instead of {wanted}")
        host.await_good(
            'test -z "$(systemctl --failed --quiet --no-legend "strongroom*" | tee /dev/stderr)"'
        )
    desk.give("test -e /usr/local/share/man/man1/strongroom-backup.1")


def main() -> int:
    """Do it all; the exit status."""
    suite = sys.argv[1] if len(sys.argv) > 1 else "bookworm"

    def steps(hosts: dict[str, Host]) -> None:
        # The packages may be upgraded from, and need Debian's only, which are there.
        for host in hosts.values():
            host.give("rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*")
        follower = Follower(suite, hosts)
        follower.bring("install.md")
        for page in ("install.md", "fleet-in-ten-minutes.md"):
            follower.follow(page)
        look_around(hosts)

    return on_fresh_hosts(suite, HOSTS, steps)


if __name__ == "__main__":
    sys.exit(main())
