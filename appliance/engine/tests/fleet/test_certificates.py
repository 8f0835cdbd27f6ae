"""Certificates over months: renewed by anyone who holds them, told before they end, fixed after.

The clocks of all daemons and commands are moved together (kit.shifted_clock).
"""

from __future__ import annotations

import json
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.daemon_process import wait_for
from kit.house_of_daemons import HouseOfDaemons
from kit.shifted_clock import DAY_SECONDS, can_shift_clocks
from strongroom.base.errors import PeerRefusedError
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import Identity, certificate_request, new_key
from strongroom.net.identities.renewals import late_proof, read_late_proof

pytestmark = pytest.mark.skipif(
    not can_shift_clocks(), reason="no compiler for the clock that is moved"
)

RENEWED = "the certificate was renewed until"


@pytest.fixture
def house(new_house: Callable[..., HouseOfDaemons]) -> HouseOfDaemons:
    """A house whose authority keeps its lists to itself."""
    made = new_house(clocks=True)
    issued = made.folder / "ca" / "issued.jsonl"
    # As if all but the director were on their own machines: the authority writes to none.
    lines = [json.loads(line) for line in issued.read_text().splitlines()]
    for line in lines:
        line["folder"] = str(made.folder / "boss") if line["role"] == "director" else ""
    issued.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return made


def serial(folder: Path) -> str:
    return Identity.load(str(folder)).serial


def after(house: HouseOfDaemons, days: int) -> None:
    """Let days pass, and let all daemons look at their certificates."""
    house.set_clocks(days * DAY_SECONDS)
    for daemon in (house.director, house.storage, house.agents["web1"]):
        daemon.signal(signal.SIGHUP)


def expiries(house: HouseOfDaemons) -> dict[str, dict[str, object]]:
    status = json.loads(house.console("status", "--json").splitlines()[-1])
    return {f"{one['kind']} {one['name']}": one for one in status["expiries"]}


def test_every_holder_renews_its_certificate_and_tokens_are_warned_of(house):
    token = house.folder / "token"
    house.console("token", "create", "admin", "--lifetime", "70d", "-o", str(token))
    out = str(house.folder / "old.pem")
    house.authority("issue", "old", "--role", "operator", "--days", "65", "--out", out,
                    "--request", request_of(house))  # fmt: skip
    for times, days in enumerate((21, 42), start=1):
        after(house, days)
        house.agents["web1"].await_said(RENEWED, times)
    assert RENEWED not in house.storage.log
    before = {name: serial(house.folder / name) for name in ("boss", "vault", "admin", "ann")}

    after(house, 61)
    house.director.await_said("the director's certificate was replaced")
    house.storage.await_said(RENEWED)
    after(house, 63)
    house.agents["web1"].await_said(RENEWED, 3)
    shown = house.console("status")
    assert "warning: the certificate" not in house.messages
    now = {name: serial(house.folder / name) for name in before}
    assert {name for name in before if now[name] != before[name]} == {"boss", "vault", "admin"}
    assert stat.S_IMODE((house.folder / "admin" / "key.pem").stat().st_mode) == 0o600

    # What no one renews is reported, in status, figures and log, and the token to its bearer.
    assert "warning: token admin" in shown
    assert "warning: operator old" in shown
    assert "warning: operator admin" not in shown
    found = expiries(house)
    assert {"director boss", "storage vault", "agent web1", "operator admin"} < found.keys()
    assert any(name.startswith("authority ") for name in found)
    place = ("--director", f"https://127.0.0.1:{house.director_port}")
    authority = ("--authority", str(house.folder / "boss" / "authority.pem"))
    house.command("status", *place, "--token-file", str(token), *authority)
    assert house.messages.count(f"warning: the token in {token} ends on") == 1

    house.director.stop()
    house.start_director()
    house.director.await_said("the certificate of operator old ends on")
    house.director.await_said("the API token")

    # The connection with the new certificates works, on all sides.
    after(house, 83)
    house.agents["web1"].await_said(RENEWED, 4)
    after(house, 95)
    house.write_files("web1", {"letter": b"Dear all"})
    house.agents["web1"].stop()
    house.agents["web1"].start()
    wait_for(
        lambda: "1 of 1 clients connected" in house.console("status"),
        lambda: house.agents["web1"].log + house.director.log,
    )
    house.console("run", "nightly-web1", "--watch")


def request_of(house: HouseOfDaemons) -> str:
    """The file of a request for a certificate."""
    from strongroom.net.identities.identity import certificate_request, new_key

    file = house.folder / "old.csr"
    file.write_bytes(certificate_request(new_key(), "old"))
    return str(file)


