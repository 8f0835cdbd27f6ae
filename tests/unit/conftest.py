"""A director that answers whatever a test wants, as one that somebody has taken over can."""

from __future__ import annotations

import datetime
import http.server
import ipaddress
import json
import ssl
import threading
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class LyingDirector:
    """A server with the addresses of the API, whose answers are those of a test: path to JSON."""

    def __init__(self, folder):
        self.answers = {}
        self.authority = folder / "authority.pem"
        key = folder / "director-key.pem"
        make_certificate(self.authority, key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, key)
        answers = self.answers

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                told = answers.get(urlsplit(self.path).path.removeprefix("/api/v1"))
                body = json.dumps(told if told is not None else {"message": "no", "error_id": "unknown-name"})
                self.send_response(200 if told is not None else 404)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *arguments):
                """Tests read standard output."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = "https://127.0.0.1:%d" % self.server.server_address[1]
        self.place = {"director": self.url, "token": "x", "authority": str(self.authority)}
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def make_certificate(certificate_path, key_path):
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "director")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@pytest.fixture
def lying_director(tmp_path):
    """One for a test."""
    found = LyingDirector(tmp_path)
    yield found
    found.server.shutdown()
    found.server.server_close()
