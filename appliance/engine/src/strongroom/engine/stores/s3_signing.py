"""Signs requests to an object store: version 4 of Amazon's signature.

It covers method, path, query, every header that we set and the content, so the store refuses what
was changed on its way.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from strongroom.base import clock

_SERVICE: Final = "s3"
_ALGORITHM: Final = "AWS4-HMAC-SHA256"


class AccessKeys(NamedTuple):
    """token: of keys that expire, else ""."""

    key_id: str
    secret: str
    token: str = ""

    def __repr__(self) -> str:
        # Nothing that shows this may show the secret.
        return f"AccessKeys({self.key_id!r})"


def quoted_key(key: str) -> str:
    """A key as it is in a path."""
    return quote(key, safe="/~")


def quoted_query(query: Mapping[str, str]) -> str:
    """A query as it is sent and signed."""
    return "&".join(
        f"{quote(name, safe='~')}={quote(query[name], safe='~')}" for name in sorted(query)
    )


def signed(
    keys: AccessKeys,
    region: str,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    content: bytes | bytearray,
) -> dict[str, str]:
    """The headers with the signature. path and query: quoted; headers: with `host`, in small."""
    now = time.gmtime(clock.now_ns() // clock.SECOND_NS)
    date, moment = time.strftime("%Y%m%d", now), time.strftime("%Y%m%dT%H%M%SZ", now)
    digest = hashlib.sha256(content).hexdigest()
    all_headers = {**headers, "x-amz-date": moment, "x-amz-content-sha256": digest}
    if keys.token:
        all_headers["x-amz-security-token"] = keys.token
    names = sorted(all_headers)
    lines = [method, path, query]
    lines += [f"{name}:{' '.join(all_headers[name].split())}" for name in names]
    lines += ["", ";".join(names), digest]
    scope = f"{date}/{region}/{_SERVICE}/aws4_request"
    request_digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    text = f"{_ALGORITHM}\n{moment}\n{scope}\n{request_digest}"
    key = f"AWS4{keys.secret}".encode()
    for part in (date, region, _SERVICE, "aws4_request"):
        key = _code(key, part)
    all_headers["authorization"] = (
        f"{_ALGORITHM} Credential={keys.key_id}/{scope}, SignedHeaders={';'.join(names)}, "
        f"Signature={_code(key, text).hex()}"
    )
    return all_headers


def _code(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
