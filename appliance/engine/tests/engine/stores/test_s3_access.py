"""Where keys, region and endpoint come from; how requests are signed, and who gets them."""

import datetime as dt
import os
import ssl
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.session import Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from strongroom.base import clock
from strongroom.base.errors import StoreError
from strongroom.engine.stores import s3_client
from strongroom.engine.stores.place import place_of
from strongroom.engine.stores.s3_access import Access
from strongroom.engine.stores.s3_answers import document
from strongroom.engine.stores.s3_client import S3Client
from strongroom.engine.stores.s3_signing import AccessKeys, quoted_key, quoted_query, signed

KEYS = AccessKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """A home without any setting of Amazon's programs."""
    for name in os.environ:
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / ".aws").mkdir()
    return monkeypatch


def write(tmp_path, name, text):
    (tmp_path / ".aws" / name).write_text(text)


def without_botocore(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore", None)


def test_the_signature_of_amazons_example(monkeypatch):
    """From "Signature calculations for the authorization header" in the documents of S3."""
    monkeypatch.setattr(clock, "now_ns", lambda: 1369353600 * clock.SECOND_NS)
    headers = {"host": "examplebucket.s3.amazonaws.com", "range": "bytes=0-9"}
    found = signed(KEYS, "us-east-1", "GET", "/test.txt", "", headers, b"")
    assert found["authorization"].endswith(
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


@given(
    st.text(st.characters(min_codepoint=33, exclude_categories=["C"]), min_size=1, max_size=40),
    st.dictionaries(st.sampled_from(["prefix", "versions", "key-marker"]), st.text("a+/ =%&é~")),
    st.binary(max_size=20),
)
def test_signatures_are_those_of_botocore(key, query, content):
    path, line = quoted_key(f"/{key}"), quoted_query(query)
    headers = {"host": "bucket.example.com", "if-none-match": "*"}
    token_keys = KEYS._replace(token="a-token")
    found = signed(token_keys, "eu-central-1", "PUT", path, line, headers, content)
    url = f"https://bucket.example.com{path}" + (f"?{line}" if line else "")
    request = AWSRequest("PUT", url, headers, content)
    auth = S3SigV4Auth(Credentials(KEYS.key_id, KEYS.secret, "a-token"), "s3", "eu-central-1")
    request.context["timestamp"] = found["x-amz-date"]
    request.context["payload_signing_enabled"] = True
    auth._modify_request_before_signing(request)  # noqa: SLF001
    signature = auth.signature(
        auth.string_to_sign(request, auth.canonical_request(request)), request
    )
    assert found["authorization"].endswith(f"Signature={signature}")


def test_the_secret_is_not_shown():
    assert KEYS.secret not in f"{KEYS} {KEYS!r}"


def test_keys_of_the_environment_need_no_library(environment):
    without_botocore(environment)
    environment.setenv("AWS_ACCESS_KEY_ID", "key")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    environment.setenv("AWS_SESSION_TOKEN", "token")
    environment.setenv("AWS_ENDPOINT_URL", "http://host:9000")
    access = Access("place")
    assert access.keys() == AccessKeys("key", "secret", "token")
    assert (access.region, access.endpoint) == ("us-east-1", "http://host:9000")


@pytest.mark.parametrize("file", ["credentials", "config"])
def test_keys_of_a_profile_need_no_library(environment, tmp_path, file):
    without_botocore(environment)
    section = "profile backup" if file == "config" else "backup"
    lines = f"[{section}]\naws_access_key_id = key\naws_secret_access_key = sec%ret\n"
    write(tmp_path, "config", "[default]\nregion=us-west-1\n[profile backup]\nregion=eu-west-1\n")
    write(tmp_path, file, lines if file == "credentials" else lines + "region=eu-west-1\n")
    environment.setenv("AWS_PROFILE", "backup")
    access = Access("place")
    assert access.keys() == AccessKeys("key", "sec%ret")
    assert access.region == "eu-west-1"


def test_keys_of_a_program_are_those_that_it_prints(environment, tmp_path):
    printed = '{"Version": 1, "AccessKeyId": "key", "SecretAccessKey": "secret"}'
    write(tmp_path, "printed", printed)
    write(tmp_path, "config", f"[default]\ncredential_process = cat {tmp_path}/.aws/printed\n")
    assert Access("place").keys() == AccessKeys("key", "secret")


@pytest.mark.parametrize(
    ("name", "text"), [("AWS_PROFILE", "missing"), ("AWS_CONFIG_FILE", "/proc/version")]
)
def test_a_setting_that_leads_nowhere_is_an_error(environment, name, text):
    environment.setenv(name, text)
    with pytest.raises(StoreError):
        Access("place").keys()


@pytest.mark.parametrize(
    ("place", "variables", "where"),
    [
        ("s3://bucket", {}, ("https://bucket.s3.us-east-1.amazonaws.com", "")),
        ("s3://a.b?region=cn-north-1", {}, ("https://s3.cn-north-1.amazonaws.com.cn", "/a.b")),
        (
            "s3://bucket?region=us-west-2",
            {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
            ("https://bucket.s3-fips.dualstack.us-west-2.amazonaws.com", ""),
        ),
        ("s3:http://host:9000/bucket", {}, ("http://host:9000", "/bucket")),
        (
            "s3://bucket",
            {"AWS_ENDPOINT_URL_S3": "http://host/s3/"},
            ("http://host", "/s3/bucket"),
        ),
    ],
)
def test_where_requests_go(environment, place, variables, where):
    for name, value in variables.items():
        environment.setenv(name, value)
    client, access = S3Client(place_of(place)), Access("place")
    region = client._region(access)  # noqa: SLF001
    assert client._where(access, region) == where  # noqa: SLF001


PROFILE = """
[default]
services = own
endpoint_url = http://all/
s3 =
    addressing_style = {style}
    use_dualstack_endpoint = true
[services own]
dynamodb =
    endpoint_url = http://other
s3 =
    endpoint_url = http://{host}:1/of-s3
"""


@pytest.mark.parametrize(
    ("style", "host", "variables", "where"),
    [
        ("auto", "own", {}, ("http://own:1", "/of-s3/bucket")),
        ("virtual", "own", {}, ("http://bucket.own:1", "/of-s3")),
        ("virtual", "127.0.0.1", {}, ("http://127.0.0.1:1", "/of-s3/bucket")),
        ("auto", "own", {"AWS_ENDPOINT_URL": "http://named"}, ("http://named", "/bucket")),
        (
            "path",
            "own",
            {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
            ("https://s3.dualstack.us-east-1.amazonaws.com", "/bucket"),
        ),
    ],
)
def test_settings_for_s3_below_a_profile_are_used(
    environment, tmp_path, style, host, variables, where
):
    write(tmp_path, "config", PROFILE.format(style=style, host=host))
    for name, value in variables.items():
        environment.setenv(name, value)
    assert S3Client(place_of("s3://bucket"))._where(Access("place"), "us-east-1") == where  # noqa: SLF001


def test_a_section_of_services_that_is_missing_is_an_error_where_it_is_needed(
    environment, tmp_path
):
    write(tmp_path, "config", "[default]\nservices = own\n[services other]\ns3 =\n  a = b\n")
    with pytest.raises(StoreError, match="services own"):
        _ = Access("place").endpoint
    environment.setenv("AWS_ENDPOINT_URL_S3", "http://named")
    assert Access("place").endpoint == "http://named"


OF_S3 = "s3 =\n    {}\n"
BOTOS = {
    "a name in quotes": ('[profile "p"]\nendpoint_url = http://own/\n', ""),
    "a name after a tab": ("[profile\tp]\nendpoint_url = http://own/\n", ""),
    "services in quotes": (
        "[profile p]\nservices = a b\n[services 'a b']\ns3 =\n  endpoint_url = http://own/\n",
        "",
    ),
    "both files": (
        "[profile p]\nregion = eu-west-1\n",
        "[p]\nregion = eu-west-2\n" + OF_S3.format("addressing_style = path"),
    ),
    "no FIPS among those for S3": (
        "[profile p]\nregion = eu-west-1\n"
        + OF_S3.format("addressing_style = path\n    use_fips_endpoint = true"),
        "",
    ),
    "an endpoint is not ignored by those for S3": (
        "[profile p]\nendpoint_url = http://own/\n"
        + OF_S3.format("ignore_configured_endpoint_urls = true"),
        "",
    ),
    "one of two wants both stacks": (
        "[profile p]\nregion = eu-west-1\nuse_dualstack_endpoint = true\n"
        + OF_S3.format("use_dualstack_endpoint = false"),
        "",
    ),
}


@pytest.mark.parametrize(("config", "credentials"), BOTOS.values(), ids=BOTOS)
def test_requests_go_where_botocore_sends_them(environment, tmp_path, config, credentials):
    write(tmp_path, "config", config)
    write(tmp_path, "credentials", credentials or "[p]\n")
    environment.setenv("AWS_PROFILE", "p")
    environment.setenv("AWS_ACCESS_KEY_ID", "key")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    client = S3Client(place_of("s3://bucket"))
    access = Access("place")
    ours = "".join(client._where(access, access.region))  # noqa: SLF001
    session = Session()
    theirs = session.create_client("s3", session.get_config_variable("region") or "eu-west-1")
    url = theirs.generate_presigned_url("head_object", {"Bucket": "bucket", "Key": "key"})
    assert url.partition("?")[0] == f"{ours}/key"


@pytest.mark.parametrize("host", ["user:hidden@host", "user:hidden/a@host"])
def test_an_endpoint_with_a_password_is_refused_and_not_shown(environment, host):
    environment.setenv("AWS_ENDPOINT_URL", f"http://{host}")
    environment.setenv("AWS_ACCESS_KEY_ID", "key")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with closing(S3Client(place_of("s3://bucket"))) as client, pytest.raises(StoreError) as refused:
        client.head("key")
    assert "AWS_ENDPOINT_URL" in str(refused.value)
    assert "hidden" not in str(refused.value)


class Server:
    """Answers by a function of method, target and headers: status, headers, content."""

    def __init__(self, answer, context=None):
        self.asked = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do(self):
                server.asked.append((self.command, self.path, dict(self.headers)))
                self.rfile.read(int(self.headers.get("content-length") or 0))
                status, headers, content = answer(self.command, self.path, self.headers)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_HEAD = do_CONNECT = do  # noqa: N815

            def log_message(self, *words):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.port = self._server.server_address[1]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def keyed(environment):
    environment.setenv("AWS_ACCESS_KEY_ID", "key")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return environment


def found(*_):
    return 200, {}, b"content"


def test_a_bucket_of_another_region_is_found_there(keyed):
    def answer(method, target, headers):
        if "/eu-north-1/" in headers["authorization"]:
            return found()
        return 301, {"x-amz-bucket-region": "eu-north-1"}, b""

    with closing(Server(answer)) as server:
        client = S3Client(place_of(f"s3://bucket?endpoint=http://127.0.0.1:{server.port}"))
        assert client.get("a") == b"content"
        assert client.get("a") == b"content"
        assert len(server.asked) == 3
        assert client.again().get("a") == b"content"
        assert len(server.asked) == 4


def test_threads_that_begin_together_all_find_the_other_region(keyed):
    both = threading.Barrier(2)

    def answer(method, target, headers):
        if "/eu-north-1/" in headers["authorization"]:
            return found()
        both.wait(10)
        return 301, {"x-amz-bucket-region": "eu-north-1"}, b""

    with closing(Server(answer)) as server, ThreadPoolExecutor(2) as threads:
        client = S3Client(place_of(f"s3://bucket?endpoint=http://127.0.0.1:{server.port}"))
        assert [*threads.map(client.get, "ab")] == [b"content"] * 2


def test_connections_are_those_of_the_server_that_is_asked(keyed):
    client, access = S3Client(place_of("s3://bucket")), Access("place")
    # One thread was sent to another region when another had read the first.
    made = [client._connections_of_this_process(f"http://{one}", access) for one in "aab"]  # noqa: SLF001
    assert made[0] is made[1] is not made[2]


def test_a_store_that_sends_us_from_region_to_region_is_refused(keyed):
    regions = iter(f"region-{number}" for number in range(100))
    with closing(Server(lambda *_: (301, {"x-amz-bucket-region": next(regions)}, b""))) as server:
        client = S3Client(place_of(f"s3://bucket?endpoint=http://127.0.0.1:{server.port}"))
        with pytest.raises(StoreError):
            client.get("a")
        assert len(server.asked) == 2


def test_what_does_not_speak_s3_is_refused_at_once(keyed):
    for content in (b"<html>a page", b"<!DOCTYPE html><ListBucketResult/>", b"<Error/>"):
        with closing(Server(lambda *_, said=content: (200, {}, said))) as server:
            client = S3Client(place_of(f"s3://bucket?endpoint=http://127.0.0.1:{server.port}"))
            with pytest.raises(StoreError):
                client.part_of_list("", "")
            assert len(server.asked) == 1


def test_an_error_after_the_answer_has_begun_is_an_error(keyed):
    late = b"<?xml version='1.0'?><Error><Code>%s</Code></Error>"
    answers = iter([late % b"InternalError", late % b"SlowDown", b"", late % b"AccessDenied"])
    with closing(Server(lambda *_: (200, {}, next(answers)))) as server:
        client = S3Client(place_of(f"s3://bucket?endpoint=http://127.0.0.1:{server.port}"))
        client.put("a", b"content")
        assert len(server.asked) == 3
        with pytest.raises(StoreError):
            client.put("a", b"content")
        assert len(server.asked) == 4


def test_what_comes_before_an_answer_is_none(keyed):
    answers = iter([(103, {}, b""), (200, {"etag": "tag"}, b"")])
    with closing(Server(lambda *_: next(answers))) as server:
        client = S3Client(place_of(f"s3://bucket?endpoint=http://127.0.0.1:{server.port}"))
        assert client.put("a", b"content").tag == "tag"


@pytest.mark.parametrize("size", [1, 65536, 200_000])
def test_headers_leave_with_content(keyed, size):
    """SeaweedFS stores an empty object for who is killed between them."""
    sent = []
    send = HTTPConnection.send

    def sends(connection, data):
        sent.append(bytes(data))
        send(connection, data)

    keyed.setattr(HTTPConnection, "send", sends)
    content = os.urandom(size)
    with closing(Server(lambda *_: (200, {}, b""))) as server:
        client = S3Client(place_of(f"s3://bucket?endpoint=http://127.0.0.1:{server.port}"))
        client.put("a", content)
        client.get("a")
        client.put("a", bytearray(content))
    assert sent[0].partition(b"\r\n\r\n")[2]
    *_, one, other = b"".join(sent).split(b"PUT ")
    assert one.partition(b"\r\n\r\n")[2].startswith(content)
    assert other.partition(b"\r\n\r\n")[2] == content


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_SESSION_TOKEN", "a-hidden-token\r"),
        ("AWS_ACCESS_KEY_ID", "key\n"),
        ("AWS_DEFAULT_REGION", "eu-west-1\r"),
    ],
)
def test_what_cannot_be_sent_is_not_shown(keyed, name, value):
    keyed.setenv(name, value)
    with closing(Server(found)) as server:
        client = S3Client(place_of(f"s3://bucket?endpoint=http://127.0.0.1:{server.port}"))
        with pytest.raises(StoreError) as refused:
            client.get("a")
        assert not server.asked
    for secret in ("hidden", "Signature", "Credential"):
        assert secret not in str(refused.value)


@pytest.mark.parametrize("endpoint", ["host:9000", "ftp://host", "//host", "https://"])
def test_an_endpoint_of_the_environment_that_is_none_is_refused(keyed, monkeypatch, endpoint):
    asked = []
    monkeypatch.setattr(s3_client.Connections, "ask", lambda *words: asked.append(words))
    keyed.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(StoreError, match="AWS_ENDPOINT_URL"):
        S3Client(place_of("s3://bucket")).get("a")
    assert not asked


def test_a_connection_that_the_server_closed_meanwhile_costs_no_request(keyed):
    def answer(*_):
        return 200, {"connection": "close"}, b"content"

    with closing(Server(answer)) as server:
        client = S3Client(place_of(f"s3://bucket?endpoint=http://127.0.0.1:{server.port}"))
        assert [client.get("a"), client.get("a")] == [b"content"] * 2
        assert client.counts.requests == {"get_object": 2}


def test_a_proxy_of_the_environment_gets_requests_but_for_hosts_without(keyed):
    with closing(Server(found)) as proxy, closing(Server(found)) as server:
        keyed.setenv("HTTP_PROXY", f"http://ann:pass%40word@127.0.0.1:{proxy.port}")
        S3Client(place_of("s3://bucket?endpoint=http://far.example.com:9000")).get("a")
        ((_, target, headers),) = proxy.asked
        assert target == "http://far.example.com:9000/bucket/a"
        assert headers["proxy-authorization"] == "Basic YW5uOnBhc3NAd29yZA=="
        assert headers["host"] == "far.example.com:9000"
        keyed.setenv("NO_PROXY", "127.0.0.1")
        S3Client(place_of(f"s3://bucket?endpoint=http://127.0.0.1:{server.port}")).get("a")
        assert len(proxy.asked) == len(server.asked) == 1


def test_by_https_a_proxy_is_asked_for_a_tunnel(keyed, monkeypatch):
    monkeypatch.setattr(s3_client, "FIRST_PATIENCE_SECONDS", 0.0)
    with closing(Server(lambda *_: (403, {}, b""))) as proxy:
        keyed.setenv("https_proxy", f"127.0.0.1:{proxy.port}")
        with pytest.raises(StoreError):
            S3Client(place_of("s3:far.example.com/bucket")).get("a")
        ((method, target, _),) = proxy.asked
        assert (method, target) == ("CONNECT", "far.example.com:443")


def certificate(folder):
    """A certificate of an authority of its own, and its key, in a file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start.replace(year=2120))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "server.pem"
    file.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, *plain))
    return file


def test_the_certificate_of_a_server_is_checked(keyed, tmp_path):
    file = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with closing(Server(found, context)) as server:
        place = place_of(f"s3:https://localhost:{server.port}/bucket")
        with pytest.raises(StoreError, match="certificate verify failed"):
            S3Client(place).get("a")
        keyed.setenv("AWS_CA_BUNDLE", str(file))
        assert S3Client(place).get("a") == b"content"
        with pytest.raises(StoreError, match="certificate verify failed"):
            S3Client(place_of(f"s3:https://127.0.0.1:{server.port}/bucket")).get("a")


def test_keys_of_a_list_are_as_they_were_stored():
    text = b"<R xmlns='http://x/'>%s<Contents><Key>a%%2Bb+c</Key></Contents></R>"
    for said, key in ((b"<EncodingType>url</EncodingType>", "a+b c"), (b"", "a%2Bb+c")):
        (one,) = document(text % said).parts("Contents")
        assert one.key("Key") == key


def test_a_query_is_sent_as_it_is_signed(keyed):
    with closing(Server(lambda *_: (200, {}, b"<R/>"))) as server:
        client = S3Client(place_of(f"s3://bucket?endpoint=http://127.0.0.1:{server.port}"))
        client.part_of_list("a b/c+d&é", "t=/+")
        query = dict(parse_qsl(urlsplit(server.asked[0][1]).query))
        assert (query["prefix"], query["continuation-token"]) == ("a b/c+d&é", "t=/+")
