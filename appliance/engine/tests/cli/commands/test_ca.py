"""`strongroom ca`, as an operator uses it."""

import os
import pwd
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kit.appliance_keys import appliance_key_text, client_of
from kit.command import Command
from kit.json_output import objects_of
from kit.tiny_backup import new_repository
from strongroom.base.errors import PeerRefusedError, UsageError, WrongKeyError
from strongroom.engine.repository.keys.files import export_key
from strongroom.engine.stores.local import LocalStore
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.enrolments import new_certificate
from strongroom.net.identities.identity import Identity, certificate_request, new_key
from strongroom.net.identities.trust import Trust


class Operator:
    """Runs `strongroom ca` on an authority of the test's own."""

    def __init__(self, folder):
        self.folder = folder
        self._command = Command(folder)

    def run(self, action, *words, **options):
        return self._command.run("ca", action, "--ca", str(self.folder / "ca"), *words, **options)

    def objects(self, action, *words):
        return objects_of(self.run(action, *words, "--json").stdout)

    @property
    def authority(self):
        return Authority(str(self.folder / "ca"))


@pytest.fixture
def operator(tmp_path):
    operator = Operator(tmp_path)
    Authority.create(str(tmp_path / "ca"), "test")
    return operator


def test_an_authority_is_made_once(tmp_path):
    operator = Operator(tmp_path)
    (made,) = operator.objects("init", "--name", "office")
    assert made["fingerprint"] == operator.authority.fingerprint
    assert made["encrypted"] is False
    operator.run("init", exit_code=UsageError.exit_code)


def test_a_key_under_a_passphrase_needs_it(tmp_path):
    operator = Operator(tmp_path)
    secret = ("--password-file", str(tmp_path / "passphrase"))
    operator.run("init", "--encrypt-key", *secret)
    issue = ("issue", "web1", "--role", "agent", "--folder", str(tmp_path / "web1"))
    operator.run(*issue, exit_code=WrongKeyError.exit_code)
    operator.run(*issue, *secret)
    assert Identity.load(str(tmp_path / "web1")).name == "web1"


