"""The menu, driven on a real pseudo terminal of 80 by 25 and of a serial line."""

from __future__ import annotations

import datetime as dt
import re

import pytest

from appliance_kit.answers_for_tests import OF_NOBODY, PASSWORD, SSH_KEY
from appliance_kit.console_on_terminal import ConsoleOnTerminal
from appliance_kit.private_machine import SCRIPTS, PrivateMachine

KEPT = "/var/lib/strongroom/appliance/answers.yml"


def console(
    machine: PrivateMachine, *words: str, term: str = "linux", rows: int = 25
) -> ConsoleOnTerminal:
    # A session of its own, as systemd gives it one.
    session = ["setsid", "--ctty", "--wait", str(SCRIPTS / "strongroom-appliance"), "console"]
    return ConsoleOnTerminal(machine.command(*session, *words), term=term, rows=rows)


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
        page = menu.wait_for("made the user ann", "let 1 ssh keys", "Enter goes back")
        assert "Next: 5 Set up backups" in page
        back_to_menu(menu)
        fill_in(menu, "5", "Set up backups", "vault.example.org", "servers databases", "22:15", "")
        # The last field is not asked for when a key is generated.
        menu.wait_for("Passphrase to import")
        menu.press("enter")
        menu.wait_for("Done:", "made a repository in /srv/strongroom/repository")
        # What comes next, below what was done.
        menu.press(" ", " ")
        page = menu.wait_for("6 Paper copy", "7 Enrolment token", "Enter goes back")
        assert "Open https://vault.example.org:9101/ in a browser" in page
        back_to_menu(menu)
        menu.press("6")
        page = menu.wait_for("Passphrase of the backups", "check:", "Enter goes back")
        passphrase = machine.path("/var/lib/strongroom/director/passphrase").read_text().strip()
        assert passphrase in page.replace(" ", "")
        back_to_menu(menu)
        fill_in(menu, "7", "Enrolment token", "", "web*", "20", "7 days")
        page = menu.wait_for("Machines join with this token", "Enter goes back")
        assert "strongroom agent join https://vault.example.org:9101 --token-file FILE" in page
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
        menu.press("clear; id -un | tr a-z A-Z", "enter")
        menu.wait_until(lambda: "ANN" in menu.text and "Power off" not in menu.text)
        menu.press("exit", "enter")
        menu.wait_for("Power off")
        menu.press("8")
        menu.wait_for("Steps")
    answers = machine.path("/etc/strongroom/appliance.toml").read_text()
    assert 'backup_time = "22:15"' in answers
    assert 'groups = ["servers", "databases"]' in answers
    assert 'repository = "/srv/strongroom/repository"' in answers
    assert PASSWORD not in machine.path(KEPT).read_text()
    assert "$6$" not in machine.path(KEPT).read_text()


@pytest.mark.parametrize(("term", "rows"), [("linux", 48), ("vt100", 30)])
def test_the_paper_copy_is_scanned_from_the_screen(machine, term, rows):
    # Where a screen has few rows, a terminal shows half blocks; the machine's own screen has none.
    passphrase = "3Z4m/qXW8sK2+bJ0aVdYtP6uHcNfGe1L"
    machine.write("/var/lib/strongroom/director/passphrase", f"{passphrase}\n")
    with console(machine, term=term, rows=rows) as menu:
        menu.wait_for("Power off")
        menu.press("6")
        menu.wait_for("Passphrase of the backups", "Enter goes back")
        menu.press(" ")
        menu.wait_until(lambda: passphrase in menu.scanned())
        # Fonts of consoles have no other block, and many not even that one.
        if term == "linux":
            assert menu.text.isascii()


def test_letters_with_accents_are_part_of_a_password(machine):
    password = "Pässwort für 3 €"
    with console(machine, "--login") as menu:
        menu.wait_for("Enter opens the menu")
        menu.press("enter")
        menu.wait_for("Power off")
        fill_in(menu, "4", "Administrator", "ann", password, password, SSH_KEY)
        menu.wait_for("Done:", "set the password of ann")
        back_to_menu(menu)
        menu.press("escape")
        menu.wait_for("Enter: log in")
        menu.press("enter")
        menu.wait_for("Password:")
        menu.press(password.replace("ä", "").replace("ü", "").replace("€", ""), "enter")
        menu.wait_for("That was not the password")
        menu.press(password, "enter")
        menu.wait_for("Shell, as ann")


