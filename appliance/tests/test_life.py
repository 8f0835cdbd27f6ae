"""One appliance from its first start on: set up by an answer file, checked, restarted.

The tests follow each other.
"""

from __future__ import annotations

import json
import subprocess

MB = 1_000_000


def test_an_answer_file_sets_the_appliance_up(life):
    state = json.loads(life.does("strongroom-appliance state --json"))
    assert state["is_ready"], state
    assert {step["result"] for step in state["steps"].values()} == {"done"}
    life.does("systemctl is-system-running --wait > /dev/null; true")
    life.is_at_work()
    assert life.does("hostname").strip() == "vault"
    assert "192.0.2.10/24" in life.does("ip -oneline address show")
    assert life.does("findmnt --noheadings --output FSTYPE /srv/strongroom").strip() == "xfs"
    assert life.does("test -s /var/lib/strongroom/appliance/tokens/servers-1; echo $?").strip() == "0"
    assert life.does("systemctl is-active strongroom-update.timer").strip() == "active"


def test_the_check_before_each_start_finds_no_fault(life):
    said = life.does("journalctl --no-pager --output=cat -u strongroom-director -u strongroom-storage")
    # Of both.
    assert said.count("the check before the start found no fault") >= 2
    bad = life.does("journalctl --no-pager --output=cat -p err -u strongroom-director -u strongroom-storage")
    assert [line for line in bad.splitlines() if line.startswith("[")] == []


def test_the_administrator_logs_in_and_may_do_everything(life):
    done = subprocess.run(
        [*life.machine.ssh_words(life.key, "ann"), "sudo id -un"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "root\n", done.stderr


def test_only_what_is_documented_answers_from_outside(life):
    """As docs/guides/appliance.md says: secure shell, director, storage daemon."""
    assert life.machine.scan("192.0.2.10") == {22, 9101, 9103}


def test_after_a_restart_everything_is_there(life):
    life.does("systemctl reboot --no-block; true")
    life.restarted()
    assert life.settled()["states"] == {"a": "good", "b": "0"}
    assert life.kept() == life.before
    life.is_at_work()


def test_idle_it_needs_less_than_400_mb(life, tell):
    """All that is less available with nothing to do; and who has most, each page of memory counted once."""
    said = life.does("cat /proc/meminfo; systemd-analyze time | head -n 1")
    memory = {line.split(":")[0]: int(line.split()[1]) << 10 for line in said.splitlines() if line.endswith(" kB")}
    used = memory["MemTotal"] - memory["MemAvailable"]
    read = (
        "for p in /proc/[0-9]*; do echo $(awk '/^Pss:/ {print $2}' $p/smaps_rollup) $(tr '\\0' ' ' < $p/cmdline); done"
    )
    # Threads of the kernel have neither size nor command.
    sizes = [line.split(maxsplit=1) for line in life.does(f"({read}) 2> /dev/null; true").splitlines() if " " in line]
    processes = sorted(((int(size), name) for size, name in sizes if size.isdigit()), reverse=True)
    all_of_them = sum(size for size, _ in processes) * 1024
    tell(f"idle it needs {used / MB:.0f} MB; processes {all_of_them / MB:.0f} MB, of these:")
    tell("\n".join(f"  {size * 1024 / MB:5.1f} MB {name[:90]}" for size, name in processes[:14]))
    kernel = ("Slab", "SUnreclaim", "KernelStack", "PageTables", "Percpu", "Shmem", "VmallocUsed")
    tell("kernel: " + ", ".join(f"{name} {memory[name] / MB:.0f} MB" for name in kernel))
    tell(f"after a restart: {said.splitlines()[-1]}")
    assert used < 400 * MB