def test_after_three_months_off_all_come_back_by_themselves(house):
    for daemon in house.daemons:
        daemon.stop()
    house.set_clocks(100 * DAY_SECONDS)
    # The operator's certificate is in a folder of the director's machine, as on an appliance.
    issued = house.folder / "ca" / "issued.jsonl"
    lines = [json.loads(line) for line in issued.read_text().splitlines()]
    for line in lines:
        if line["name"] == "admin":
            line["folder"] = str(house.folder / "admin")
    issued.write_text("".join(json.dumps(line) + "\n" for line in lines))
    house.start_director()
    assert "the director's certificate was replaced" in house.director.log
    house.start_storage()
    house.storage.await_said(RENEWED)
    house.agents["web1"].start()
    house.agents["web1"].await_said(RENEWED)
    wait_for(
        lambda: "1 of 1 clients connected" in house.console("status"),
        lambda: house.agents["web1"].log + house.director.log,
    )
    house.write_files("web1", {"letter": b"Dear all"})
    house.console("run", "nightly-web1", "--watch")
    # No one renewed that of the other operator, who is elsewhere; the advice works.
    said = house.console("status", person="ann", exit_code=62)
    assert "`strongroom ca issue ann --role operator`" in said


def test_after_a_year_off_one_command_lets_each_come_back(house):
    for daemon in house.daemons:
        daemon.stop()
    house.set_clocks(365 * DAY_SECONDS)
    house.start_director()
    house.start_storage()
    agent = house.agents["web1"]
    agent.start()
    for daemon, name in ((house.storage, "vault"), (agent, "web1")):
        daemon.await_said(f"`strongroom ca renew {name}` at the appliance permits it once more")
        house.authority("renew", name)
        daemon.signal(signal.SIGHUP)
        daemon.await_said(RENEWED)
    house.authority("issue", "admin", "--role", "operator", "--folder", str(house.folder / "admin"))
    wait_for(
        lambda: "1 of 1 clients connected" in house.console("status"),
        lambda: agent.log + house.director.log,
    )
    house.write_files("web1", {"letter": b"Dear all"})
    house.console("run", "nightly-web1", "--watch")


def test_who_has_no_key_or_was_revoked_renews_nothing_late(house):
    web1 = house.folder / "web1" / "identity"
    authority = Authority(str(house.folder / "ca"))
    identity = Identity.load(str(web1))
    request = certificate_request(new_key(), "web1")
    proof = late_proof(identity, request)
    # A proof is of its request alone, and of a certificate that is not valid.
    other = certificate_request(new_key(), "web1")
    with pytest.raises(PeerRefusedError, match="proved"):
        read_late_proof(proof, authority.fingerprint, other)
    certificate, _ = read_late_proof(proof, authority.fingerprint, request)
    with pytest.raises(PeerRefusedError, match="not due"):
        authority.renew(certificate, request, is_late=True)
    house.authority("revoke", "web1")
    house.agents["web1"].stop()
    said = house.agents["web1"].log.count("was revoked")
    house.set_clocks(40 * DAY_SECONDS)
    house.director.signal(signal.SIGHUP)
    house.agents["web1"].start()
    house.agents["web1"].await_said("was revoked", said + 1)
    assert serial(web1) == identity.serial


def test_what_was_revoked_does_not_renew_itself(house):
    before = {name: serial(house.folder / name) for name in ("vault", "admin")}
    of_ann = serial(house.folder / "ann")
    for name in before:
        house.authority("revoke", name)
    after(house, 61)
    house.director.await_said("the director's certificate was replaced")
    house.storage.await_said("the certificate could not be renewed: the director refuses")
    assert "was revoked" in house.storage.log
    assert "was revoked" in house.console("status", exit_code=62)
    assert {name: serial(house.folder / name) for name in before} == before
    house.console("status", person="ann")
    assert serial(house.folder / "ann") != of_ann


def test_a_storage_daemon_elsewhere_fetches_the_list_of_revoked_certificates(house):
    house.authority("revoke", "web1")
    vault = Identity.load(str(house.folder / "vault"))
    web1 = Identity.load(str(house.folder / "web1" / "identity"))
    house.storage.signal(signal.SIGHUP)
    house.storage.await_said("a newer list of revoked certificates is in force")
    assert vault.trust.revocations is not None
    assert vault.trust.revocations.is_revoked(web1.peer)
