"""The menu, driven on a real pseudo terminal of 80 by 25 and of a serial line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.answers_for_tests import OF_NOBODY, PASSWORD, SSH_KEY
from kit.console_on_terminal import ConsoleOnTerminal
from kit.private_machine import SCRIPTS

if TYPE_CHECKING:
    from kit.private_machine import PrivateMachine

KEPT = "/var/lib/strongroom/appliance/answers.yml"


def console(machine: PrivateMachine, *words: str, term: str = "linux") -> ConsoleOnTerminal:
    # A session of its own, as systemd gives it one.
    session = ["setsid", "--ctty", "--wait", str(SCRIPTS / "strongroom-console")]
    return ConsoleOnTerminal(machine.command(*session, *words), term=term)


def fill_in(menu: ConsoleOnTerminal, key: str, title: str, *values: str) -> None:
    """Open a page and fill its fields in; "" leaves one as it is, " " chooses the next."""
    menu.press(key)
    menu.wait_for(title, "[ Apply ]")
    for value in values:
        if value.strip():
            menu.press("clear", value)
        elif value:
            menu.press(value)
        menu.press("enter")
    menu.press("enter")


def back_to_menu(menu: ConsoleOnTerminal) -> None:
    menu.press("enter")
    menu.wait_for("Power off")


@pytest.mark.parametrize("term", ["linux", "vt100", "vt220"])
def test_whoever_is_at_a_fresh_machine_gets_status_and_menu(machine, term):
    with console(machine, "--login", term=term) as menu:
        menu.wait_for("NOT SET UP", "Enter opens the menu")
        menu.press("enter")
        page = menu.wait_for("Network", "Data disk", "Support bundle", "Power off")
        assert "Unlock" not in page
        assert "Shell" not in page
        assert max(map(len, menu.lines)) <= 80
        menu.press("down", "down", "up", "enter")
        menu.wait_for("Host name and time", "Time zone")
        menu.press("escape")
        menu.wait_for("Power off")
        menu.press("escape")
        menu.wait_for("Enter opens the menu")


def test_a_form_says_what_is_wrong_and_keeps_what_was_typed(machine):
    with console(machine) as menu:
        menu.wait_for("Power off")
        fill_in(menu, "1", "Network", "eth0", "", "", "   ", "192.0.2.10", "", "", "ns one", "")
        page = menu.wait_for("addresses[0]", "give an", "address with its prefix")
        assert "192.0.2.10" in page
        assert "ns one" in page
        menu.press("escape")
        menu.wait_for("Power off")
    assert not machine.path("/etc/systemd/network").exists()


def test_a_bond_with_a_vlan_is_set_up_by_the_form(machine):
    with console(machine, term="vt100") as menu:
        menu.wait_for("Power off")
        fill_in(menu, "1", "Network", "eth0 eth1", " ", "20", "   ", "192.0.2.10/24", "192.0.2.1",
                "", "192.0.2.53", "example.org")  # fmt: skip
        menu.wait_for("Done:", "eth0, eth1, bond0, vlan20")
    folder = machine.path("/etc/systemd/network")
    assert "Mode=802.3ad" in (folder / "50-strongroom-bond0.netdev").read_text()
    assert "Id=20" in (folder / "50-strongroom-vlan20.netdev").read_text()
    text = (folder / "50-strongroom-vlan20.network").read_text()
    assert "Address=192.0.2.10/24" in text
    assert "Gateway=192.0.2.1" in text
    assert "Bond=bond0" in (folder / "50-strongroom-eth1.network").read_text()


def test_a_machine_is_set_up_by_the_menu_and_then_wants_a_password(machine, new_disk):
    disk = new_disk()
    machine.write(KEPT, f"version: 1\nappliance: {{{OF_NOBODY}}}\n")
    with console(machine, "--login") as menu:
        menu.wait_for("Enter opens the menu")
        menu.press("enter")
        menu.wait_for("Power off")
        fill_in(menu, "2", "Time zone", "vault.example.org", "Europe/Berlin", "")
        menu.wait_for("Done:", "named this machine vault.example.org")
        back_to_menu(menu)
        menu.press("3")
        menu.wait_for("Data disk", "empty")
        line = next(one for one in menu.lines if disk.path.removeprefix("/dev/") in one)
        menu.press(line.split()[0])
        menu.wait_for("[ Apply ]", "Encryption")
        menu.press("enter", "enter", "enter", "enter")
        menu.wait_for("Done:", "made an XFS file system")
        back_to_menu(menu)
        menu.press("5")
        menu.wait_for("make an administrator with a password first")
        back_to_menu(menu)
        fill_in(menu, "4", "Administrator", "ann", PASSWORD, PASSWORD, SSH_KEY)
        menu.wait_for("made the user ann", "let 1 ssh keys log in as ann")
        back_to_menu(menu)
        fill_in(menu, "5", "Set up backups", "vault.example.org", "servers databases", "22:15", "")
        # The last field is not asked for when a key is generated.
        menu.wait_for("Passphrase to import")
        menu.press("enter")
        menu.wait_for("Done:", "made a repository in /srv/strongroom/repository")
        back_to_menu(menu)
        menu.press("6")
        page = menu.wait_for("Passphrase of the backups", "check:", "\u2588\u2588")
        passphrase = machine.path("/var/lib/strongroom/director/passphrase").read_text().strip()
        assert passphrase in page.replace(" ", "")
        back_to_menu(menu)
        fill_in(menu, "7", "Enrolment token", "", "web*", "20", "7 days")
        menu.wait_for("Machines join with this token")
        back_to_menu(menu)
        menu.press("escape")
        menu.wait_for("Enter: log in")
        menu.press("enter")
        menu.wait_for("Administrator: ann", "Password:")
        menu.press("wrong", "enter")
        menu.wait_for("That was not the password")
        menu.press("clear", PASSWORD)
        assert PASSWORD not in menu.text
        menu.press("enter")
        menu.wait_for("Shell, as ann", "Power off")
        menu.press("s")
        menu.wait_for("$")
        menu.press("id -un; exit", "enter")
        menu.wait_for("Power off")
        menu.press("8")
        menu.wait_for("Steps")
    answers = machine.path("/etc/strongroom/appliance.toml").read_text()
    assert 'backup_time = "22:15"' in answers
    assert 'groups = ["servers", "databases"]' in answers
    assert 'repository = "/srv/strongroom/repository"' in answers
    assert PASSWORD not in machine.path(KEPT).read_text()
    assert "$6$" not in machine.path(KEPT).read_text()


def test_a_disk_with_something_on_it_wants_its_name_typed(machine, new_disk):
    import subprocess

    disk = new_disk()
    subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
    name = disk.path.removeprefix("/dev/")
    with console(machine) as menu:
        menu.wait_for("Power off")
        menu.press("3")
        menu.wait_for("HOLDS ext4")
        menu.press(next(one for one in menu.lines if name in one).split()[0])
        menu.wait_for("[ Apply ]")
        menu.press("enter", "enter", "enter", "yes", "enter", "enter")
        menu.wait_for("does not name the disk", "if all that is on it may go")
        menu.press("enter", "enter", "enter", "clear", name, "enter", "enter")
        menu.wait_for("Done:", "made an XFS file system")


def test_the_menu_needs_a_terminal_and_one_that_is_large_enough(machine):
    done = machine.run("strongroom-console", exit_code=2)
    assert "needs a terminal" in done.stderr
    words = machine.command("strongroom-console", "--login")
    with ConsoleOnTerminal(words, columns=40, rows=10) as menu:
        assert menu.wait_for_end() == 2
