"""Audit, reload, configuration, enrolment and renewal through the API."""

import tempfile

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from prometheus_client.parser import text_string_to_metric_families

from strongroom.base.errors import PeerRefusedError
from strongroom.director.daemon import WRONG_ENROLMENTS
from strongroom.engine.repository.keys.files import export_key, import_key
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import OWN_HEADERS
from strongroom.net.identities.identity import certificate_request, new_key, store_identity
from strongroom.net.identities.peer import peer_of


def audited(api, **query):
    found = api.get("/audit", params=query).json()["items"]
    return [(one["who"], one["action"], one["result"]) for one in found]


def test_every_change_and_every_denial_is_in_the_audit_log(own_director, admin):
    made = admin.post("/runs", json={"job": "nightly-web1"}).json()
    admin.post(f"/runs/{made['id']}/cancel")
    admin.post(f"/runs/{made['id']}/cancel")
    token = admin.post("/tokens", json={"name": "ann"}).json()["token"]["id"]
    admin.delete(f"/tokens/{token}")
    admin.post("/reload")
    with own_director.client("ann") as ann, own_director.client("web1", "agent") as agent:
        ann.get("/audit")
        agent.get("/status")
    found = audited(admin)
    assert found[0] == ("web1", "denied", "not-permitted")
    assert found[1] == ("ann", "denied", "not-permitted")
    by_admin = [(action, result) for who, action, result in found if who == "admin"]
    assert by_admin[0] == ("reload", "done")
    assert ("run", "done") in by_admin
    assert ("cancel", "done") in by_admin
    assert ("cancel", "conflict") in by_admin
    assert audited(admin, who="ann") == [("ann", "denied", "not-permitted")]
    page = admin.get("/audit", params={"limit": 2}).json()
    following = admin.get("/audit", params={"limit": 2, "after": page["next"]}).json()
    ids = [one["id"] for one in page["items"] + following["items"]]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == 4
    denied = admin.get("/audit", params={"who": "ann"}).json()["items"][0]
    assert denied["object"] == "GET /api/v1/audit"
    assert denied["address"] == "127.0.0.1"


def test_a_reload_with_errors_names_them_and_changes_nothing(own_director, admin):
    good = own_director.configuration
    own_director.configure(good.replace("Job Defs = usual; Client = web2", "Client = nobody"))
    answer = admin.post("/reload")
    assert answer.status_code == 409
    assert answer.json()["error_id"] == "configuration"
    assert "nobody" in answer.json()["message"]
    assert admin.get("/jobs").json()["items"][-1]["client"] == "web2"
    own_director.configure(good.replace("nightly-web2", "nightly-two"))
    own_director.reload()
    own_director.wait_for(
        lambda: "nightly-two" in {one["name"] for one in admin.get("/jobs").json()["items"]}
    )


def test_the_configuration_is_shown_without_secrets(admin):
    answer = admin.get("/config")
    kinds = {one["type"] for one in answer.json()["items"]}
    assert {"Job", "Console", "Catalog", "Profile"} <= kinds
    job = admin.get("/config/job/nightly-web1").json()
    assert job["directives"]["Client"]["value"] == "web1"
    console = admin.get("/config/Console/ann").json()
    assert console["directives"]["Password"]["value"] == "***"
    catalog = admin.get("/config/Catalog/main").json()
    assert "x" not in {
        one["value"] for name, one in catalog["directives"].items() if "Pass" in name
    }


def test_of_the_configuration_one_sees_what_one_may_use(own_director, admin):
    own_director.configure(
        own_director.configuration.replace(
            "Command ACL = estimate, token", "Command ACL = estimate, token, config"
        )
    )
    assert admin.post("/reload").status_code == 200
    with own_director.client("ann") as ann:
        found = {(one["type"], one["name"]) for one in ann.get("/config").json()["items"]}
        assert found == {
            ("Client", "web1"), ("Client", "web2"), ("Job", "nightly-web1"),
            ("Job", "nightly-web2"), ("FileSet", "all"), ("Pool", "short"), ("Storage", "vault"),
        }  # fmt: skip
        assert ann.get("/config/Console/admin").status_code == 404
        assert ann.get("/config/job/nightly-db1").status_code == 404


def request(name="web3"):
    key = new_key()
    return key, certificate_request(key, name).decode()


