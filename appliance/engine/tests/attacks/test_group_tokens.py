"""Somebody holds an enrolment token that many hosts share, and wants more than it gives."""

import concurrent.futures
import json

import httpx
import pytest

from kit.director_server import CONFIGURATION, RunningDirector
from strongroom.director.daemon import REFUSED_JOINS
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import OWN_HEADERS
from strongroom.net.identities.identity import certificate_request, new_key, store_identity

GROUPS = """
JobDefs { Name = servers; Job Defs = usual; Client Group = servers; Schedule = nights }
JobDefs { Name = extra; Job Defs = usual; FileSet = data; Client Group = servers, others }
JobDefs { Name = heir; Job Defs = servers }
"""


@pytest.fixture
def director(tmp_path, first_director):
    with RunningDirector(tmp_path, CONFIGURATION + GROUPS, first_director, as_tree=True) as running:
        yield running


@pytest.fixture
def tokens(director):
    return director.house.authority.tokens


def group_token(tokens, uses=5, pattern="web*", group="servers", lifetime=3600):
    return tokens.create("", "agent", lifetime, pattern=pattern, uses=uses, group=group).text


def ask(director, token, name, key=None):
    key = key or new_key()
    body = {"token": token, "csr": certificate_request(key, name).decode(), "name": name}
    with director.client() as nobody:
        return nobody.post("/enrol", json=body)


def configured(director):
    with director.client("admin") as admin:
        items = admin.get("/config").json()["items"]
    return {(one["type"], one["name"]) for one in items if one["type"] in ("Client", "Job")}


def files(director):
    folder = director.configuration_path / "client"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def audited(director):
    with director.client("admin") as admin:
        return admin.get("/audit", params={"limit": 1000}).json()["items"]


def holder(director, key, issued, folder):
    """A connection of the holder of a certificate."""
    identity = store_identity(
        str(folder), key, issued["certificate"].encode(), issued["authority"].encode()
    )
    place = director.url + "/api/v1"
    return httpx.Client(base_url=place, verify=client_context(identity), headers=OWN_HEADERS)


@pytest.mark.parametrize("name", ["nightly-web1", "Nightly-Web1", "localhost", "127.0.0.1"])
def test_a_token_for_any_name_gives_no_name_that_means_something_else(director, tokens, name):
    """Also without a group, where the director writes no resources that could collide."""
    token = tokens.create("", "agent", 3600, pattern="*").text
    assert ask(director, token, name).status_code == 403
    answer = ask(director, token, "web7")
    assert answer.status_code == 201, answer.text


def test_it_makes_new_clients_with_the_jobs_of_the_group_and_no_others(director, tokens):
    answer = ask(director, group_token(tokens), "web7")
    assert answer.status_code == 201, answer.text
    assert answer.json()["jobs"] == ["web7", "web7-extra"]
    assert {("Client", "web7"), ("Job", "web7"), ("Job", "web7-extra")} <= configured(director)
    assert files(director) == ["web7.conf"]
    assert not any(name.startswith("web7-heir") for _, name in configured(director))


@pytest.mark.parametrize("name", ["db7", "WEB7", "xweb7", "web1", "web2", "Web1", "vault", "boss"])
def test_no_other_name_and_no_taken_one_is_given(director, tokens, name):
    before = configured(director)
    token = group_token(tokens, pattern="[wW]eb[12]" if name.lower().startswith("web") else "web*")
    answer = ask(director, token, name)
    assert answer.status_code == 403, answer.text
    assert configured(director) == before
    assert files(director) == []


@pytest.mark.parametrize("name", ["web1", "WEB1", "db1", "nightly-web1", "vault", "boss", "admin"])
def test_a_token_for_every_name_takes_none_of_a_client_a_job_or_a_daemon(director, tokens, name):
    director.identity("admin")
    director.house.identity("vault", "storage")
    before = configured(director)
    assert ask(director, group_token(tokens, pattern="*"), name).status_code == 403
    assert configured(director) == before


