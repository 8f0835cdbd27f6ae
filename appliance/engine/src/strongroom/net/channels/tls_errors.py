"""OpenSSL's errors of a thread, emptied before each call.

OpenSSL keeps a queue of errors for each thread, and its manual wants it to be empty before a
connection is used: whatever is in there is taken for the reason why a call gave nothing. Python
(3.13) leaves an error there when the other side was gone. Each connection that the same thread uses
afterwards, or a process that it forks, would seem broken as soon as it had to wait.
"""

from __future__ import annotations

import _ssl
import ctypes

# The OpenSSL that Python's module uses; the module may be part of the program itself.
_openssl = ctypes.PyDLL(getattr(_ssl, "__file__", None))
_openssl.ERR_clear_error.argtypes = ()
_openssl.ERR_clear_error.restype = None


def forget_errors() -> None:
    """Empty the queue of this thread."""
    _openssl.ERR_clear_error()
