"""An error in OpenSSL's queue of this thread, as Python 3.13 leaves one when a connection broke."""

from __future__ import annotations

import _ssl
import ctypes
import errno

_ERR_LIB_SYS = 2


def leave_an_error() -> None:
    """From now on the queue has a broken pipe."""
    openssl = ctypes.PyDLL(getattr(_ssl, "__file__", None))
    openssl.ERR_new()
    openssl.ERR_set_error(_ERR_LIB_SYS, errno.EPIPE, None)
    assert openssl.ERR_peek_error()