def test_a_client_that_is_only_in_the_repository_keeps_its_name(director, tokens):
    # Its certificate has ended, and its Client was removed; its snapshots are there.
    text = director.configuration
    without = "".join(
        line + "\n" for line in text.splitlines() if "db1" not in line or "Name = ann" in line
    )
    director.configure(without)
    with director.client("admin") as admin:
        assert admin.post("/reload").status_code == 200
    answer = ask(director, group_token(tokens, pattern="*"), "db1")
    assert answer.status_code == 403
    assert "was a client" in answer.json()["message"]
    # Nor without a group.
    assert ask(director, tokens.create("", "agent", 60).text, "db1").status_code == 403


@pytest.mark.parametrize(
    "name",
    [
        'web7"; Run Before Job = "id',
        "web7\n}",
        "web7 }",
        "web/../../x",
        "web7/x",
        "web..conf/../a",
        "web\u00fc",
        "web" + "7" * 100,
        "web7 ",
        "web%n",
    ],
)
def test_a_name_says_nothing_but_a_name(director, tokens, name):
    before = configured(director)
    answer = ask(director, group_token(tokens), name)
    assert answer.status_code in (403, 422), answer.text
    assert configured(director) == before
    assert files(director) == []


def test_no_more_than_the_count_whoever_hurries(director, tokens):
    token = group_token(tokens, uses=3)
    names = [f"web{number}" for number in range(20, 30)]
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        codes = list(pool.map(lambda name: ask(director, token, name).status_code, names))
    assert codes.count(201) == 3
    assert set(codes) == {201, 403}
    assert len(files(director)) == 3


def test_two_do_not_get_one_name(director, tokens):
    token = group_token(tokens, uses=9)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(lambda _: ask(director, token, "web7").status_code, range(6)))
    assert codes.count(201) == 1
    # Nor with another token of the same kind.
    assert ask(director, group_token(tokens), "web7").status_code == 403


def test_its_holder_cannot_repeat_what_another_machine_did(director, tokens, tmp_path):
    token, key = group_token(tokens), new_key()
    first = ask(director, token, "web7", key)
    assert first.status_code == 201
    assert ask(director, token, "web7", key).status_code == 201
    refused = ask(director, token, "web7", new_key())
    assert refused.status_code == 403
    assert "another key" in refused.json()["message"]
    # After a revocation not even with the same key.
    director.house.authority.revoke("web7")
    refused = ask(director, token, "web7", key)
    assert refused.status_code == 403
    assert "revoked" in refused.json()["message"]


def test_repeating_ends_soon(director, tokens):
    token, key = group_token(tokens), new_key()
    codes = [ask(director, token, "web7", key).status_code for _ in range(15)]
    assert codes[0] == 201
    assert codes[-1] in (403, 429)


def test_put_keys_go_to_the_holder_of_the_certificate_alone(director, tokens, tmp_path):
    token = group_token(tokens)
    keys = {name: new_key() for name in ("web7", "web8")}
    issued = {name: ask(director, token, name, keys[name]).json() for name in keys}
    assert all("put_keys" not in one for one in issued.values())
    with director.client() as nobody:
        assert nobody.post("/put-keys").status_code == 401
        given = {"authorization": f"Bearer {token}"}
        assert nobody.post("/put-keys", headers=given).status_code == 401
    with director.client("admin") as admin:
        assert admin.post("/put-keys").status_code == 403
    told = {}
    for name, one in issued.items():
        with holder(director, keys[name], one, tmp_path / f"of-{name}") as machine:
            told[name] = machine.post("/put-keys").json()["put_keys"]
            assert (
                machine.post("/put-keys", params={"name": "web1"}).json()["put_keys"] == told[name]
            )
    assert told["web7"] != told["web8"]
    assert all(len(one) == 1 for one in told.values())


