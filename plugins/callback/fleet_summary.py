# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Tables of the clients and of the hosts at the end of a run."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_summary
type: aggregate
short_description: Tables of the clients and of the hosts at the end of a run
version_added: 0.9.0
description:
  - Shows each client that the role P(strongroom.backup.agent#role) was run for - whether it is connected, its jobs that
    run and wait, its workers, TLS mode, whether the kernel was proven to do TLS, and its last successful backup.
  - Proven is C(last job) if the kernel did TLS for the connection of the client's last job and counted it, C(kernel) if
    not, but the role P(strongroom.backup.ktls#role) has proved in the same run that the kernel can, C(no) if neither. A
    dash is where there was neither a job nor that role.
  - Then each host of the run has a line - whether it is as it was, changed, failed or could not be reached, how many
    tasks changed something, and of a host that failed the task and the reason. If one did, the last line has the
    C(--limit) with which the run is repeated for those alone.
  - Behind the last backup stands C(failed) or C(late), if the director says so of a job of the client.
author:
  - Strongroom (@strongroom)
requirements:
  - enabled with C(callbacks_enabled = strongroom.backup.fleet_summary)
"""

import re

from ansible.plugins.callback import CallbackBase

HEADINGS = ("HOST", "CLIENT", "JOBS", "WORKERS", "TLS", "KTLS PROVEN", "LAST BACKUP")
HOST_HEADINGS = ("HOST", "STATE", "CHANGED", "WHY")
LONGEST_REASON = 400
CHECK = "strongroom.backup.check_inventory"
CLIENT = "strongroom_agent_summary"
KERNEL = "strongroom_ktls_facts"


def plain(text):
    """A text in one line, without characters that would drive a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def row(host, client, kernel):
    """What is shown of a host."""
    jobs = "%s run, %s wait" % (client.get("running", 0), client.get("queued", 0))
    cells = (
        host,
        "connected" if client.get("connected") else "offline",
        jobs,
        str(client.get("workers") or "-"),
        client.get("tls_mode") or "-",
        proof(client, kernel),
        ", ".join([last_backup(client), *[name for name in ("failed", "late") if client.get(name)]]),
    )
    return tuple(map(plain, cells))


def proof(client, kernel):
    """What proved that the kernel does TLS."""
    if client.get("ktls_proven"):
        return "last job"
    if kernel and kernel.get("proven"):
        return "kernel"
    return "no" if kernel or client.get("last_run") else "-"


def last_backup(client):
    """When the last successful backup began, to the minute."""
    began = str(client.get("last_backup") or "")
    return "%s %s UTC" % (began[:10], began[11:16]) if began else "none yet"


def host_row(host, stats, reasons):
    """How a host came out of the run."""
    changed = stats.changed.get(host, 0)
    state = "changed" if changed else "ok"
    why = ""
    if stats.dark.get(host) or stats.failures.get(host):
        state = "unreachable" if stats.dark.get(host) else "failed"
        why = "%s: %s" % reasons.get(host, ("a task", "no reason was given"))
    return (host, state, str(changed), why)


def reason(answer):
    """Why a task failed, on one line."""
    results = [one for one in answer.get("results") or [] if isinstance(one, dict) and one.get("failed")]
    message = str((results[0] if results else answer).get("msg") or "")
    if message in ("non-zero return code", ""):
        message = str(answer.get("stderr") or answer.get("stdout") or message)
        # What a command of Strongroom says for programs is behind what it says for people.
        message = re.sub(r'^\{"type": ?"error".*$', "", message, flags=re.MULTILINE)
    line = re.sub(r"^(Task failed: |Action failed: |Module failed: )+", "", " ".join(message.split()))
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 3] + "..."


def table(rows):
    """Lines, with columns as wide as what is in them."""
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in rows]


class CallbackModule(CallbackBase):
    """Notes the facts that the roles set, and shows them at the end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "strongroom.backup.fleet_summary"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.clients = {}
        self.kernels = {}
        self.reasons = {}
        self.is_checked = True

    def v2_runner_on_ok(self, result):
        """A task has ended well."""
        answer = result.result if hasattr(result, "result") else result._result
        facts = answer.get("ansible_facts") or {}
        host = (result.host if hasattr(result, "host") else result._host).get_name()
        for name, known in ((CLIENT, self.clients), (KERNEL, self.kernels)):
            if isinstance(facts.get(name), dict):
                known[host] = facts[name]

    def v2_runner_on_failed(self, result, ignore_errors=False):
        """A task has failed."""
        if not ignore_errors:
            self._note(result)

    def v2_runner_on_unreachable(self, result):
        """A host did not answer."""
        self._note(result)

    def _note(self, result):
        """Remember why a host fell out. A later failure is often what the first one brought about."""
        answer = result.result if hasattr(result, "result") else result._result
        task = result.task if hasattr(result, "task") else result._task
        if task.action == CHECK:
            # The faults were listed, and no host was reached.
            self.is_checked = False
        task = task.get_name().rpartition(" : ")[2]
        host = (result.host if hasattr(result, "host") else result._host).get_name()
        self.reasons.setdefault(host, (task, reason(answer)))

    def v2_playbook_on_stats(self, stats):
        """The run has ended."""
        rows = [row(host, client, self.kernels.get(host)) for host, client in sorted(self.clients.items()) if client]
        if rows:
            self._display.banner("CLIENTS")
            for line in table([HEADINGS, *rows]):
                self._display.display(line)
        hosts = sorted(stats.processed)
        failed = [host for host in hosts if stats.failures.get(host) or stats.dark.get(host)]
        if not self.is_checked:
            return
        if len(hosts) > 1 or failed:
            self._display.banner("HOSTS")
            lines = [host_row(host, stats, self.reasons) for host in hosts]
            for line in table([HOST_HEADINGS, *lines]):
                self._display.display(line)
        if failed:
            self._display.display("Run it again for these: --limit %s" % ",".join(failed))
