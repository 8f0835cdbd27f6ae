"""Follow docs/guides/fleet.md to the letter on two fresh hosts that know each other by name only.

    follow_fleet.py [SUITE]         SUITE: bookworm (Python 3.11) or trixie (3.13)

Every code block of the page that says `sh on=vault` or `sh on=web1` is given there as it stands, in
one shell for each host, in the order of the page; a command that fails ends the test. Around it
stands only what a page cannot do: packages come from a folder instead of the network, the token is
carried over, the fingerprint is typed in where the page shows one. Afterwards: sandboxes, journals,
reload, and both hosts restarted while a backup runs.

Needs Debian, root, mmdebstrap, systemd-container and iproute2. The hosts are containers over the
roots that tests/vm makes, each with its own network, thrown away afterwards. Exit status: 0
when every step was right.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
ENGINE = HERE.parents[1]
PROJECT = ENGINE.parents[1]
BUILD = Path(os.environ.get("STRONGROOM_VM_FOLDER", PROJECT / "build" / "vm"))
PAGE = PROJECT / "docs" / "guides" / "fleet.md"
NAMES = {"vault": "10.99.7.1", "web1": "10.99.7.2"}
CLONED = (
    "systemd",
    "engine/src",
    "engine/build_backend",
    "engine/pyproject.toml",
    "engine/requirements-runtime.lock",
)
ADDRESSES = "10.99.7.1 vault.example.org vault\n10.99.7.2 web1\n127.0.0.1 localhost\n"
# What the page shows where everybody's is another one.
FINGERPRINT_SHOWN = "3f2a..."
# Given the lock file it prints what of it is for the Python that runs it, a pin a line.
PINS = """
import re, sys
from pip._vendor.packaging.markers import Marker
for line in sys.stdin:
    found = re.match(r"([a-zA-Z0-9_.-]+==[^ ;]+)(?: *; *([^\\\\]+))?", line)
    if found and (not found[2] or Marker(found[2].strip()).evaluate()):
        print(found[1])
