#!/usr/bin/python3
"""A stand-in of Grafana: uses what the role gives it, as the user that Grafana has.

It serves HTTPS where the variables say. /api/health is as of Grafana; /api/used says which dashboards it was given, how
long the password of admin is, and what the data source answers to `up`.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import re
import ssl
import sys
import urllib.parse
import urllib.request
from pathlib import Path


def read(text: str) -> str:
    """A value, or the contents of the file that it names as Grafana's values do."""
    found = re.fullmatch(r"\$__file\{(.+)\}", text)
    return Path(found[1]).read_text().strip() if found else text


def of_file(name: str, text: str) -> str:
    """The value of a key in YAML as simple as the role writes it."""
    found = re.search(rf"^\s*{name}: (.+)$", text, re.MULTILINE)
    return found[1].strip('"').replace("$$", "$") if found else ""


def used() -> dict[str, object]:
    """What it was given."""
    arguments = dict(word.split("=", 1) for word in sys.argv[2:])
    Path(arguments["--config"]).read_bytes()
    provisioning = Path(arguments["cfg:default.paths.provisioning"])
    source = (provisioning / "datasources" / "strongroom.yml").read_text()
    boards = Path(of_file("path", (provisioning / "dashboards" / "strongroom.yml").read_text()))
    certificate = read(of_file("tlsCACert", source))
    query = urllib.parse.urlencode({"query": 'up{job=~"strongroom.*"}'})
    request = urllib.request.Request(f"{of_file('url', source)}/api/v1/query?{query}")
    if user := of_file("basicAuthUser", source):
        word = f"{user}:{read(of_file('basicAuthPassword', source))}"
        request.add_header("Authorization", "Basic " + base64.b64encode(word.encode()).decode())
    try:
        context = ssl.create_default_context(cadata=certificate)
        with urllib.request.urlopen(request, context=context) as answer:
            up = len(json.load(answer)["data"]["result"])
    except OSError as error:
        up = str(error)
    return {
        "dashboards": sorted(json.loads(path.read_text())["title"] for path in boards.glob("*.json")),
        "password": len(read(os.environ["GF_SECURITY_ADMIN_PASSWORD"])),
        "up": up,
    }


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers both paths."""

    def do_GET(self) -> None:
        """A JSON object."""
        text = json.dumps(used() if self.path == "/api/used" else {"database": "ok"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(text)


def main() -> None:
    """Serve."""
    assert sys.argv[1] == "server"
    assert os.environ["GF_SERVER_PROTOCOL"] == "https"
    place = (os.environ["GF_SERVER_HTTP_ADDR"], int(os.environ["GF_SERVER_HTTP_PORT"]))
    server = http.server.ThreadingHTTPServer(place, Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.environ["GF_SERVER_CERT_FILE"], os.environ["GF_SERVER_CERT_KEY"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
