"""Anyone who holds an agent's key renews its certificate again and again."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kit.connections import House
from strongroom.base import clock
from strongroom.base.errors import PeerRefusedError
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import certificate_request, new_key

DAY = 86400


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


@pytest.fixture
def wait(monkeypatch):
    """Moves our wall clock on: `wait(seconds)`."""
    real, passed = clock.now_ns, [0]
    monkeypatch.setattr(clock, "now_ns", lambda: real() + passed[0] * 10**9)

    def move(seconds):
        passed[0] += seconds

    return move


def renewed(house, certificate):
    """The successor of a certificate, both DER."""
    request = certificate_request(new_key(), "x")
    pem = house.authority.renew(certificate, request)
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def is_good(house, certificate):
    try:
        house.storage.trust.judge(certificate, ["agent"])
    except PeerRefusedError:
        return False
    return True


def records(house):
    return [entry for entry in house.authority.issued() if entry.name == "web1"]


def test_a_certificate_is_not_renewed_before_it_is_due(house, wait):
    certificate = house.agent.certificate_der
    for seconds in (0, 19 * DAY):
        wait(seconds)
        for _ in range(20):
            with pytest.raises(PeerRefusedError, match=" due "):
                renewed(house, certificate)
    assert len(records(house)) == 1
    wait(2 * DAY)
    successor = renewed(house, certificate)
    assert is_good(house, successor)
    # Nor is the successor due because the one before it was.
    with pytest.raises(PeerRefusedError, match=" due "):
        renewed(house, successor)


def test_a_certificate_has_one_living_successor_and_the_list_stays_small(house, wait):
    wait(21 * DAY)
    certificate = house.agent.certificate_der
    gathered = []
    refused = 0
    for _ in range(300):
        try:
            gathered.append(renewed(house, certificate))
        except PeerRefusedError:
            refused += 1
        wait(10)
    assert len(gathered) > 10
    assert refused > 4 * len(gathered)
    assert [is_good(house, one) for one in gathered] == [False] * (len(gathered) - 1) + [True]
    assert is_good(house, certificate)
    assert len(records(house)) == 2
    assert len(house.authority.revoked().names) == 1
    assert len(house.authority.revoked_pem()) < 1000
    # The next generation, and anyone who still has what was replaced before.
    wait(22 * DAY)
    last = renewed(house, gathered[-1])
    wait(70)
    last_of_all = renewed(house, gathered[-1])
    assert is_good(house, last_of_all)
    assert is_good(house, gathered[-1])
    assert not any(is_good(house, one) for one in (*gathered[:-1], last))
    house.authority.revoke("web1")
    everything = (certificate, *gathered, last, last_of_all)
    assert not any(is_good(house, one) for one in everything)


def test_the_successor_in_use_is_not_replaced_later(house, wait):
    wait(21 * DAY)
    successor = renewed(house, house.agent.certificate_der)
    wait(2 * DAY)
    with pytest.raises(PeerRefusedError, match="renewed already"):
        renewed(house, house.agent.certificate_der)
    assert is_good(house, successor)


def test_an_old_certificate_is_not_renewed_beside_a_newer_one(house, wait):
    wait(21 * DAY)
    anew = house.identity("web1", "agent")
    with pytest.raises(PeerRefusedError, match="newer"):
        renewed(house, house.agent.certificate_der)
    assert is_good(house, anew.certificate_der)


def test_somebody_at_the_appliance_permits_one_renewal_before_it_is_due(house, wait):
    house.authority.permit_renewal("web1")
    assert is_good(house, renewed(house, house.agent.certificate_der))
    with pytest.raises(PeerRefusedError, match="not due"):
        renewed(house, house.agent.certificate_der)


def test_what_was_revoked_is_not_renewed_however_fresh_the_revocation_is(house, wait):
    wait(21 * DAY)
    other_process = Authority(house.authority.folder)
    assert house.authority.trust.revocations.fault == ""
    other_process.revoke("web1")
    with pytest.raises(PeerRefusedError, match="revoked"):
        renewed(house, house.agent.certificate_der)
