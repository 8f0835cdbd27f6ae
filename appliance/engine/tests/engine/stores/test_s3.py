"""An object store that refuses, stumbles or is unreachable, and one that keeps no promises."""

import http.client
import http.server
import logging
import socket
import socketserver
import sys
import threading
import time
from contextlib import closing, suppress

import pytest

from kit import object_server
from strongroom.base.errors import MissingPartError, ObjectMissingError, StoreError
from strongroom.engine.content.digests import object_name
from strongroom.engine.stores import s3_client, s3_transport
from strongroom.engine.stores.place import BucketLocation, place_of
from strongroom.engine.stores.s3_client import S3Client
from strongroom.engine.stores.s3_store import S3Store

DATA = b"content"
NAME = object_name(DATA)


class Stumbling:
    """Sits before an object store; `faults` are answered instead of the requests that come."""

    def __init__(self, endpoint):
        self.faults = []
        self.requests = []
        stumbling = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_one_request(self):
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                stumbling.answer(self, endpoint, body)

            def log_message(self, *words):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, handler, endpoint, body):
        self.requests.append(f"{handler.command} {handler.path}")
        fault = self.faults.pop(0) if self.faults else None
        if fault == "cut":
            handler.close_connection = True
            return
        if isinstance(fault, int):
            said = b"<Error><Code>SlowDown</Code><Message>slower</Message></Error>"
            handler.send_response(fault)
            handler.send_header("content-length", str(len(said)))
            handler.end_headers()
            handler.wfile.write(b"" if handler.command == "HEAD" else said)
            return
        status, headers, content = self._passed_on(handler, endpoint, body)
        if fault == "lost":
            handler.close_connection = True
            return
        handler.send_response(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                handler.send_header(name, value)
        length = dict(headers).get("Content-Length", "0") if handler.command == "HEAD" else ""
        handler.send_header("content-length", length or str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    @staticmethod
    def _passed_on(handler, endpoint, body):
        connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=60)
        with closing(connection):
            # The signature covers the name of the host.
            connection.request(handler.command, handler.path, body, dict(handler.headers))
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def stumbling(object_store):
    made = Stumbling(object_store.endpoint)
    yield made
    made.stop()


@pytest.fixture
def store(object_store, stumbling, tmp_path):
    place = place_of(f"s3://strongroom-tests{tmp_path}?endpoint={stumbling.endpoint}")
    made = S3Store(place)
    made.put("index", object_name(b"first"), b"first")
    stumbling.requests.clear()
    yield made
    made.close()


@pytest.mark.parametrize("before", [0, 3])
def test_a_lost_answer_breaks_no_promise(store, stumbling, before):
    """Of the put that creates, and of the one that replaces."""
    stumbling.faults = [None] * before + ["lost"]
    store.prove()
    assert not stumbling.faults


@pytest.mark.parametrize("fault", [500, 503, 429, 502, "cut", "lost"])
def test_what_may_pass_is_waited_for(store, stumbling, fault):
    stumbling.faults = [fault, fault]
    store.put("packs", NAME, DATA)
    stumbling.faults = [fault]
    assert store.get("packs", NAME) == DATA
    stumbling.faults = [fault]
    assert store.info("packs", NAME).size_bytes == len(DATA)
    stumbling.faults = [fault]
    assert [info.name for info in store.list("packs")] == [NAME]
    stumbling.faults = [fault]
    store.delete("packs", NAME)
    assert list(store.list("packs")) == []


def test_a_lease_whose_answer_was_lost_is_ours(store, stumbling):
    stumbling.faults = ["lost"]
    assert store.put_new("leases", "ab" * 16, b"mine")
    stumbling.faults = ["lost"]
    store.replace("leases", "ab" * 16, b"renewed")
    store.replace("leases", "ab" * 16, b"renewed again")
    assert store.get("leases", "ab" * 16) == b"renewed again"


def test_a_lease_that_somebody_else_took_meanwhile_is_theirs(store, stumbling):
    other = store.reopen()
    assert other.put_new("leases", "ab" * 16, b"theirs")
    stumbling.faults = ["cut"]
    assert not store.put_new("leases", "ab" * 16, b"mine")
    store.replace("leases", "ab" * 16, b"changed")
    with pytest.raises(ObjectMissingError):
        other.replace("leases", "ab" * 16, b"late")
    other.delete("leases", "ab" * 16)
    with pytest.raises(ObjectMissingError):
        store.replace("leases", "ab" * 16, b"of what is gone")
    assert list(store.list("leases")) == []
    other.close()


def test_a_store_that_stays_away_ends_the_job_with_what_to_do(store, stumbling, monkeypatch):
    monkeypatch.setattr(s3_client, "PATIENCE_SECONDS", 1.0)
    stumbling.faults = [503] * 100
    with pytest.raises(StoreError, match="again"):
        store.get("index", NAME)


def test_a_place_that_never_answered_is_given_up_soon(monkeypatch):
    monkeypatch.setattr(s3_client, "FIRST_PATIENCE_SECONDS", 0.5)
    with pytest.raises(StoreError, match="no answer"):
        S3Store(place_of("s3://bucket/x?endpoint=http://127.0.0.1:9")).get("config", "config")


def test_a_pause_that_the_store_asks_for_is_made(store, stumbling, monkeypatch):
    paused = []
    monkeypatch.setattr(time, "sleep", paused.append)
    stumbling.faults = [503] * 6
    store.put("packs", NAME, DATA)
    assert len(paused) == 6
    assert all(0.1 <= seconds <= 20 for seconds in paused)


class Raw:
    """A server that answers each request by a function that gets the connection."""

    def __init__(self, answer):
        self.heads = []
        raw = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self):
                while raw.is_open:
                    lines = []
                    while (line := self.rfile.readline().strip()) or not lines:
                        if not line:
                            return
                        lines.append(line.decode().lower())
                    raw.heads.append(lines)
                    length = [one for one in lines if one.startswith("content-length:")]
                    size = int(length[0].partition(":")[2]) if length else 0
                    with suppress(OSError):
                        answer(self, size)

        self.is_open = True
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.place = place_of(f"s3://bucket/a?endpoint=http://127.0.0.1:{self.port}")

    @property
    def port(self):
        return self._server.server_address[1]

    def stop(self):
        self.is_open = False
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def raw(monkeypatch):
    for name, value in object_server.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    made = []

    def make(answer):
        made.append(Raw(answer))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def drip(handler, text):
    for letter in text:
        handler.wfile.write(bytes((letter,)))
        time.sleep(0.05)


