from __future__ import annotations

import socket

from ansible_collections.strongroom.backup.plugins.modules import ktls_info


def kernel_does_tls():
    """Asked of the kernel here, not of the module."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        try:
            one.setsockopt(socket.IPPROTO_TCP, 31, b"tls")
        except OSError:
            return False
    return True


def test_it_is_proven_where_the_kernel_does_tls_and_the_reason_is_told_where_not(run_module):
    told = run_module(ktls_info)
    assert told["available"] == kernel_does_tls()
    assert told["proven"] == kernel_does_tls()
    assert (told["reason"] == "") == told["proven"]


def test_without_a_probe_nothing_is_claimed(run_module):
    told = run_module(ktls_info, probe=False)
    assert not told["proven"]
    assert told["counted"] == {}


def test_the_fastest_suite_is_first(run_module):
    told = run_module(ktls_info, probe=False)
    fastest = "AES_128" if told["processor_aes"] else "CHACHA20"
    assert fastest in told["cipher_suites"][0]
    assert len(set(told["cipher_suites"])) == 3


def test_offload_of_a_card_is_read_from_what_ethtool_says():
    text = """Features for eth0:
tls-hw-record: off [fixed]
tls-hw-tx-offload: on
tls-hw-rx-offload: off [fixed]
"""
    assert ktls_info.features(text) == {"sends": "on", "receives": "unable"}
    assert ktls_info.features("tls-hw-tx-offload: off\n") == {"sends": "off", "receives": "unable"}