def test_an_agent_enrols_once_with_its_token_and_renews_with_its_certificate(own_director, admin):
    authority = own_director.house.authority
    token = authority.tokens.create("web3", "agent", 3600).text
    _, csr = request()
    body = {"token": token, "csr": csr, "name": "web3"}
    with own_director.client() as nobody:
        told = nobody.get("/authority").json()
        assert told["fingerprint"] == authority.fingerprint
        answer = nobody.post("/enrol", json=body)
        assert answer.status_code == 201, answer.text
        enrolled = answer.json()
        peer = peer_of(x509.load_pem_x509_certificate(enrolled["certificate"].encode()))
        assert (peer.name, peer.role) == ("web3", "agent")
        assert enrolled["director"] == "boss"
        appliance = import_key((own_director.folder / "appliance.key").read_text())
        put_key = appliance.put_key("web3")
        assert "put_keys" not in enrolled
        assert peer.client_of(appliance.repository_id) == put_key.client_id
        # With the same key it may be repeated, with another one not.
        assert nobody.post("/enrol", json=body).status_code == 201
        other = {**body, "csr": request()[1]}
        assert nobody.post("/enrol", json=other).status_code == 403
        assert nobody.post("/put-keys").status_code == 401
        assert nobody.post("/renew", json={"csr": csr}).status_code == 401
    assert ("web3", "enrol", "done") in audited(admin, who="web3")
    with own_director.client("web1", "agent") as agent:
        answer = agent.post("/renew", json={"csr": request()[1]})
        assert answer.status_code == 403
        assert answer.json()["error_id"] == "peer-refused"
        authority.permit_renewal("web1")
        answer = agent.post("/renew", json={"csr": request("somebody-else")[1]})
        assert answer.status_code == 200, answer.text
        peer = peer_of(x509.load_pem_x509_certificate(answer.json()["certificate"].encode()))
        assert (peer.name, peer.role) == ("web1", "agent")
        put_key = appliance.put_key("web1")
        assert answer.json()["put_keys"] == [export_key(put_key)]
        assert peer.client_of(appliance.repository_id) == put_key.client_id
        assert agent.post("/put-keys").status_code == 403
        assert agent.post("/renew", json={"csr": "no request" * 10}).status_code in (403, 422)
        assert admin.get("/clients/web1").json()["certificate_serial"] == peer.serial


def enrolled(director, name, **options):
    """What an agent gets that enrols; its identity."""
    token = director.house.authority.tokens.create(name, "agent", 3600, **options).text
    key, csr = request(name)
    with director.client() as nobody:
        answer = nobody.post("/enrol", json={"token": token, "csr": csr, "name": name})
    assert answer.status_code == 201, answer.text
    return key, answer.json()


def put_keys(director, key, issued):
    """The put keys that the holder of a certificate gets; None where they are refused."""
    with tempfile.TemporaryDirectory() as folder:
        authority = issued["authority"].encode()
        identity = store_identity(folder, key, issued["certificate"].encode(), authority)
        context = client_context(identity)
    place = director.url + "/api/v1"
    with httpx.Client(base_url=place, verify=context, headers=OWN_HEADERS) as holder:
        try:
            answer = holder.post("/put-keys")
        except httpx.TransportError:
            return None
    return answer.json()["put_keys"] if answer.status_code == 200 else None


def client_ids(director, certificate):
    peer = peer_of(x509.load_pem_x509_certificate(certificate.encode()))
    appliance = import_key((director.folder / "appliance.key").read_text())
    return peer.client_of(appliance.repository_id)


def test_enrolling_again_gives_the_same_client_and_after_a_compromise_another(own_director):
    first_key, first = enrolled(own_director, "web7")
    old_key, again = enrolled(own_director, "web7")
    assert put_keys(own_director, first_key, first) == put_keys(own_director, old_key, again)
    new_key_pem, new = enrolled(own_director, "web7", new_client=True)
    # The old certificate is revoked.
    assert put_keys(own_director, old_key, again) is None
    ids = [client_ids(own_director, one["certificate"]) for one in (first, again, new)]
    assert ids[0] == ids[1] != ids[2]
    (new_put_key,) = put_keys(own_director, new_key_pem, new)
    assert import_key(new_put_key).generation == 1
    # Anyone who stole the old certificate does not become the new client by renewing it.
    authority = own_director.house.authority
    serial = {one.serial for one in authority.issued() if one.name == "web7"}
    assert len(serial) >= 1
    der = x509.load_pem_x509_certificate(again["certificate"].encode()).public_bytes(Encoding.DER)
    with pytest.raises(PeerRefusedError, match="revoked"):
        authority.renew(der, certificate_request(old_key, "web7"))
    # It stays the new one.
    later_key, later = enrolled(own_director, "web7")
    assert put_keys(own_director, later_key, later) == [new_put_key]


