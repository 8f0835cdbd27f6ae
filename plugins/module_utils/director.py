# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A client of the director's HTTP API, of Python's own library: hosts of Ansible need not have the engine.

TLS 1.3 only. Who we are is shown by a token, or by the certificate of an identity folder. Where nothing is given, it is
what C(~/.config/strongroom/console.toml) says, as for the engine's own commands.
"""

from __future__ import annotations

import datetime
import http.client
import json
import os
import ssl
import time
from urllib.parse import quote, urlencode, urlsplit

from ansible.module_utils.basic import env_fallback

DEFAULT_PORT = 9101
REQUEST_SECONDS = 60
FINAL_STATES = ("done", "incomplete", "failed", "cancelled")
# While a run is awaited, how often the director may fail to answer in a row: it may restart.
TRIES = 6
LONGEST_PAUSE_SECONDS = 5
PLACE = ("director", "token_file", "identity", "authority")
# Of a run of whose errors something is reported.
MOST_LOG_LINES = 200


class DirectorError(Exception):
    """The director refuses, or cannot be asked. error_id: as the reference of exit codes has it."""

    def __init__(self, message, error_id="director"):
        super().__init__(message)
        self.error_id = error_id


def director_arguments():
    """The options of every module that asks a director, as in the doc fragment of that name."""
    return {
        "director": {"type": "str", "fallback": (env_fallback, ["STRONGROOM_DIRECTOR"])},
        "token": {"type": "str", "no_log": True},
        "token_file": {"type": "path", "no_log": False},
        "identity": {"type": "path"},
        "authority": {"type": "path"},
    }


ONE_CREDENTIAL = [("token", "token_file", "identity")]


class Director:
    """The director that `options` name: those of director_arguments(). Methods raise DirectorError."""

    def __init__(self, options):
        place = with_usual_place(options)
        self.url = normal_url(place.get("director"))
        self._parts = urlsplit(self.url)
        self._context = tls_context(place)
        self._headers = {"User-Agent": "strongroom.backup", "Strongroom-Request": "1", "Accept": "application/json"}
        token = place.get("token") or read_token(place.get("token_file"))
        if token:
            self._headers["Authorization"] = "Bearer %s" % token

    def get(self, path, **query):
        """What is at a path below /api/v1; values of None are left out."""
        given = {name: shown(value) for name, value in query.items() if value is not None}
        return self._ask("GET", path + ("?" + urlencode(given) if given else ""))

    def post(self, path, body):
        """Have something done."""
        return self._ask("POST", path, body)

    def delete(self, path):
        """Remove something."""
        return self._ask("DELETE", path)

    def pages(self, path, **query):
        """All items of a listing."""
        after = None
        while True:
            page = self.get(path, after=after, **query)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def await_run(self, run, timeout_seconds=0):
        """A run when it has ended, or as it is when so many seconds have gone by; 0: they do not count."""
        end = time.monotonic() + timeout_seconds if timeout_seconds else None
        pause, tries = 0.2, 0
        while run["state"] not in FINAL_STATES:
            left = LONGEST_PAUSE_SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                return run
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
            try:
                run, tries = self.get("/runs/%s" % run["id"]), 0
            except DirectorError as error:
                tries += 1
                if error.error_id != "director" or tries >= TRIES:
                    raise
        return run

    def log(self, run, *levels):
        """The texts of a run's log; of these levels, if any are given."""
        lines = (line for line in self.pages("/runs/%s/log" % run["id"]) if not levels or line["level"] in levels)
        return [line["text"] for line in lines]

    def _ask(self, method, path, body=None):
        headers = dict(self._headers)
        text = None
        if body is not None:
            text = json.dumps(body).encode("utf-8")
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPSConnection(
            self._parts.hostname, self._parts.port, timeout=REQUEST_SECONDS, context=self._context
        )
        try:
            connection.request(method, "/api/v1" + path, body=text, headers=headers)
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise DirectorError("%s cannot be reached: %s" % (self.url, cause(error))) from error
        finally:
            connection.close()
        return self._understood(answer.status, data)

    def _understood(self, status, data):
        try:
            answered = json.loads(data) if data else None
        except ValueError as error:
            raise DirectorError("%s sent an answer that is not JSON (status %d)" % (self.url, status)) from error
        if status < 400:
            return answered
        try:
            message, error_id = str(answered["message"]), str(answered["error_id"])
        except (KeyError, TypeError) as error:
            raise DirectorError("%s answered with status %d" % (self.url, status)) from error
        if error_id == "not-authenticated":
            message += "; see the options token, token_file and identity"
        raise DirectorError(message, error_id)