"""
BLOCK = re.compile(r"^```sh(?: on=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE_SECONDS = 120.0
# A backup that is interrupted keeps the packs that are full; up to four of 32 MiB are open at once.
SLOW_SPEED = "25 mb/s"
LARGE_BYTES = 250_000_000
NEW_PACK = (
    "find /var/lib/strongroom/repository/packs -regextype sed -regex '.*/[0-9a-f]\\{64\\}' "
    "-size +20M -newer /root/began"
)
EXPOSURES = {"vault": {"director": 2.5, "storage": 2.5}, "web1": {"agent": 4.5}}
SESSION = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": "/wheels",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_QUIET": "1",
}


class StepError(Exception):
    """A step of the page, or of what follows, was not right."""


@dataclass(frozen=True)
class Step:
    """A block of the page: what to give, and on which hosts."""

    line: int
    hosts: tuple[str, ...]
    text: str


def steps_of(page: str) -> list[Step]:
    """The blocks that are to be given somewhere, in order."""
    found = []
    for block in BLOCK.finditer(page):
        if block[1]:
            hosts = tuple(block[1].split(","))
            found.append(Step(page.count("\n", 0, block.start()) + 2, hosts, block[2]))
    return found


class Host:
    """A container that boots, and the one shell in it that an operator has open."""

    def __init__(self, suite: str, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder / name
        self.root = self.folder / "root"
        self.network = f"strongroom-{name}-{os.getpid()}"
        self._suite = suite
        self._cgroup = _cgroups() / self.network
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._shell: subprocess.Popen[str] | None = None

    def make(self) -> None:
        """A fresh root, with what somebody who cloned the project has."""
        for part in ("upper", "work", "root"):
            (self.folder / part).mkdir(parents=True)
        layers = f"lowerdir={BUILD}/{self._suite}-root"
        layers += f",upperdir={self.folder}/upper,workdir={self.folder}/work"
        command("mount", "-t", "overlay", "-o", layers, "overlay", str(self.root))
        shutil.rmtree(self.root / "opt" / "strongroom")
        shutil.rmtree(self.root / "engine", ignore_errors=True)
        wanted = self.root / "etc/systemd/system/multi-user.target.wants"
        (wanted / "guest-tests.service").unlink()
        (self.root / "etc" / "hostname").write_text(f"{self.name}\n")
        (self.root / "etc" / "hosts").write_text(ADDRESSES)
        clone = self.root / "root" / "strongroom"
        for part in CLONED:
            source, target = PROJECT / "appliance" / part, clone / "appliance" / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)
        command("ip", "netns", "add", self.network)

    def boot(self) -> None:
        """Start it, and return when it is up."""
        words = ["systemd-nspawn", "--quiet", "--boot", "--register=no", f"--machine={self.name}"]
        words += [f"--directory={self.root}", "--console=pipe", "--link-journal=no"]
        words += [f"--network-namespace-path=/run/netns/{self.network}", "--resolv-conf=off"]
        words += [f"--bind-ro={_packages(self._suite)}:/wheels", "--timezone=off"]
        if not Path("/run/systemd/system").exists():
            words = self._without_systemd([*words, "--keep-unit"])
        with (self.folder / "console").open("ab") as console:
            self._nspawn = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=console, stderr=console
            )
        self._await("it to boot", lambda: self._leader() > 0)
        self._shell = subprocess.Popen(
            ["nsenter", "--all", "--target", str(self._leader()), "/bin/bash", "--login"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=SESSION,
        )
        self.give("cd; until systemctl is-active --quiet multi-user.target; do sleep 0.2; done")

    def give(self, text: str) -> str:
        """Have the shell do it, and stop at the first thing that fails; what was said."""
        shell = self._shell
        assert shell is not None
        assert shell.stdin is not None
        assert shell.stdout is not None
        (self.root / "var" / "tmp" / "step").write_text(text)
        end = f"step {time.monotonic_ns()} is done"
        try:
            shell.stdin.write(f"set -e; . /var/tmp/step < /dev/null; set +e; echo '{end}'\n")
            shell.stdin.flush()
        except BrokenPipeError as error:
            raise StepError(f"{self.name}: the shell has ended") from error
        said = _said_until(shell.stdout, end)
        if said is None:
            raise StepError(f"{self.name}: the shell has ended")
        return said

    def await_good(self, text: str) -> None:
        """Return when a command goes well."""
        seconds = int(PATIENCE_SECONDS)
        self.give(
            f"for i in $(seq {seconds}); do ! ( {text} ) > /tmp/last 2>&1 || break; sleep 1; done\n"
            f"if [ $i = {seconds} ]; then cat /tmp/last; false; fi"
        )

    def restart(self, between: str = "") -> None:
        """Shut it down as an operator does, and start it again."""
        assert self._nspawn is not None
        assert self._shell is not None
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{between}\nsystemctl poweroff --no-block; exit\n")
        self._shell.stdin.flush()
        self._nspawn.wait(PATIENCE_SECONDS)
        self._shell.wait(PATIENCE_SECONDS)
        self.boot()

    def remove(self) -> None:
        """End it and leave nothing behind."""
        if self._nspawn is not None:
            self._nspawn.kill()
            self._nspawn.wait(PATIENCE_SECONDS)
        if (self._cgroup / "cgroup.kill").exists():
            (self._cgroup / "cgroup.kill").write_text("1")
        if self._shell is not None:
            self._shell.kill()
        for _ in range(100):
            if self.root.is_mount():
                subprocess.run(["umount", str(self.root)], capture_output=True, check=False)
            for one in (*sorted(self._cgroup.rglob("*/"), reverse=True), self._cgroup):
                if one.is_dir():
                    subprocess.run(["rmdir", str(one)], capture_output=True, check=False)
            if not self.root.is_mount() and not self._cgroup.exists():
                break
            time.sleep(0.1)
        subprocess.run(["ip", "netns", "del", self.network], capture_output=True, check=False)

    def _without_systemd(self, words: list[str]) -> list[str]:
        """Where no systemd gives hosts their own cgroup, and none may share one."""
        self._cgroup.mkdir(exist_ok=True)
        script = (
            f"echo $$ > {self._cgroup}/cgroup.procs; umount -R /sys/fs/cgroup; "
            "mount -t tmpfs -o mode=755 tmpfs /run/systemd; "
            'mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec "$@"'
        )
        return ["unshare", "-m", "--propagation=slave", "bash", "-c", script, "nspawn", *words]

    def _leader(self) -> int:
        """The pid of the host's first process; 0: it is not there yet."""
        assert self._nspawn is not None
        if self._nspawn.poll() is not None:
            raise StepError(f"{self.name} did not boot:\n{(self.folder / 'console').read_text()}")
        pid = self._nspawn.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return int(child)
        return 0

    def _await(self, what: str, settled: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not settled():
            if time.monotonic() > end:
                raise StepError(f"{self.name}: waited too long for {what}")
            time.sleep(0.1)


def follow(hosts: dict[str, Host]) -> None:
    """Do what the page says."""
    fingerprint = ""
    for step in steps_of(PAGE.read_text()):
        text = step.text
        if FINGERPRINT_SHOWN in text:
            token = hosts["vault"].root / "root" / "web1.token"
            shutil.copy2(token, hosts["web1"].root / "root" / "web1.token")
            text = text.replace(FINGERPRINT_SHOWN, fingerprint)
        with ThreadPoolExecutor() as pool:
            say(f"--- {' and '.join(step.hosts)}: docs/guides/fleet.md, line {step.line}")
            said = list(pool.map(lambda name: hosts[name].give(text), step.hosts))  # noqa: B023
        if (found := re.search(r"\b[0-9a-f]{64}\b", said[0])) and "ca token" in text:
            fingerprint = found[0]
    if hosts["web1"].give("cat /tmp/back/hosts") != ADDRESSES:
        raise StepError("/etc/hosts did not come back as it was")


def look_around(hosts: dict[str, Host]) -> None:
    """Sandboxes, reload, and what the journals hold."""
    for name, units in EXPOSURES.items():
        host = hosts[name]
        for unit, most in units.items():
            say(f"--- {name}: strongroom-{unit}")
            said = host.give(f"systemd-analyze security --no-pager strongroom-{unit} | tail -1")
            exposure = re.search(r": ([0-9.]+)", said)
            if exposure is None or float(exposure[1]) > most:
                raise StepError(f"the exposure of strongroom-{unit} is more than {most}: {said}")
            host.give(f"systemctl reload strongroom-{unit}; systemctl is-active strongroom-{unit}")
            journal = host.give(f"journalctl --no-pager -o cat -u strongroom-{unit}")
            if "Traceback" in journal or not re.search("read again|reload:", journal):
                raise StepError(f"the journal of strongroom-{unit} is not as it should be")
            # The page starts the storage daemon before it makes the repository.
            if said := host.give(
                f"journalctl --no-pager -q -p warning -u strongroom-{unit}"
                " | { grep -v 'there is no repository in .*: mount its disk, or' || true; }"
            ):
                raise StepError(f"there are warnings of strongroom-{unit}")
        # In a container the kernel's NFS server, which the root has for other tests, fails.
        host.await_good(
            'test -z "$(systemctl --failed --quiet --no-legend "strongroom*" | tee /dev/stderr)"'
        )


def restart_under_way(hosts: dict[str, Host]) -> None:
    """Both hosts are restarted in the middle of a backup, which continues and ends well."""
    vault, web1 = hosts["vault"], hosts["web1"]
    slow = f"s|Address = web1|Address = web1; Maximum Bandwidth Per Job = {SLOW_SPEED}|"
    vault.give(f"sed -i '{slow}' /etc/strongroom/director.d/client/web1.conf; strongroom reload")
    for number, host in enumerate((web1, vault)):
        say(f"--- {host.name} is restarted while web1 is backed up")
        web1.give(f"head -c {LARGE_BYTES} /dev/urandom > /root/new-{number}")
        said = vault.give("touch /root/began; strongroom run web1 --json")
        run = str(json.loads(said.splitlines()[-1])["id"])
        vault.await_good(f"{NEW_PACK} | grep -q .")
        host.restart()
        vault.await_good("strongroom clients web1 --json | grep -qE '\"connected\": *true'")
        # It may have ended before the director was back to hear of it.
        vault.give(f"strongroom bandwidth {run} none || true")
        vault.give(f"strongroom watch {run}; strongroom log {run}")
        (ended,) = json.loads(vault.give("strongroom runs --kind backup --last 1 --json"))
        if ended["state"] != "done":
            raise StepError(f"run {run} is {ended['state']}: {ended['error']}")
        if host is web1 and ended["summary"]["stored_bytes"] >= LARGE_BYTES:
            raise StepError("what was stored before the restart was sent again")


def _said_until(stream: IO[str], end: str) -> str | None:
    said = ""
    for line in stream:
        if line.rstrip("\n").endswith(end):
            return said + line.rstrip("\n").removesuffix(end)
        say(line.rstrip("\n"))
        said += line
    return None


def say(text: str) -> None:
    """What the one who runs the test sees."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _cgroups() -> Path:
    both = Path("/sys/fs/cgroup/unified")
    return both if both.is_dir() else Path("/sys/fs/cgroup")


def _packages(suite: str) -> Path:
    """What pip would find on the network: a folder, filled again when the lock file changes."""
    lock = (ENGINE / "requirements.lock").read_bytes()
    folder = BUILD / f"packages-{suite}"
    stamp = folder / hashlib.sha256(lock).hexdigest()
    if not stamp.exists():
        inside = ("chroot", str(BUILD / f"{suite}-root"), "/opt/strongroom/bin/python", "-c")
        pins = subprocess.run([*inside, PINS], input=lock, stdout=subprocess.PIPE, check=True)
        version = "import sys; print(*sys.version_info[:2], sep='.')"
        python = subprocess.run([*inside, version], stdout=subprocess.PIPE, check=True)
        shutil.rmtree(folder, ignore_errors=True)
        command(
            *(str(PROJECT / ".venv" / "bin" / "pip"), "download", "--quiet", "--no-deps"),
            *("--disable-pip-version-check", "--only-binary=:all:", f"--dest={folder}"),
            *("--python-version", python.stdout.decode().strip(), *pins.stdout.decode().split()),
        )
        stamp.touch()
    return folder


def command(*words: str) -> None:
    """Run something on this machine. Raises CalledProcessError."""
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def _connect(first: Host, second: Host) -> None:
    """One cable between the two."""
    ends = ("host0", "netns", first.network), ("host0", "netns", second.network)
    command("ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1])
    for host in (first, second):
        command("ip", "-n", host.network, "addr", "add", f"{NAMES[host.name]}/24", "dev", "host0")
        command("ip", "-n", host.network, "link", "set", "host0", "up")


def on_fresh_hosts(
    suite: str, names: tuple[str, ...], steps: Callable[[dict[str, Host]], None]
) -> int:
    """Make hosts, of which the first two have a network, and take the steps; the exit status."""
    command(str(ENGINE / "tests" / "vm" / "run_in_guest.sh"), suite, "--only-root")
    folder = Path(tempfile.mkdtemp(prefix="strongroom-fleet-", dir="/var/tmp"))
    command("mount", "-t", "tmpfs", "-o", "size=4g", "tmpfs", str(folder))
    hosts = {name: Host(suite, name, folder) for name in names}
    try:
        for host in hosts.values():
            host.make()
            command("ip", "-n", host.network, "link", "set", "lo", "up")
        _connect(hosts[names[0]], hosts[names[1]])
        for host in hosts.values():
            host.boot()
        steps(hosts)
    except (StepError, subprocess.SubprocessError) as error:
        say(f"FAILED: {error}")
        for host in hosts.values():
            show_journal(host)
        return 1
    finally:
        for host in hosts.values():
            host.remove()
        command("umount", str(folder))
        folder.rmdir()
    say(f"{suite}: all steps were right")
    return 0


def main() -> int:
    """Do it all; the exit status."""

    def steps(hosts: dict[str, Host]) -> None:
        follow(hosts)
        look_around(hosts)
        restart_under_way(hosts)

    return on_fresh_hosts(sys.argv[1] if len(sys.argv) > 1 else "bookworm", tuple(NAMES), steps)


def show_journal(host: Host) -> None:
    """What the daemons of a host said last."""
    journal = host.root / "var" / "log" / "journal"
    say(f"--- the journal of {host.name}")
    subprocess.run(
        ["journalctl", "--no-pager", "-n", "60", "-D", str(journal), "-u", "strongroom-*"],
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
