"""The systemd units of a schedule, as texts.

The service reads every file and writes nothing but the repository, its state and its cache. What
tells people of a failure is a unit of its own, so that it works when the service was killed, and
outside its sandbox, where a mail program can do its work.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strongroom.cli.schedule.machine import ScheduledMachine

NAME: Final = "strongroom-backup"
SERVICE: Final = f"{NAME}.service"
TIMER: Final = f"{NAME}.timer"
NOTICE: Final = f"{NAME}-failed.service"
_HEAD: Final = "# Made by `strongroom schedule install`; add to it with `systemctl edit`."
_SERVICE: Final = """\
{head}
[Unit]
Description=Back up this machine with Strongroom
Documentation=man:strongroom-schedule(1)
{after}
[Service]
Type=oneshot
ExecStart={program} schedule run --config {configuration}
# Some files could not be read; the journal names them.
SuccessExitStatus=3
KillMode=mixed
TimeoutStopSec=60s
LimitNOFILE=65536
LimitCORE=0
UMask=0077

# Other work on this machine has priority.
Nice=10
IOSchedulingClass=best-effort
IOSchedulingPriority=7
CPUWeight=20
IOWeight=20

{sandbox}"""
_SYSTEM_SANDBOX: Final = """\
Environment=XDG_CACHE_HOME=/var/cache
StateDirectory=strongroom/machine
StateDirectoryMode=0700
CacheDirectory=strongroom
CacheDirectoryMode=0700
# It reads every file, also what is in /tmp, /home and /dev, so nothing is hidden from it.
ProtectSystem=strict
ProtectHome=read-only
{writable}CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_DAC_OVERRIDE CAP_FOWNER
NoNewPrivileges=yes
DevicePolicy=closed
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
KeyringMode=private
SystemCallArchitectures=native
SystemCallFilter=@system-service unshare
SystemCallFilter=~@privileged @resources
SystemCallFilter=setpriority ioprio_set sched_setaffinity
SystemCallErrorNumber=EPERM
"""
_USER_SANDBOX: Final = """\
NoNewPrivileges=yes
RestrictRealtime=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
"""
_TIMER: Final = """\
{head}
[Unit]
Description=When to back up this machine with Strongroom
Documentation=man:strongroom-schedule(1)

[Timer]
{events}
# What was missed while the machine was off is made up for.
Persistent=yes
RandomizedDelaySec={delay}s

[Install]
WantedBy=timers.target
"""
_NOTICE: Final = """\
{head}
[Unit]
Description=Tell of a backup that has failed
Documentation=man:strongroom-schedule(1)

[Service]
Type=oneshot
ExecStart={program} schedule notify --failed --config {configuration}{user}
TimeoutStartSec=300s
"""


def unit_texts(machine: ScheduledMachine, *, user: bool) -> dict[str, str]:
    """Name -> text of each unit that `machine` needs, for the system or for one user."""
    settings = machine.settings
    program, configuration = _program(), _quoted(machine.file, command=True)
    after = []
    if settings.notify_command:
        after.append(f"OnFailure={NOTICE}")
    if settings.repository.startswith("/"):
        after.append(f"RequiresMountsFor={_quoted(settings.repository)}")
    if not user:
        after += ["Wants=network-online.target", "After=network-online.target"]
    # Without the minus a disk that is not mounted would be an error that names no disk.
    writable = f"ReadWritePaths=-{_quoted(settings.repository)}\n"
    if not settings.repository.startswith("/"):
        writable = ""
    sandbox = _USER_SANDBOX if user else _SYSTEM_SANDBOX.format(writable=writable)
    texts = {
        SERVICE: _SERVICE.format(
            head=_HEAD,
            after="".join(f"{line}\n" for line in after),
            program=program,
            configuration=configuration,
            sandbox=sandbox,
        ),
        TIMER: _TIMER.format(
            head=_HEAD,
            events="\n".join(f"OnCalendar={event}" for event in settings.events),
            delay=settings.randomized_delay_seconds,
        ),
    }
    if settings.notify_command:
        texts[NOTICE] = _NOTICE.format(
            head=_HEAD,
            program=program,
            configuration=configuration,
            user=" --user" if user else "",
        )
    return texts


def _program() -> str:
    """The command of the present installation, by absolute paths."""
    script = os.path.join(os.path.dirname(sys.executable), "strongroom")
    if os.access(script, os.X_OK):
        return _quoted(script, command=True)
    return f"{_quoted(sys.executable, command=True)} -P -m strongroom"


def _quoted(text: str, *, command: bool = False) -> str:
    """One word of a unit file; `command`: of a command line, where a dollar stands for more."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = escaped.replace("\n", "\\n").replace("\t", "\\t")
    if command:
        escaped = escaped.replace("$", "$$")
    return f'"{escaped}"' if escaped != text or " " in text or "'" in text else text