def named(name):
    """A name as part of a path."""
    if not name or "/" in name or not name.isprintable():
        raise DirectorError("%r is not a name of a client, job or run" % (name,), "unknown-name")
    return quote(name, safe="")


def with_usual_place(options):
    """The options, and where no director is named, what console.toml says."""
    given = {name: options.get(name) for name in (*PLACE, "token")}
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = os.path.join(folder, "strongroom", "console.toml")
    if given["director"] or not os.path.exists(path):
        return given
    try:
        import tomllib

        with open(path, "rb") as file:
            data = tomllib.load(file)
    except ImportError as error:
        raise DirectorError("name the director with the option director: this Python reads no %s" % path) from error
    except (OSError, ValueError) as error:
        raise DirectorError("cannot read %s: %s" % (path, error)) from error
    has_credential = given["token"] or given["token_file"] or given["identity"]
    for option, name in (
        ("director", "director"),
        ("token_file", "token-file"),
        ("identity", "identity"),
        ("authority", "authority"),
    ):
        value = data.get(name)
        if not isinstance(value, str) or given[option]:
            continue
        if option in ("token_file", "identity") and has_credential:
            # The authority by which the director is known is still that of the identity.
            if option == "identity" and not given["authority"]:
                folder = os.path.join(os.path.dirname(path), os.path.expanduser(value))
                given["authority"] = os.path.join(folder, "authority.pem")
            continue
        if option != "director":
            value = os.path.join(os.path.dirname(path), os.path.expanduser(value))
        given[option] = value
    return given


def normal_url(text):
    """https://HOST:PORT of what was given: also HOST or HOST:PORT."""
    if not text:
        raise DirectorError("no director is named; give the option director, such as https://vault.example.org")
    parts = urlsplit(text if "://" in text else "https://" + text)
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError:
        port = 0
    if parts.scheme != "https" or not parts.hostname or not port or parts.path.strip("/"):
        raise DirectorError("director: %r names none; write https://NAME or https://NAME:PORT" % text)
    host = "[%s]" % parts.hostname if ":" in parts.hostname else parts.hostname
    return "https://%s:%d" % (host, port)


def tls_context(place):
    """How both sides prove who they are."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    identity = place.get("identity")
    authority = place.get("authority") or (identity and os.path.join(identity, "authority.pem"))
    try:
        if authority:
            context.load_verify_locations(cafile=authority)
        else:
            context.load_default_certs()
    except (OSError, ssl.SSLError) as error:
        raise DirectorError("authority: cannot read certificates in %s: %s" % (authority, reason(error))) from error
    if identity:
        files = [os.path.join(identity, name) for name in ("certificate.pem", "key.pem")]
        try:
            context.load_cert_chain(*files)
        except (OSError, ssl.SSLError) as error:
            raise DirectorError(
                "identity: cannot read %s: %s; `strongroom ca issue NAME --role operator --folder FOLDER` makes an "
                "identity" % (" and ".join(files), reason(error))
            ) from error
    return context


def read_token(path):
    """The token in a file; empty without a file."""
    if not path:
        return ""
    try:
        with open(path, encoding="ascii") as file:
            words = file.read(4096).split()
    except (OSError, UnicodeDecodeError) as error:
        raise DirectorError("token_file: cannot read %s: %s" % (path, reason(error))) from error
    if len(words) != 1:
        raise DirectorError("token_file: %s holds no token; `strongroom token create` writes one" % path)
    return words[0]


def reason(error):
    """What an error says, without its number."""
    return getattr(error, "strerror", None) or str(error)


def cause(error):
    """Why there was no answer, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            "%s; the option authority says which authority's certificate the director must have, and director must be "
            "a name that is in it" % error.verify_message
        )
    if isinstance(error, ssl.SSLError):
        return "%s; is this the director, and is our certificate of its authority?" % reason(error)
    return (
        "%s; is this its address, and does its service run? See `systemctl status strongroom-director` on that machine"
        % (reason(error) or type(error).__name__)
    )


