"""Identities: what a folder must hold, whom a certificate names, renewal that survives crashes."""

import base64
import contextlib
import os
import ssl
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.connections import PATIENCE_SECONDS, connected
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.identities.certificate_forms import (
    Holder,
    build_certificate,
    requested_key,
    root_certificate,
)
from strongroom.net.identities.identity import (
    Identity,
    certificate_request,
    has_identity,
    new_key,
    store_identity,
    verify_signature,
)
from strongroom.net.identities.peer import (
    ROLES,
    check_name,
    issued_at,
    parse_certificate,
    peer_of,
)
from strongroom.net.identities.revocation_list import parse_list
from strongroom.net.identities.trust import Trust, authority_with_fingerprint, fingerprint, roots_of


@pytest.fixture
def renewed(house):
    """A key and certificate that replace web1's."""
    key_pem = new_key()
    house.authority.permit_renewal("web1")
    certificate_pem = house.authority.renew(
        house.agent.certificate_der, certificate_request(key_pem, "web1")
    )
    return key_pem, certificate_pem


def test_an_identity_says_who_it_is(shared_house):
    agent = Identity.load(os.fsencode(shared_house.folder / "web1"))
    assert (agent.name, agent.role) == ("web1", "agent")
    assert agent.peer == peer_of(parse_certificate(agent.certificate_der))
    lifetime = agent.not_after - datetime.fromtimestamp(clock.now_ns() / 1e9, UTC)
    assert 29 < lifetime.total_seconds() / 86400 <= 30
    assert stat.S_IMODE(os.stat(agent.key_path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(agent.folder).st_mode) == 0o700
    assert has_identity(agent.folder)
    assert not has_identity(shared_house.folder)


def test_its_key_does_not_show_when_it_is_printed(shared_house):
    agent = shared_house.agent
    assert "PRIVATE" not in repr(agent)
    assert agent.key_pem.decode().splitlines()[1] not in repr(agent)


@given(st.binary(max_size=100))
def test_a_signature_fits_its_data_only(shared_house, data):
    certificate = roots_of(shared_house.authority.certificate_pem)[0]
    from cryptography import x509

    own = x509.load_der_x509_certificate(shared_house.agent.certificate_der)
    signature = shared_house.agent.sign(data)
    assert verify_signature(own, signature, data)
    assert not verify_signature(own, signature, data + b"x")
    assert not verify_signature(certificate, signature, data)
    assert not verify_signature(own, b"", data)


def is_accepted(name):
    try:
        return check_name(name)
    except UsageError:
        return False


NAMES = st.text(min_size=1, max_size=127).filter(is_accepted)


@pytest.fixture(scope="module")
def root():
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    return key, root_certificate(key, "root")


@given(name=NAMES, role=st.sampled_from(ROLES))
def test_every_name_comes_back_out_of_its_certificate(root, name, role):
    from datetime import UTC, datetime, timedelta

    from cryptography.hazmat.primitives.hashes import SHA256

    key, certificate = root
    now = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC)
    day = timedelta(days=1)
    made = build_certificate(certificate, key.public_key(), Holder(role, name), day, now)
    peer = peer_of(made.sign(key, SHA256()))
    assert (peer.name, peer.role) == (name, role)
    assert int(peer.serial, 16) > 0


@given(st.binary(max_size=300))
def test_bytes_that_are_no_certificate_are_refused(noise):
    with pytest.raises(PeerRefusedError):
        parse_certificate(noise)


