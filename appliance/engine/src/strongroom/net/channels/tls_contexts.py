"""TLS 1.3 contexts: our certificate, our authority only, no resumption, configured suites.

Sessions are not resumed: a resumed session would skip the check of the certificate. Both ends are
ours, so older versions of TLS are not needed.
"""

from __future__ import annotations

import _ssl
import ctypes
import os
import ssl

from strongroom.base.errors import UsageError
from strongroom.net.channels.ktls import OP_ENABLE_KTLS
from strongroom.net.identities.identity import Identity

# The OpenSSL that Python's module uses; the module may be part of the program itself.
_openssl = ctypes.PyDLL(getattr(_ssl, "__file__", None))
_openssl.ERR_clear_error.argtypes = ()
_openssl.ERR_clear_error.restype = None


def forget_errors() -> None:
    """Empty the queue of this thread."""
    _openssl.ERR_clear_error()


TLS_1_3_SUITES = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
)


def server_context(
    identity: Identity,
    cipher_suites: str = "",
    *,
    ktls: bool = False,
    require_certificate: bool = True,
) -> ssl.SSLContext:
    """For a daemon that accepts. Without `require_certificate` a peer may present none (HTTP)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED if require_certificate else ssl.CERT_OPTIONAL
    context.num_tickets = 0
    _prepare(context, identity.authority_pem, cipher_suites, ktls=ktls)
    load_certificate(context, identity)
    return context


def client_context(
    identity: Identity, cipher_suites: str = "", *, ktls: bool = False, check_hostname: bool = True
) -> ssl.SSLContext:
    """For a client with a certificate.

    `check_hostname`: by the DNS names and addresses in the server's certificate; net.tls checks
    the name by itself.
    """
    context = authority_context(identity.authority_pem, cipher_suites, ktls=ktls)
    context.check_hostname = check_hostname
    load_certificate(context, identity)
    return context


def authority_context(
    authority_pem: bytes, cipher_suites: str = "", *, ktls: bool = False
) -> ssl.SSLContext:
    """For a client with no certificate yet (enrolment), or with a token (console)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _prepare(context, authority_pem, cipher_suites, ktls=ktls)
    return context


def set_cipher_suites(context: ssl.SSLContext, cipher_suites: str) -> None:
    """Allow only these TLS 1.3 suites, in this order: OpenSSL's names, with colons between.

    The ssl module supports this from Python 3.15 only, so OpenSSL is called directly, and the
    result is checked. Raises UsageError for unknown suites, or where Python hides OpenSSL.
    """
    wanted = [suite.strip() for suite in cipher_suites.split(":") if suite.strip()]
    unknown = [suite for suite in wanted if suite not in TLS_1_3_SUITES]
    if unknown or not wanted:
        raise UsageError(
            f"{cipher_suites!r} names no TLS 1.3 cipher suites; there are "
            f"{', '.join(TLS_1_3_SUITES)}"
        )
    _ask_openssl(context, ":".join(wanted))
    effective = [
        cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.3"
    ]
    if effective != wanted:
        raise UsageError(
            f"the cipher suites {cipher_suites!r} did not take effect with this Python and "
            f"{ssl.OPENSSL_VERSION} (in effect: {':'.join(effective)})"
        )


def _prepare(
    context: ssl.SSLContext, authority_pem: bytes, cipher_suites: str, *, ktls: bool
) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    # By default Python accepts an end without close_notify: an attacker could truncate anywhere.
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    if ktls:
        context.options |= OP_ENABLE_KTLS
    if cipher_suites:
        set_cipher_suites(context, cipher_suites)
    try:
        context.load_verify_locations(cadata=authority_pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(f"the authority's certificate is damaged: {error}") from error


def load_certificate(context: ssl.SSLContext, identity: Identity) -> None:
    """Give OpenSSL the identity as loaded: the files may have been renewed since."""
    descriptor = os.memfd_create("identity", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(identity.key_pem + b"\n" + identity.certificate_pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    except ssl.SSLError as error:
        raise UsageError(f"OpenSSL does not take our certificate and key: {error}") from error
    finally:
        os.close(descriptor)


def _ask_openssl(context: ssl.SSLContext, suites: str) -> None:
    if hasattr(context, "set_ciphersuites"):
        context.set_ciphersuites(suites)
        return
    try:
        import _ssl

        # The very library that the ssl module uses, found through it.
        library = ctypes.CDLL(_ssl.__file__)
        set_ciphersuites = library.SSL_CTX_set_ciphersuites
    except (AttributeError, OSError) as error:
        raise UsageError(
            "this build of Python hides OpenSSL, so TLS Cipher Suites cannot be chosen; use the "
            "system's Python, or Python 3.15"
        ) from error
    set_ciphersuites.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    set_ciphersuites.restype = ctypes.c_int
    # A context object is the object head followed by the SSL_CTX pointer, in every CPython 3.
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    set_ciphersuites(pointer, suites.encode("ascii"))