@pytest.mark.parametrize("part", ["head", "content", "list"])
def test_an_answer_that_comes_byte_by_byte_ends_as_one_that_does_not_come(raw, monkeypatch, part):
    monkeypatch.setattr(s3_client, "FIRST_PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(s3_client, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(s3_transport, "GRACE_SECONDS", 0.5)

    def answer(handler, _):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"
        if part == "head":
            drip(handler, b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 1000)
        handler.wfile.write(head)
        drip(handler, b"<" * 1000)

    store = S3Store(raw(answer).place)
    began = time.monotonic()
    with pytest.raises(StoreError, match="no answer"):
        store.get("index", NAME) if part != "list" else list(store.list("index"))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("status", [200, 400])
def test_a_list_or_an_error_without_end_is_refused(raw, monkeypatch, status):
    monkeypatch.setattr(s3_transport, "MOST_ANSWER_BYTES", 1 << 20)
    sent = []

    def answer(handler, _):
        handler.wfile.write(b"HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n" % status)
        for _ in range(4096):
            handler.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
            sent.append(65536)

    store = S3Store(raw(answer).place)
    with pytest.raises(StoreError, match="1048576 bytes"):
        list(store.list("index"))
    assert sum(sent) < 64 << 20


def test_more_than_the_part_that_was_asked_for_is_refused(raw):
    def answer(handler, _):
        handler.wfile.write(b"HTTP/1.1 206 X\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            handler.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")

    with pytest.raises(StoreError, match=" 10 bytes"):
        S3Store(raw(answer).place).get("packs", NAME, 5, 10)


@pytest.mark.parametrize("length", [None, 10])
def test_an_object_whose_connection_is_cut_is_asked_for_again(raw, length):
    cut = [True, True]

    def answer(handler, _):
        handler.wfile.write(b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\n01234")
        if cut:
            cut.pop()
            raise OSError
        handler.wfile.write(b"56789")

    def answer_and_close(handler, size):
        try:
            answer(handler, size)
        except OSError:
            handler.connection.shutdown(socket.SHUT_RDWR)

    store = S3Store(raw(answer_and_close).place)
    assert store.get("packs", NAME, 0, length) == b"0123456789"
    assert not cut


def test_a_slow_line_is_no_failure(raw, monkeypatch):
    """What takes longer in all than the time for connecting, with never a long pause."""
    monkeypatch.setattr(s3_transport, "CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(s3_transport, "SILENCE_SECONDS", 5.0)
    data = b"x" * (24 << 20)

    def answer(handler, size):
        while size:
            size -= len(handler.rfile.read(min(size, 1 << 20)))
            time.sleep(0.3)
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nETag: "a"\r\nContent-Length: 0\r\n\r\n')

    server = raw(answer)
    assert S3Store(server.place).put_new("packs", NAME, data)
    assert len(server.heads) == 1


def test_the_time_that_a_store_asks_for_is_waited(raw, monkeypatch):
    paused = []
    monkeypatch.setattr(time, "sleep", paused.append)
    answers = [b"HTTP/1.1 503 Slow Down\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"] * 2
    answers.append(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    store = S3Store(raw(lambda handler, _: handler.wfile.write(answers.pop(0))).place)
    assert store.get("index", NAME) == b"ok"
    assert paused == [7, 7]


def test_keys_that_have_expired_are_read_again_from_their_file(raw, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))

    def write(key):
        file.write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key=s\n")

    write("oldkey")
    said = b"<Error><Code>ExpiredToken</Code></Error>"

    def answer(handler, _):
        used = " ".join(line for line in server.heads[-1] if line.startswith("authorization"))
        if "oldkey" in used:
            write("newkey")
            head = b"HTTP/1.1 400 X\r\nContent-Length: %d\r\n\r\n" % len(said)
            handler.wfile.write(head + said)
        else:
            assert "newkey" in used
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    server = raw(answer)
    assert S3Store(server.place).get("index", NAME) == b"ok"
    assert len(server.heads) == 2


def test_a_wrong_secret_says_so_at_once_and_is_not_shown(object_store, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    with pytest.raises(StoreError, match="secret access key") as refused:
        S3Store(object_store.place()).put("packs", NAME, DATA)
    for text in (str(refused.value), caplog.text):
        assert "another-secret" not in text
        assert "Signature=" not in text


def test_no_access_key_says_where_one_belongs(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(StoreError, match="AWS_ACCESS_KEY_ID"):
        S3Store(place_of("s3://bucket/x?endpoint=http://127.0.0.1:9")).get("config", "config")


def test_keys_of_a_role_without_the_library_name_the_extra(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(MissingPartError, match=r"\[s3\]"):
        S3Store(place_of("s3://bucket/x")).get("config", "config")


def test_a_store_that_keeps_its_promises_passes(object_store, tmp_path):
    store = S3Store(object_store.place(str(tmp_path).strip("/")))
    store.prepare()
    client = S3Client(object_store.place())
    assert client.part_of_list(str(tmp_path).strip("/"), "")[0] == []


def test_a_store_that_ignores_conditions_is_refused(tmp_path, monkeypatch):
    for name, value in object_server.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for server in object_server.rclone(tmp_path):
        with pytest.raises(StoreError, match="If-None-Match"):
            S3Store(server.place()).prepare()


def test_files_of_others_in_the_bucket_are_no_objects(object_store, tmp_path):
    place = object_store.place(str(tmp_path).strip("/"))
    client = S3Client(place)
    for key in ("config-old", "packs/README", "packs/ab/cd", "index/a/b", f"packs/00/{NAME}"):
        client.put(f"{place.prefix}/{key}", b"x")
    store = S3Store(place)
    assert list(store.list("config")) == []
    assert list(store.list("packs")) == []
    assert list(store.list("index")) == []


def test_a_list_of_several_parts_is_whole(object_store, tmp_path):
    store = S3Store(object_store.place(str(tmp_path).strip("/")))
    names = {f"{number:032x}" for number in range(1010)}
    for name in names:
        store.put_new("leases", name, b"")
    assert {info.name for info in store.list("leases")} == names


@pytest.mark.parametrize(
    "answers",
    [
        [([], True, "")],
        [([], True, "same")] * 3,
    ],
)
def test_a_list_that_does_not_go_on_is_not_taken_for_the_whole(monkeypatch, answers):
    """A prune that sees half of the snapshots would remove what the others need."""
    client = S3Client(place_of("s3://bucket/a?endpoint=http://127.0.0.1:9"))
    left = list(answers)
    monkeypatch.setattr(client, "ask", lambda *_: left.pop(0))
    with pytest.raises(StoreError, match="part of"):
        S3Store(client._place, client).list("snapshots")  # noqa: SLF001


def test_uploads_of_other_programs_go_on(monkeypatch):
    client = S3Client(place_of("s3://bucket?endpoint=http://127.0.0.1:9"))
    keys = [f"packs/{NAME[:2]}/{NAME}", "films/large.iso", "packs/large.iso", "config-of-web"]
    removed = []
    monkeypatch.setattr(client, "begun_uploads", lambda _: [(key, "id", 0) for key in keys])
    monkeypatch.setattr(client, "abort_upload", lambda key, _: removed.append(key))
    assert S3Store(client._place, client).remove_abandoned() == 1  # noqa: SLF001
    assert removed == keys[:1]


@pytest.mark.parametrize(
    ("text", "endpoint", "bucket", "prefix", "region"),
    [
        ("s3://bucket", "", "bucket", "", ""),
        ("s3://bucket/a/b/", "", "bucket", "a/b", ""),
        ("s3://bucket/a?region=eu-central-1", "", "bucket", "a", "eu-central-1"),
        ("s3://bucket?endpoint=http://host:9000", "http://host:9000", "bucket", "", ""),
        ("s3:s3.amazonaws.com/bucket/a", "https://s3.amazonaws.com", "bucket", "a", ""),
        ("s3:http://host:9000/bucket", "http://host:9000", "bucket", "", ""),
    ],
)
def test_places(text, endpoint, bucket, prefix, region):
    assert place_of(text) == BucketLocation(text, bucket, prefix, endpoint, region)