@pytest.mark.parametrize("term", ["linux", "vt100"])
def test_a_letter_that_cannot_be_read_is_not_dropped_in_silence(machine, term):
    with console(machine, term=term) as menu:
        menu.wait_for("Power off")
        menu.press("4")
        menu.wait_for("Administrator", "[ Apply ]")
        menu.press("down")
        menu.send("Pässwort".encode("latin-1"))
        # What could be read is there.
        menu.wait_for("does not send UTF-8", "*******_")
        menu.press("escape")
        menu.wait_for("Power off")


def test_keys_typed_before_a_page_is_there_do_nothing_on_it(machine):
    with console(machine) as menu:
        menu.wait_for("Power off")
        # Without being discarded they would go to `Power off` and say yes.
        menu.press("2", "p", "y")
        menu.wait_for("Host name and time", "[ Apply ]")
        menu.press("escape")
        page = menu.wait_for("Power off", "Enrolment token")
        assert "No, go back" not in page


def test_a_failure_of_the_program_is_said_in_a_sentence(machine):
    machine.write("/etc/broken", "#!/bin/sh\necho nothing\n")
    machine.path("/etc/broken").chmod(0o755)
    machine.prepare = "mount --bind /etc/broken $(command -v lsblk)"
    with console(machine) as menu:
        menu.wait_for("Power off")
        menu.press("3")
        page = menu.wait_for("`Data disk` failed by an error of this program", "Enter goes back")
        assert "Expecting value" not in page
        back_to_menu(menu)


def test_a_damaged_state_is_shown_and_does_not_end_the_console(machine):
    machine.write("/var/lib/strongroom/appliance/state.json", '{"version": 1, "steps": 5}')
    with console(machine, "--login") as menu:
        menu.wait_for("state.json is damaged", "Enter goes back")
        menu.press("enter")
        # Shown again, by the same console.
        menu.wait_for("state.json is damaged", "Enter goes back")


def test_the_clock_of_the_page_follows_the_time_zone_at_once(machine):
    with console(machine, "--login") as menu:
        before = menu.wait_for("NOT SET UP")
        menu.press("enter")
        menu.wait_for("Power off")
        fill_in(menu, "2", "Time zone", "VAULT.example.org", "Asia/Kathmandu", "")
        menu.wait_for("named this machine VAULT.example.org", "Enter goes back")
        back_to_menu(menu)
        menu.press("escape")
        after = menu.wait_for("NOT SET UP")
    moments = [
        dt.datetime.fromisoformat(re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d", page)[0])
        for page in (before, after)
    ]
    # That of this host is UTC, or another one that differs.
    assert moments[1] - moments[0] > dt.timedelta(minutes=30), (before, after)


def test_more_disks_than_digits_are_offered_each_with_its_whole_name(machine, new_disk):
    disks = [new_disk(64 << 20) for _ in range(11)]
    with console(machine, rows=60) as menu:
        menu.wait_for("Power off")
        menu.press("3")
        page = menu.wait_for("Data disk", *(disk.path for disk in disks))
        keys = {line.split()[1]: line.split()[0] for line in menu.lines if "/dev/loop" in line[:14]}
        chosen = [keys[disk.path] for disk in disks]
        assert len(set(chosen)) == 11, page
        assert all(len(key) == 1 for key in chosen), page
        assert any(key.isalpha() for key in chosen), page
        menu.press(keys[disks[10].path])
        menu.wait_for("[ Apply ]", disks[10].path, "0.1 GB")


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
        menu.wait_for("does not name the disk", "if everything on it may be erased")
        menu.press("enter", "enter", "enter", "clear", name, "enter", "enter")
        menu.wait_for("Done:", "made an XFS file system")


def test_the_menu_needs_a_terminal_and_one_that_is_large_enough(machine):
    done = machine.run("strongroom-appliance", "console", exit_code=2)
    assert "needs a terminal" in done.stderr
    words = machine.command("strongroom-appliance", "console", "--login")
    with ConsoleOnTerminal(words, columns=40, rows=10) as menu:
        assert menu.wait_for_end() == 2
