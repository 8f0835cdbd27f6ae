"""The authority: what it issues, to whom, once, and what it keeps."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import DamageError, PeerRefusedError, UsageError, WrongKeyError
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.enrolments import new_certificate
from strongroom.net.identities.identity import Identity, certificate_request, new_key
from strongroom.net.identities.peer import peer_of
from strongroom.net.identities.trust import Trust, host_names


@pytest.fixture
def authority(house):
    return house.authority


def request(name="anybody"):
    return certificate_request(new_key(), name)


def certificate(pem):
    return x509.load_pem_x509_certificate(pem)


def test_name_and_role_are_what_the_operator_says(authority):
    made = certificate(authority.issue(request("boss"), "web9", "agent", ["10.0.0.9", "web9.lan"]))
    assert (peer_of(made).name, peer_of(made).role) == ("web9", "agent")
    assert made.subject.rfc4514_string() == "CN=web9"
    assert host_names(made) == ["web9.lan", "10.0.0.9"]


def test_what_is_issued_is_listed(authority):
    before = len(authority.issued())
    made = certificate(authority.issue(request(), "web9", "agent"))
    (entry,) = authority.issued()[before:]
    assert (entry.name, entry.role, entry.serial) == (
        "web9",
        "agent",
        f"{made.serial_number:x}",
    )


def test_a_line_torn_by_a_crash_costs_no_other(authority):
    before = authority.issued()
    path = os.path.join(authority.folder, b"issued.jsonl")
    with open(path, "ab") as file:
        file.write(b'{"serial":"12","na')
    authority.issue(request(), "web9", "agent")
    assert [entry.name for entry in authority.issued()] == [
        *(entry.name for entry in before),
        "web9",
    ]


@pytest.mark.parametrize("days", [0, -1, 826, float("nan")])
def test_impossible_lifetimes_are_refused(authority, days):
    with pytest.raises(UsageError, match="825 days"):
        authority.issue(request(), "web9", "agent", lifetime_days=days)


@pytest.mark.parametrize(
    ("name", "role", "hosts"),
    [
        ("", "agent", []),
        ("a\nb", "agent", []),
        ("web9", "root", []),
        ("web9", "local", []),
        ("web9", "agent", ["*.example.org"]),
        ("web9", "agent", ["a b"]),
        ("web9", "agent", [""]),
    ],
)
def test_impossible_names_roles_and_hosts_are_refused(authority, name, role, hosts):
    before = authority.issued()
    with pytest.raises(UsageError):
        authority.issue(request(), name, role, hosts)
    assert authority.issued() == before


def foreign_requests():
    """Requests with keys that we do not use, or without proof that the sender has the key."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    for key in (rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1())):
        yield builder.sign(key, SHA256()).public_bytes(serialization.Encoding.PEM)
    own = builder.sign(ec.generate_private_key(ec.SECP256R1()), SHA256())
    der = bytearray(own.public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    broken = x509.load_der_x509_csr(bytes(der))
    yield broken.public_bytes(serialization.Encoding.PEM)
    yield b"x" * (17 << 10)


def test_foreign_requests_are_refused_and_use_no_token_up(authority):
    token = authority.tokens.create("web9", "agent", 60)
    for bad in foreign_requests():
        with pytest.raises(PeerRefusedError):
            new_certificate(authority, token.text, bad, "web9")
    assert new_certificate(authority, token.text, request(), "web9")


def test_a_token_gives_one_certificate_of_its_role(authority):
    token = authority.tokens.create("sd9", "storage", 60, ["10.0.0.9"])
    made = certificate(new_certificate(authority, token.text, request(), "sd9"))
    assert (peer_of(made).name, peer_of(made).role) == ("sd9", "storage")
    assert host_names(made) == ["sd9", "10.0.0.9"]
    with pytest.raises(PeerRefusedError, match="used already"):
        new_certificate(authority, token.text, request(), "sd9")


def test_a_token_is_used_once_whoever_hurries(authority):
    token = authority.tokens.create("", "agent", 60)
    requests = [request() for _ in range(8)]

    def enrol(number):
        try:
            return new_certificate(authority, token.text, requests[number], f"web{number + 10}")
        except PeerRefusedError:
            return None

    with ThreadPoolExecutor(8) as pool:
        given = [pem for pem in pool.map(enrol, range(8)) if pem]
    assert len(given) == 1


def test_an_expired_token_is_refused(authority, wall_clock):
    token = authority.tokens.create("web9", "agent", 60)
    wall_clock(seconds=59)
    assert authority.tokens.look(token.text, "web9")
    wall_clock(seconds=61)
    with pytest.raises(PeerRefusedError, match="expired"):
        new_certificate(authority, token.text, request(), "web9")
    assert authority.tokens.unused() == []
    wall_clock()
    with pytest.raises(PeerRefusedError, match="unknown"):
        new_certificate(authority, token.text, request(), "web9")


def test_a_token_is_good_for_its_name_only(authority):
    token = authority.tokens.create("web9", "agent", 60)
    with pytest.raises(PeerRefusedError, match="the name"):
        new_certificate(authority, token.text, request(), "web8")
    assert new_certificate(authority, token.text, request(), "web9")


def test_a_token_for_any_name_takes_nobodys_name_away(authority):
    token = authority.tokens.create("", "agent", 60)
    for taken in ("web1", "vault"):
        with pytest.raises(PeerRefusedError, match="already"):
            new_certificate(authority, token.text, request(), taken)
    authority.revoke("web1")
    assert new_certificate(authority, token.text, request(), "web1")


@pytest.mark.parametrize("text", ["", "x", "srt1_", "../../root", "srt1_" + "A" * 5000])
def test_what_is_no_token_is_refused(authority, text):
    with pytest.raises(PeerRefusedError, match="unknown"):
        new_certificate(authority, text, request(), "web9")


def test_a_token_is_kept_as_its_hash_only(authority):
    token = authority.tokens.create("web9", "agent", 60)
    secret = token.text.removeprefix("srt1_")
    for folder, _, names in os.walk(authority.folder):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                assert secret.encode() not in path + file.read()
    (found,) = authority.tokens.unused()
    assert found.id == token.id
    assert authority.tokens.withdraw(token.id)
    assert not authority.tokens.withdraw(token.id)
    assert not authority.tokens.withdraw("../root")
    with pytest.raises(PeerRefusedError):
        new_certificate(authority, token.text, request(), "web9")


def test_renewal_keeps_name_role_and_hosts(house):
    old = house.identity("sd9", "storage", "10.0.0.9")
    house.authority.permit_renewal("sd9")
    made = certificate(house.authority.renew(old.certificate_der, request("boss")))
    peer = peer_of(made)
    assert (peer.name, peer.role) == ("sd9", "storage")
    assert peer.serial != old.serial
    assert set(host_names(made)) == {"sd9", "10.0.0.9"}


@pytest.mark.parametrize("fault", ["revoked", "expired", "foreign"])
def test_a_bad_certificate_is_not_renewed(house, wall_clock, tmp_path, fault):
    agent = house.agent
    if fault == "revoked":
        house.authority.revoke("web1")
        authority = Authority(house.authority.folder)
    elif fault == "expired":
        wall_clock(days=31)
        authority = house.authority
    else:
        authority = Authority.create(str(tmp_path / "other"), "other")
    with pytest.raises(PeerRefusedError):
        authority.renew(agent.certificate_der, request())


def revoked_names(authority):
    return {name for _, name in authority.revoked().names}


def test_revocation_is_by_name_and_time(house):
    again = house.identity("web1", "agent")
    later = house.identity("web1", "agent")
    assert house.agent.peer.issued < again.peer.issued < later.peer.issued
    before_ns = again.peer.issued * SECOND_NS
    hit = house.authority.revoke("web1", before_ns)
    assert [entry.serial for entry in hit] == [house.agent.serial]
    trust = house.authority.trust
    trust.judge(again.certificate_der, ["agent"])
    assert [e.serial for e in house.authority.revoke("web1")] == [again.serial, later.serial]
    assert house.authority.revoke("web1") == []
    assert revoked_names(house.authority) == {"web1"}
    with pytest.raises(UsageError, match="on record"):
        house.authority.revoke("nobody")


def test_what_is_issued_after_a_revocation_is_good_at_once(house):
    house.authority.revoke("web1")
    anew = house.identity("web1", "agent")
    Authority(house.authority.folder).trust.judge(anew.certificate_der, ["agent"])
    with pytest.raises(PeerRefusedError, match="revoked"):
        Authority(house.authority.folder).trust.judge(house.agent.certificate_der, ["agent"])


def test_the_list_forgets_what_has_ended(house, wall_clock):
    house.authority.revoke("web1")
    wall_clock(days=826)
    for name in ("web1", "vault"):
        house.identity(name, "storage")
    assert [entry.name for entry in house.authority.revoke("vault")] == ["vault"]
    assert revoked_names(house.authority) == {"vault"}


def test_several_processes_may_change_it_at_once(house):
    def work(number):
        authority = Authority(house.authority.folder)
        authority.issue(request(), f"busy{number}", "agent")
        authority.revoke(f"busy{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(12)))
    busy = [entry.serial for entry in house.authority.issued() if entry.name.startswith("busy")]
    assert len(set(busy)) == 12
    assert revoked_names(house.authority) == {f"busy{number}" for number in range(12)}


def test_secret_files_are_its_owners(authority):
    authority.tokens.create("", "agent", 60)
    open_to_all = set()
    for folder, _, names in os.walk(authority.folder):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        for name in names:
            if os.stat(os.path.join(folder, name)).st_mode & 0o077:
                open_to_all.add(name)
    assert open_to_all == {b"root.pem", b"revoked.pem"}


def test_there_is_one_authority_in_a_folder(authority, tmp_path):
    with pytest.raises(UsageError, match="already"):
        Authority.create(authority.folder, "second")
    with pytest.raises(UsageError, match="ca init"):
        Authority(str(tmp_path / "nowhere"))


def test_a_root_key_with_a_passphrase_opens_with_it_only(tmp_path):
    folder = str(tmp_path / "ca")
    Authority.create(folder, "locked", b"open sesame")
    assert b"ENCRYPTED" in (tmp_path / "ca" / "root.key").read_bytes()
    for wrong in (None, b"", b"sesame"):
        with pytest.raises(WrongKeyError):
            Authority(folder, wrong).issue(request(), "web9", "agent")
    locked = Authority(folder)
    assert not locked.revoked().names
    authority = Authority(folder, b"open sesame")
    identity = authority.issue_identity(str(tmp_path / "web9"), "web9", "agent")
    Trust(authority.certificate_pem).judge(identity.certificate_der, ["agent"])
    assert Identity.load(str(tmp_path / "web9")).name == "web9"


@pytest.mark.parametrize("text", [b"", b"Argon2id 1 2 3\n", b"Argon2id 64 1 1 zz\nx", b"noise"])
def test_a_damaged_root_key_is_reported(tmp_path, text):
    Authority.create(str(tmp_path), "x")
    (tmp_path / "root.key").write_bytes(text)
    with pytest.raises(DamageError, match="damaged"):
        Authority(str(tmp_path), b"x").issue(request(), "web9", "agent")