def test_a_negative_serial_number_holds_no_order(shared_house):
    der = bytearray(shared_house.agent.certificate_der)
    serial = x509.load_der_x509_certificate(bytes(der)).serial_number
    der[der.index(serial.to_bytes((serial.bit_length() + 7) // 8))] ^= 0xFF
    changed = parse_certificate(bytes(der))
    assert changed.serial_number.bit_length() == serial.bit_length()
    assert peer_of(changed).issued == int(issued_at(changed).timestamp())


@settings(max_examples=400)
@given(place=st.integers(0, 1 << 20), change=st.integers(1, 255), more=st.binary(max_size=2))
def test_a_changed_certificate_request_or_list_is_refused(shared_house, place, change, more):
    """Whatever the library makes of it: one kind of error comes out, or nothing was changed."""
    trust = Trust(shared_house.authority.certificate_pem)
    der = mutated(shared_house.agent.certificate_der, place, change, more)
    whole = x509.load_der_x509_certificate(shared_house.agent.certificate_der)
    with contextlib.suppress(PeerRefusedError):
        trust.judge(der, ROLES)
        # How many bits of the signature's last byte count is said outside of what is signed.
        signed = x509.load_der_x509_certificate(der).tbs_certificate_bytes
        assert signed == whole.tbs_certificate_bytes
    with contextlib.suppress(PeerRefusedError):
        peer_of(parse_certificate(der))
    request = certificate_request(shared_house.agent.key_pem, "web1")
    changed = mutated_pem(request, "CERTIFICATE REQUEST", place, change, more)
    with contextlib.suppress(PeerRefusedError):
        requested_key(changed)
        signed = x509.load_pem_x509_csr(changed).tbs_certrequest_bytes
        assert signed == x509.load_pem_x509_csr(request).tbs_certrequest_bytes
    revoked = shared_house.authority.revoked_pem()
    changed = mutated_pem(revoked, "X509 CRL", place, change, more)
    with contextlib.suppress(PeerRefusedError):
        parse_list(changed, trust.roots)
        signed = x509.load_pem_x509_crl(changed).tbs_certlist_bytes
        assert signed == x509.load_pem_x509_crl(revoked).tbs_certlist_bytes
    root = mutated_pem(shared_house.authority.certificate_pem, "CERTIFICATE", place, change, more)
    with contextlib.suppress(PeerRefusedError):
        Trust(root).judge(shared_house.agent.certificate_der, ROLES)


def mutated(der, place, change, more):
    place %= len(der)
    return der[:place] + bytes([der[place] ^ change]) + more + der[place + 1 :]


def mutated_pem(pem, title, *mutation):
    lines = pem.decode("ascii").strip().splitlines()
    der = mutated(base64.b64decode("".join(lines[1:-1])), *mutation)
    return ssl.DER_cert_to_PEM_cert(der).replace("CERTIFICATE", title).encode("ascii")


@pytest.mark.parametrize("name", ["", " x", "a\nb", "a\x00", "x" * 128, "\u202e"])
def test_some_names_are_nobodys(name):
    with pytest.raises(UsageError):
        check_name(name)


def test_the_authority_itself_is_no_daemon(shared_house):
    from cryptography.hazmat.primitives.serialization import Encoding

    root = roots_of(shared_house.authority.certificate_pem)[0]
    with pytest.raises(PeerRefusedError):
        Trust(shared_house.authority.certificate_pem).judge(root.public_bytes(Encoding.DER), ROLES)
    with pytest.raises(PeerRefusedError, match="another's"):
        roots_of(shared_house.agent.certificate_pem)
    with pytest.raises(PeerRefusedError, match="damaged"):
        roots_of(b"")


def test_the_authority_is_known_by_its_fingerprint(shared_house):
    pem = shared_house.authority.certificate_pem
    print_ = fingerprint(roots_of(pem)[0])
    spaced = ":".join(print_[at : at + 2] for at in range(0, 64, 2)).upper()
    for text in (print_, spaced):
        assert authority_with_fingerprint(pem, text) == pem
    for text in ("", print_[:-1] + "g", print_[:32]):
        with pytest.raises(PeerRefusedError, match="another director"):
            authority_with_fingerprint(pem, text)
    with pytest.raises(PeerRefusedError):
        authority_with_fingerprint(pem + pem, print_)


@pytest.mark.parametrize("name", ["certificate.pem", "key.pem", "authority.pem"])
@pytest.mark.parametrize("damage", ["gone", "empty", "noise", "another's"])
def test_a_folder_that_is_not_whole_is_refused(house, name, damage):
    path = house.folder / "web1" / name
    if damage == "gone":
        path.unlink()
    elif damage == "another's":
        name = {"authority.pem": "certificate.pem"}.get(name, name)
        path.write_bytes((house.folder / "vault" / name).read_bytes())
    else:
        path.write_bytes(b"" if damage == "empty" else b"noise" * 100)
    with pytest.raises(UsageError):
        Identity.load(str(house.folder / "web1"))


def test_a_key_that_anybody_may_read_is_refused(house):
    os.chmod(house.agent.key_path, 0o604)
    with pytest.raises(UsageError, match="chmod 600"):
        Identity.load(house.agent.folder)


def test_renewal_is_due_when_two_thirds_have_passed(house, wall_clock):
    for days, is_due in ((0, False), (19.9, False), (20.1, True), (40, True)):
        wall_clock(days=days)
        assert house.agent.renewal_due() == is_due


def test_a_renewed_identity_has_another_key_and_the_same_name(house, renewed):
    key_pem, certificate_pem = renewed
    identity = store_identity(
        house.agent.folder, key_pem, certificate_pem, house.agent.authority_pem
    )
    assert identity.peer != house.agent.peer
    assert identity.name == house.agent.name
    assert identity.key_pem == key_pem
    assert (house.folder / "web1" / "key.pem").read_bytes() == key_pem
    assert not (house.folder / "web1" / "key.next.pem").exists()
    house.agent = identity
    with connected(house, "tls") as (_, theirs):
        assert theirs.peer.serial == identity.serial


def test_a_crash_at_any_step_of_a_renewal_leaves_an_identity(house, renewed, monkeypatch):
    class CrashError(Exception):
        pass

    real = os.rename
    steps = 0
    while True:
        count = 0

        def rename(source, target, limit=steps):
            nonlocal count
            if count == limit:
                raise CrashError
            count += 1
            real(source, target)

        monkeypatch.setattr(os, "rename", rename)
        try:
            store_identity(house.agent.folder, *renewed, house.agent.authority_pem)
            break
        except CrashError:
            pass
        finally:
            monkeypatch.setattr(os, "rename", real)
        found = Identity.load(house.agent.folder)
        assert found.certificate_pem in {house.agent.certificate_pem, renewed[1]}
        assert found.sign(b"works")
        steps += 1
    assert steps == 4


def test_an_identity_is_read_while_it_is_renewed(house):
    """A daemon loads it at any moment, and finds the old or the new one, never parts of both."""
    renewing = threading.Event()

    def read():
        count = 0
        while not renewing.is_set():
            identity = Identity.load(house.agent.folder)
            assert identity.sign(b"works")
            client_context(identity)
            count += 1
        return count

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        for _ in range(15):
            house.identity("web1", "agent")
        renewing.set()
        assert reading.result(PATIENCE_SECONDS) > 0


def test_a_certificate_for_another_key_is_not_stored(house, renewed):
    with pytest.raises(UsageError, match="another key"):
        store_identity(house.agent.folder, new_key(), renewed[1], house.agent.authority_pem)
    assert Identity.load(house.agent.folder).serial == house.agent.serial


@given(st.binary(max_size=300))
def test_bytes_that_are_no_request_are_refused(noise):
    with pytest.raises(PeerRefusedError):
        requested_key(noise)