def test_a_whole_identity_is_issued_into_a_folder(operator, tmp_path):
    folder = tmp_path / "sd"
    words = ("sd", "--role", "storage", "--host", "10.0.0.9", "--days", "3")
    (issued,) = operator.objects("issue", *words, "--folder", str(folder), "--owner", "daemon")
    identity = Identity.load(str(folder))
    assert (identity.name, identity.role, identity.serial) == ("sd", "storage", issued["serial"])
    if os.geteuid() == 0:
        assert all(path.owner() == "daemon" for path in [folder, *folder.iterdir()])
    operator.run(
        "issue",
        *words,
        "--folder",
        str(folder),
        "--owner",
        "no such",
        exit_code=UsageError.exit_code,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_writes_for_a_daemon_belongs_to_the_daemon(tmp_path):
    operator = Operator(tmp_path)
    operator.run("init", "--owner", "daemon")
    operator.run("token", "web1", "--out", "-")
    folder = tmp_path / "sd"
    issue = ("issue", "sd", "--role", "storage", "--folder", str(folder))
    operator.run(*issue, "--owner", "daemon")
    (tmp_path / "victim").touch()
    (folder / "planted").symlink_to(tmp_path / "victim")
    operator.run(*issue)
    operator.run("revoke", "sd")
    operator.run(*issue, "--owner", "daemon")
    for place in (tmp_path / "ca", folder):
        paths = [place, *place.rglob("*")]
        assert {path.lstat().st_uid for path in paths} == {pwd.getpwnam("daemon").pw_uid}
    assert (tmp_path / "victim").stat().st_uid == 0


def test_a_certificate_is_issued_for_a_request(operator, tmp_path):
    (tmp_path / "request").write_bytes(certificate_request(new_key(), "x"))
    words = ("issue", "web1", "--role", "agent", "--request", str(tmp_path / "request"))
    printed = operator.run(*words).stdout
    operator.run(*words, "--out", str(tmp_path / "web1.pem"))
    trust = Trust(operator.authority.certificate_pem)
    for pem in (printed.encode(), (tmp_path / "web1.pem").read_bytes()):
        der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
        assert trust.judge(der, ["agent"]).name == "web1"


def test_the_certificate_of_an_agent_says_which_client_it_is(operator, tmp_path):
    repository = new_repository(LocalStore(str(tmp_path / "repository")))
    key = tmp_path / "appliance.key"
    key.write_text(appliance_key_text(repository.key))
    words = ("issue", "web1", "--role", "agent", "--appliance-key", str(key))
    for generation in (0, 2):
        place = tmp_path / f"web{generation}"
        operator.run(*words, "--generation", str(generation), "--folder", str(place))
        peer = Identity.load(str(place)).peer
        assert peer.clients == (client_of(repository.key, "web1", generation),)
    put_key = tmp_path / "put.key"
    put_key.write_text(export_key(repository.key.put_key("web1")))
    refused = ("issue", "web1", "--role", "agent", "--folder", str(tmp_path / "x"))
    operator.run(*refused, "--appliance-key", str(put_key), exit_code=UsageError.exit_code)
    words = ("issue", "boss", "--role", "director", "--folder", str(tmp_path / "x"))
    operator.run(*words, "--appliance-key", str(key), exit_code=UsageError.exit_code)
    assert not (tmp_path / "x").exists()


def test_a_token_may_make_a_new_client_of_a_name(operator):
    tokens = operator.authority.tokens
    for further, is_new in (((), False), (("--new-client",), True)):
        printed = operator.run("token", "web1", "--out", "-", *further).stdout.strip()
        assert tokens.look(printed, "web1").new_client is is_new
    for words in (("--any-name",), ("vault", "--role", "storage")):
        further = ("--new-client", "--out", "-")
        operator.run("token", *words, *further, exit_code=UsageError.exit_code)


def test_a_token_goes_into_a_file_and_nowhere_else(operator, tmp_path):
    place = tmp_path / "web1.token"
    answer = operator.run("token", "web1", "--out", str(place), "--verbose")
    token = place.read_text().strip()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert token not in answer.stdout + answer.stderr
    assert operator.authority.fingerprint in answer.stdout
    assert token not in operator.run("list").stdout
    assert new_certificate(operator.authority, token, certificate_request(new_key(), "x"), "web1")
    operator.run("token", "web1", "--out", str(place), exit_code=UsageError.exit_code)
    assert place.read_text().strip() == token


def test_a_token_is_printed_when_that_is_asked_for(operator):
    printed = operator.run("token", "web1", "--out", "-").stdout.strip()
    (emitted,) = operator.objects("token", "--any-name", "--role", "storage", "--out", "-")
    tokens = operator.authority.tokens
    assert tokens.look(printed, "web1").role == "agent"
    assert tokens.look(emitted["token"], "anybody").role == "storage"


@pytest.mark.parametrize(
    "words",
    [
        ["--out", "-"],
        ["web1"],
        ["web1", "--any-name", "--out", "-"],
        ["web1", "--out", "-", "--lifetime", "31d"],
        ["web1", "--out", "-", "--lifetime", "15m"],
        ["web1", "--out", "-", "--lifetime", "0h"],
        ["--withdraw", "12"],
    ],
    ids=" ".join,
)
def test_a_token_that_is_not_wholly_stated_is_not_made(operator, words):
    operator.run("token", *words, exit_code=UsageError.exit_code)
    assert operator.authority.tokens.unused() == []


def test_the_list_shows_what_is_good_and_all_on_request(operator, tmp_path):
    for name in ("web1", "web2"):
        operator.authority.issue_identity(str(tmp_path / name), name, "agent")
    token = operator.authority.tokens.create("web3", "agent", 60)
    (revoked,) = operator.objects("revoke", "web1")
    assert (revoked["name"], revoked["revoked"]) == ("web1", True)
    assert "nothing to do" in operator.run("revoke", "web1").stdout
    authority, *listed = operator.objects("list")
    assert authority["fingerprint"] == operator.authority.fingerprint
    assert [one["name"] for one in listed] == ["web2", "web3"]
    _, *listed = operator.objects("list", "--all")
    assert [one["name"] for one in listed] == ["web1", "web2", "web3"]
    printed = operator.run("list", "--all").stdout
    assert "revoked" in printed
    assert operator.authority.fingerprint in printed
    operator.run("token", "--withdraw", token.id)
    with pytest.raises(PeerRefusedError):
        operator.authority.tokens.look(token.text, "web3")
    operator.run("revoke", "nobody", exit_code=UsageError.exit_code)


def test_what_was_issued_before_a_time_is_revoked_and_renewal_is_permitted(operator, tmp_path):
    operator.authority.issue_identity(str(tmp_path / "web1"), "web1", "agent")
    assert "nothing to do" in operator.run("revoke", "web1", "--issued-before", "1h").stdout
    (permitted,) = operator.objects("renew", "web1")
    assert (permitted["name"], permitted["revoked"]) == ("web1", False)
    operator.run("renew", "nobody", exit_code=UsageError.exit_code)