def test_a_certificate_that_it_gave_renews_and_manages_nobody_else(director, tokens, tmp_path):
    key = new_key()
    issued = ask(director, group_token(tokens), "web7", key).json()
    director.house.authority.permit_renewal("web7")
    with holder(director, key, issued, tmp_path / "of-web7") as machine:
        csr = certificate_request(new_key(), "web1").decode()
        renewed = machine.post("/renew", json={"csr": csr})
        assert renewed.status_code == 200
        trust = director.house.authority.trust
        assert trust.judge(_der(renewed.json()["certificate"]), ("agent",)).name == "web7"
        for path in ("/clients", "/config", "/status", "/audit", "/tokens"):
            assert machine.get(path).status_code == 403
        assert machine.delete("/clients/web1").status_code == 403


def _der(pem):
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    return x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER)


def test_it_chooses_no_role_and_no_jobs(director, tokens):
    csr = certificate_request(new_key(), "web7").decode()
    body = {"token": group_token(tokens), "csr": csr, "name": "web7"}
    with director.client() as nobody:
        for more in ({"role": "operator"}, {"group": "others"}, {"jobs": ["x"]}, {"hosts": ["x"]}):
            assert nobody.post("/enrol", json=body | more).status_code == 422
    assert files(director) == []


def test_an_expired_and_a_withdrawn_token_give_nothing(director, tokens):
    short = group_token(tokens, lifetime=1e-6)
    made = tokens.create("", "agent", 3600, pattern="web*", uses=5, group="servers")
    assert tokens.withdraw(made.id)
    assert ask(director, made.text, "web7").status_code == 403
    assert "expired" in ask(director, short, "web7").json()["message"]


def test_probing_names_is_limited_and_in_the_audit_log(director, tokens):
    token = group_token(tokens, uses=100, pattern="*")
    codes = [ask(director, token, "web1").status_code for _ in range(REFUSED_JOINS + 3)]
    assert codes == [403] * REFUSED_JOINS + [429] * 3
    refused = [one for one in audited(director) if one["result"] == "peer-refused"]
    assert refused


def test_each_use_is_in_the_audit_log_and_the_secret_nowhere(director, tokens):
    made = tokens.create("", "agent", 3600, pattern="web*", uses=5, group="servers")
    for name in ("web7", "web8"):
        assert ask(director, made.text, name).status_code == 201
    entries = [one for one in audited(director) if one["action"] == "enrol"]
    assert {one["who"] for one in entries} == {"web7", "web8"}
    assert all(made.id in one["object"] and "servers" in one["object"] for one in entries)
    everything = b"".join(
        path.read_bytes() for path in director.folder.rglob("*") if path.is_file()
    )
    assert made.text.encode() not in everything
    assert made.text not in json.dumps(audited(director))


def test_while_the_configuration_on_disk_is_wrong_nobody_joins_and_nothing_is_told(
    director, tokens
):
    token, key = group_token(tokens, uses=1), new_key()
    text = director.configuration
    director.configure(text + 'Job { Name = "a secret job" }')
    answer = ask(director, token, "web7", key)
    assert answer.status_code == 409
    assert "secret" not in answer.text
    assert files(director) == []
    director.configure(text)
    assert ask(director, token, "web7", key).status_code == 201


def test_a_group_that_is_gone_gives_nothing(director, tokens):
    token = group_token(tokens, group="gone")
    assert ask(director, token, "web7").status_code == 403
    assert files(director) == []


def test_whoever_may_not_manage_clients_removes_none(director, tokens):
    assert ask(director, group_token(tokens), "web7").status_code == 201
    with director.client("ann") as ann:
        assert ann.delete("/clients/web7").status_code == 403
    with director.client("admin") as admin:
        # An operator, a daemon and the director itself are not clients.
        director.identity("ann")
        for name in ("ann", "boss"):
            assert admin.delete(f"/clients/{name}").status_code in (403, 404)
        kept = admin.delete("/clients/web1")
        assert kept.status_code == 409
        assert "is not in its own file" in kept.json()["message"]
        assert admin.delete("/clients/web7").status_code == 200
    with director.client("ann") as ann:
        assert ann.get("/status").status_code == 200
    assert files(director) == []
