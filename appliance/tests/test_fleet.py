"""`site.yml` takes over an appliance from outside, a client joins it, and backups survive a power cut.

The tests follow each other. The client is a container and has this host's kernel, which may not have TLS; so it is the
appliance's kernel that is asked, at the other end of the same connection, whether it decrypted what was backed up and
encrypted what was restored.
"""

from __future__ import annotations

import time

import pytest
from fleet import CLIENT, PACKAGES, SOURCE, Fleet
from life import Life
from machine import PATIENCE_SECONDS
from tree import make_tree, tree

MIB = 1 << 20
FIRST_BYTES = 24 * MIB
# So much is new when the power is cut.
SECOND_BYTES = 256 * MIB
SEEN_BYTES = 64 * MIB
ENDED = ("done", "incomplete", "failed", "cancelled")
# Without the schedule of the others, which is for backups.
VERIFY = f"""Job {{
  Name = comparison; Type = Verify; Level = DiskToCatalog; Job To Verify = {CLIENT}
  Client = {CLIENT}; FileSet = {CLIENT}
  Storage = vault; Pool = Usual; Messages = Standard
}}
"""
# Slow enough that it is under way when the power is cut, however busy this host is.
SLOWLY = f"""Job {{
  Name = slowly; JobDefs = Usual; Client = {CLIENT}; FileSet = {CLIENT}; Maximum Bandwidth = 4mb/s
}}
"""
CHECK = "check --read-data --repo /srv/strongroom/repository --password-file /var/lib/strongroom/director/passphrase"


@pytest.fixture(scope="module")
def fleet(new_machine, key, tmp_path_factory):
    if not PACKAGES.is_dir():
        pytest.fail(f"{PACKAGES} has no packages for the client: make packages SUITES=trixie")
    life = Life(new_machine(data_gib=4), key)
    made = Fleet(life, tmp_path_factory.mktemp("fleet"))
    yield made
    made.end()
    life.machine.kill()


@pytest.fixture(scope="module")
def source(fleet):
    """The folder of the client that is backed up."""
    folder = fleet.client / SOURCE.lstrip("/")
    make_tree(folder, FIRST_BYTES, 1)
    return folder


def test_site_yml_takes_the_appliance_over_and_the_client_joins(fleet):
    said = fleet.play("site.yml")
    assert "unreachable=0" in said
    assert fleet.life.kept() == fleet.life.before
    fleet.life.is_at_work()
    [client] = [one for one in fleet.strongroom("clients") if one.get("name") == CLIENT]
    assert client["connected"], client


def test_a_backup_passes_the_kernels_tls_and_is_compared_with_the_files(fleet, source):
    before = fleet.counters()
    fleet.life.does(f"HOME=/root strongroom run {CLIENT} --watch")
    after = fleet.counters()
    assert after["TlsRxSw"] + after["TlsRxDevice"] > before["TlsRxSw"] + before["TlsRxDevice"]
    assert after["TlsTxSw"] + after["TlsTxDevice"] > before["TlsTxSw"] + before["TlsTxDevice"]
    assert after["TlsDecryptError"] == before["TlsDecryptError"]
    assert fleet.runs()[0]["state"] == "done"
    fleet.configure("comparison", VERIFY)
    fleet.life.does("HOME=/root strongroom run comparison --watch")


def test_the_restore_has_every_byte_acl_and_attribute(fleet, source):
    before = fleet.counters()
    fleet.play("restore.yml", client=CLIENT, target="/var/tmp/restored")
    after = fleet.counters()
    assert after["TlsTxSw"] + after["TlsTxDevice"] > before["TlsTxSw"] + before["TlsTxDevice"]
    found = tree(fleet.client / "var/tmp/restored" / SOURCE.lstrip("/"))
    assert found == tree(source)
    names = {name for entry in found.values() for name in entry["attributes"]}
    assert {"system.posix_acl_access", "system.posix_acl_default", "user.of-the-test"} <= names


def test_a_power_cut_in_the_middle_of_a_backup_damages_nothing_and_it_resumes(fleet, source):
    make_tree(source / "more", SECOND_BYTES, 2)
    before = fleet.stored_bytes()
    fleet.configure("slowly", SLOWLY)
    fleet.life.does("HOME=/root strongroom run slowly")
    end = time.monotonic() + PATIENCE_SECONDS
    while (seen := fleet.stored_bytes() - before) < SEEN_BYTES:
        assert time.monotonic() < end, fleet.runs()
        time.sleep(2)
    assert fleet.runs("--last 1")[0]["state"] == "running"
    fleet.life.cut_the_power()
    fleet.life.does(f"HOME=/root strongroom {CHECK}")
    while any(one["state"] not in ENDED for one in fleet.runs()):
        assert time.monotonic() < end + PATIENCE_SECONDS, fleet.runs()
        time.sleep(5)
    # It continued by itself, and the next one finds its work done.
    assert [one["state"] for one in fleet.runs("--job slowly")] == ["done"], fleet.runs()
    fleet.life.does("HOME=/root strongroom run slowly --watch")
    # What was stored before the cut was not sent again.
    assert fleet.stored_bytes() - before < SECOND_BYTES + SEEN_BYTES // 2, seen
    fleet.life.does(f"HOME=/root strongroom {CHECK}")
    fleet.play("restore.yml", client=CLIENT, target="/var/tmp/again")
    assert tree(fleet.client / "var/tmp/again" / SOURCE.lstrip("/")) == tree(source)
    fleet.life.is_at_work()
