"""Why the director did not answer or did not authenticate us, with the option or file to correct.

TLS libraries report such failures in their own terms; a user can change an option or a file.
"""

from __future__ import annotations

import ssl
from typing import Final

import httpx

from strongroom.base.errors import DirectorError, NotAuthenticatedError, StrongroomError
from strongroom.cli.client.place import DirectorAccess

# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL.
_OTHER_NAME: Final = (62, 64)
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST")


def unreachable(place: DirectorAccess, error: httpx.HTTPError) -> DirectorError:
    """The error for a request without an answer."""
    return DirectorError(f"{place.url} cannot be reached: {_cause(place, error)}")


def with_director(place: DirectorAccess, error: StrongroomError) -> StrongroomError:
    """`error` of the director; one about authentication also names the credentials used."""
    if not isinstance(error, NotAuthenticatedError):
        return error
    if place.token_file:
        shown = (
            f"the token came from {place.token_file}; `strongroom token create` makes another for "
            "--token-file"
        )
    elif certificate := place.identity or place.certificate:
        shown = (
            f"the certificate came from {certificate}; `strongroom ca issue NAME --role operator` "
            "makes another for --identity"
        )
    else:
        shown = "name --token-file FILE or --identity FOLDER"
    return NotAuthenticatedError(f"{error}; {shown}")


def _cause(place: DirectorAccess, error: httpx.HTTPError) -> str:
    failure = _tls_failure(error)
    if isinstance(failure, ssl.SSLCertVerificationError):
        if failure.verify_code in _OTHER_NAME:
            return (
                f"its certificate is for another name ({failure.verify_message}); write --director "
                "as the certificate has it"
            )
        trusted = place.authority or (place.identity and f"{place.identity}/authority.pem")
        named = f"the one in {trusted}" if trusted else "one that this system trusts"
        return (
            f"its certificate is from another authority than {named} ({failure.verify_message}); "
            "name the authority with --authority FILE"
        )
    if failure is not None and failure.reason in _NO_TLS:
        return "the server there does not speak TLS; is this the director's address and port?"
    certificate = place.identity or place.certificate
    # Which of these it is depends on whether the alert overtakes the end of the connection.
    has_ended = isinstance(error, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError)
    if certificate and (failure is not None or has_ended):
        return (
            f"it ended the connection ({failure or error}); it may not trust the authority of the "
            f"certificate in {certificate}: `strongroom ca issue NAME --role operator` on the "
            "machine with the director's authority makes one for --identity"
        )
    if isinstance(error, httpx.TimeoutException):
        reason = "no answer in time"
    else:
        reason = str(error) or type(error).__name__
    return f"{reason}; does the service run, and is --director its address?"


def _tls_failure(error: BaseException) -> ssl.SSLError | None:
    """The TLS error that caused an HTTP error, if any."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
