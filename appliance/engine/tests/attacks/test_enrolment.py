"""Somebody at a joining machine's address guesses tokens; and a storage daemon says that it is the
director."""

import contextlib
import http.server
import json
import threading

import pytest

from strongroom.agent.enrolment import enrol
from strongroom.base.errors import DirectorError, PeerRefusedError
from strongroom.director.daemon import WRONG_ENROLMENTS
from strongroom.net.channels.tls_contexts import server_context
from strongroom.net.identities.identity import certificate_request, new_key


def question(name, token):
    return {
        "token": token,
        "csr": certificate_request(new_key(), name).decode(),
        "name": name,
    }


def test_wrong_tokens_keep_no_good_one_of_their_address_out(asked_director):
    tokens = asked_director.house.authority.tokens
    wrong = question("web3", "srt1_" + "A" * 43)
    with asked_director.client() as nobody:
        for number in range(4):
            answers = [nobody.post("/enrol", json=wrong) for _ in range(WRONG_ENROLMENTS + 3)]
            assert {one.status_code for one in answers} <= {403, 429}
            name = f"web{number + 10}"
            good = question(name, tokens.create(name, "agent", 3600).text)
            assert nobody.post("/enrol", json=good).status_code == 201
        # What is beyond the limit is refused all the same, and fills no audit log.
        assert nobody.post("/enrol", json=wrong).status_code == 429
    with asked_director.client("admin") as admin:
        found = admin.get("/audit", params={"limit": 1000}).json()["items"]
    refused = [one for one in found if (one["action"], one["result"]) == ("enrol", "peer-refused")]
    assert len(refused) == WRONG_ENROLMENTS


def test_a_flood_of_wrong_tokens_keeps_no_good_one_waiting(asked_director):
    tokens = asked_director.house.authority.tokens
    wrong = question("web3", "srt1_" + "A" * 43)
    is_over = threading.Event()

    def flood():
        with asked_director.client() as nobody:
            while not is_over.is_set():
                nobody.post("/enrol", json=wrong)

    guessing = [threading.Thread(target=flood) for _ in range(16)]
    for one in guessing:
        one.start()
    try:
        with asked_director.client() as nobody:
            for number in range(5):
                name = f"web{number + 10}"
                good = question(name, tokens.create(name, "agent", 3600).text)
                assert nobody.post("/enrol", json=good, timeout=10).status_code == 201
    finally:
        is_over.set()
        for one in guessing:
            one.join()


class Impostor:
    """Answers the requests of a machine that enrols, with whatever certificate."""

    def __init__(self, house, identity, says_that_it_is):
        self.told = []
        impostor = self

        class Answering(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                pem = house.authority.certificate_pem.decode()
                self.answer({"authority": pem, "fingerprint": "", "revoked": ""})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                impostor.told.append(body["token"])
                pem = house.authority.issue(
                    body["csr"].encode(), body["name"], "agent", ()
                ).decode()
                said = {"certificate": pem, "director": says_that_it_is}
                self.answer({**said, "authority": "", "revoked": ""})

            def answer(self, said):
                data = json.dumps(said).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        class Listening(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # its peer has gone away, as it should

        self.server = Listening(("127.0.0.1", 0), Answering)
        context = server_context(identity, require_certificate=False)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    @contextlib.contextmanager
    def running(self):
        thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"https://localhost:{self.server.server_port}"
        finally:
            self.server.shutdown()
            thread.join()
            self.server.server_close()


@pytest.mark.parametrize(
    ("role", "name", "says", "meant", "is_told"),
    [
        ("storage", "boss", "boss", (), False),
        ("storage", "vault", "boss", ("boss",), False),
        ("director", "other", "boss", ("boss",), False),
        ("director", "other", "other", ("boss", "chief"), False),
        ("director", "other", "boss", (), True),
    ],
)
def test_a_machine_joins_nobody_but_the_director_that_it_meant(
    first_director, tmp_path, role, name, says, meant, is_told
):
    house = first_director.house
    folder = str(tmp_path / "impostor")
    identity = house.authority.issue_identity(folder, name, role, ("localhost",))
    impostor = Impostor(house, identity, says)
    with impostor.running() as url, pytest.raises(PeerRefusedError):
        enrol(url, "web3", "secret", house.authority.fingerprint, str(tmp_path / "into"), meant)
    assert bool(impostor.told) is is_told
    assert not (tmp_path / "into").exists()


def test_a_director_of_another_host_is_not_joined(first_director, tmp_path):
    house = first_director.house
    identity = house.authority.issue_identity(
        str(tmp_path / "impostor"), "boss", "director", ("elsewhere.example",)
    )
    impostor = Impostor(house, identity, "boss")
    with impostor.running() as url, pytest.raises(DirectorError):
        enrol(url, "web3", "secret", house.authority.fingerprint, str(tmp_path / "into"))
    assert not impostor.told


def test_the_director_that_was_meant_is_joined(asked_director, tmp_path):
    for number, meant in enumerate(((), ("boss",), ("chief", "boss"))):
        name = f"web{number + 10}"
        token = asked_director.house.authority.tokens.create(name, "agent", 3600).text
        fingerprint = asked_director.house.authority.fingerprint
        into = str(tmp_path / name)
        identity, director = enrol(asked_director.url, name, token, fingerprint, into, meant)
        assert (identity.name, director) == (name, "boss")