def shown(value):
    """A value in a query."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def seconds_between(begin, end):
    """Seconds from one time of the API to another; 0 unless both are known."""
    return max(0.0, (moment(end) - moment(begin)).total_seconds()) if begin and end else 0.0


def moment(text):
    """A time of the API."""
    whole, _dot, fraction = text.rstrip("Z").partition(".")
    found = datetime.datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.UTC)
    return found + datetime.timedelta(microseconds=int(fraction.ljust(6, "0")[:6] or 0))


def kernel_tls(run):
    """Whether the kernel itself proved that it did TLS for a run's connection to the storage daemon."""
    security = run.get("security") or {}
    return bool(security.get("ktls_counted") and (security.get("ktls_send") or security.get("ktls_receive")))


def result_of(run):
    """What a module returns of a run."""
    took = seconds_between(run["started"], run["ended"])
    security = run.get("security") or {}
    return {
        "run": run,
        "state": run["state"],
        "level": run["level"],
        "files": run["files"],
        "bytes": run["bytes"],
        "stored_bytes": run["stored_bytes"],
        "errors": run["errors"],
        "snapshot": run["snapshot"],
        "seconds": took,
        "bytes_per_second": int(run["bytes"] / took) if took else 0,
        "tls": {
            "mode": security.get("mode", ""),
            "cipher": security.get("cipher", ""),
            "ktls_proven": kernel_tls(run),
        },
    }


def settle(module, director, run):
    """Wait as the options wait, timeout and accept_incomplete say, and tell of what went wrong; the ended run."""
    named_run = "run %s of %s" % (run["id"][:8], run["job"])
    if module.params["wait"] and run["state"] not in FINAL_STATES:
        try:
            run = director.await_run(run, module.params["timeout"])
        except DirectorError as error:
            raise DirectorError("%s was started, and may continue: %s" % (named_run, error), error.error_id) from error
    if run["state"] not in FINAL_STATES:
        if module.params["wait"]:
            module.fail_json(
                msg="%s is still %s after %d s; it continues, and `strongroom cancel %s` ends it"
                % (named_run, run["state"], module.params["timeout"], run["id"][:8]),
                changed=True,
                **result_of(run),
            )
        return run
    why = run["error"] or run["reason"]
    answered = "%s is %s%s" % (named_run, run["state"], ": " + why if why else "")
    if run["state"] in ("failed", "cancelled"):
        module.fail_json(
            msg=answered,
            error_id=run["error_id"],
            changed=bool(run["started"]),
            log=director.log(run, "warning", "error")[:MOST_LOG_LINES],
            **result_of(run),
        )
    if run["state"] == "incomplete":
        lines = director.log(run, "warning", "error")[:MOST_LOG_LINES]
        if not module.params["accept_incomplete"]:
            module.fail_json(
                msg="%s (%d errors; the log names them, and accept_incomplete=true takes it for good)"
                % (answered, run["errors"]),
                error_id=run["error_id"],
                changed=True,
                log=lines,
                **result_of(run),
            )
        module.warn(answered)
    return run