def test_no_agent_enrols_under_the_name_of_the_director(own_director):
    token = own_director.house.authority.tokens.create("boss", "agent", 3600).text
    body = {"token": token, "csr": request("boss")[1], "name": "boss"}
    with own_director.client() as nobody:
        answer = nobody.post("/enrol", json=body)
    assert answer.status_code == 403
    assert "this director" in answer.json()["message"]


def test_a_token_for_one_name_enrols_no_other(own_director):
    token = own_director.house.authority.tokens.create("web3", "agent", 3600).text
    with own_director.client() as nobody:
        body = {"token": token, "csr": request("web4")[1], "name": "web4"}
        assert nobody.post("/enrol", json=body).status_code == 403
        body = {"token": token, "csr": request("web3")[1], "name": "web3"}
        assert nobody.post("/enrol", json=body).status_code == 201


def test_guessing_enrolment_tokens_ends_soon(own_director, admin):
    body = {"token": "srt1_guessed", "csr": request()[1], "name": "web3"}
    with own_director.client() as nobody:
        answers = [nobody.post("/enrol", json=body) for _ in range(WRONG_ENROLMENTS + 2)]
    assert [one.status_code for one in answers] == [403] * WRONG_ENROLMENTS + [429] * 2
    assert answers[-1].json()["error_id"] == "too-many-attempts"
    assert audited(admin, who="web3")[0] == ("web3", "enrol", "peer-refused")


def test_a_director_without_an_authority_says_so(tmp_path, director):
    from kit.director_server import CONFIGURATION, RunningDirector

    without = CONFIGURATION.replace('Authority Directory = "FOLDER/ca"', "")
    with RunningDirector(tmp_path, without, like=director) as running, running.client() as nobody:
        answer = nobody.get("/authority")
        assert answer.status_code == 404
        assert "certificate authority" in answer.json()["message"]


def test_a_renewed_certificate_of_the_director_is_shown_to_new_connections(own_director):
    before = own_director.house.director.serial
    renewed = own_director.house.identity("boss", "director", "localhost", "127.0.0.1")
    assert renewed.serial != before
    own_director.reload()

    def shown():
        with own_director.client("admin") as api, api.stream("GET", "/me") as answer:
            socket = answer.extensions["network_stream"].get_extra_info("ssl_object")
            found = x509.load_der_x509_certificate(socket.getpeercert(True))
            return f"{found.serial_number:x}"

    own_director.wait_for(lambda: shown() == renewed.serial)


def expiring(api, director):
    """What ends, as the caller sees it in the status and in the figures."""
    status = {(one["kind"], one["name"]) for one in api.get("/status").json()["expiries"]}
    figures = api.get(director.url + "/metrics")
    if figures.status_code != 200:
        return status, None
    families = text_string_to_metric_families(figures.text)
    found = next(one for one in families if one.name == "strongroom_expiry_timestamp_seconds")
    return status, {(one.labels["kind"], one.labels["name"]) for one in found.samples}


def test_everything_that_ends_is_shown_to_who_may_see_it(own_director, admin):
    for name, role in (("web1", "agent"), ("db1", "agent"), ("vault", "storage")):
        own_director.identity(name, role)
    with own_director.client("ann") as ann:
        ann.post("/tokens", json={"name": "ann"})
        admin.post("/tokens", json={"name": "admin", "lifetime_seconds": 86400})
        status, figures = expiring(admin, own_director)
        assert status == figures
        assert {kind for kind, _ in status} == {
            "authority", "director", "storage", "agent", "operator", "token",
        }  # fmt: skip
        assert {("agent", "db1"), ("operator", "admin"), ("token", "admin")} < status
        hers, _ = expiring(ann, own_director)
        assert {("agent", "web1"), ("operator", "ann"), ("storage", "vault")} < hers
        assert not hers & {("agent", "db1"), ("operator", "admin"), ("token", "admin")}


def test_what_was_revoked_or_replaced_does_not_end(own_director, admin):
    own_director.identity("web1", "agent")
    first = next(one for one in admin.get("/status").json()["expiries"] if one["name"] == "web1")
    own_director.house.authority.issue_identity(str(own_director.folder / "web1"), "web1", "agent")
    ends = [one for one in admin.get("/status").json()["expiries"] if one["name"] == "web1"]
    assert [one["ends"] >= first["ends"] for one in ends] == [True]
    own_director.house.authority.revoke("web1")
    assert ("agent", "web1") not in expiring(admin, own_director)[0]
