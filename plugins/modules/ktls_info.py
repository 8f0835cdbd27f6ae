#!/usr/bin/python
# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: ktls_info
short_description: Say whether the kernel does TLS, and prove it
version_added: 0.9.0
description:
  - Reports the C(tls) module, the counters of C(/proc/net/tls_stat), which versions the OpenSSL of the host hands over,
    whether the processor has AES, and what the network cards take off the processor.
  - With O(probe) it makes a connection to itself, hands both directions to the kernel, sends bytes through and compares
    them, and counts what C(/proc/net/tls_stat) grew by. Nothing is changed.
author:
  - Strongroom (@strongroom)
options:
  probe:
    description: Make the proof. Without the module C(tls) in the kernel this loads it, as any program's use of it does.
    type: bool
    default: true
attributes:
  check_mode:
    description: Only looks, so check mode is the same.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Is TLS in the kernel possible here?
  strongroom.backup.ktls_info:
  register: ktls

- name: Stop where it is not
  ansible.builtin.assert:
    that: ktls.proven
"""

RETURN = r"""
available:
  description: Whether a socket can be given to the kernel's TLS.
  returned: always
  type: bool
proven:
  description: Whether bytes went through the kernel's TLS and were counted, where there is a counter.
  returned: always
  type: bool
reason:
  description: Why it is not proven; empty if it is.
  returned: always
  type: str
module_loaded:
  description: Whether the module C(tls) is loaded or built in.
  returned: always
  type: bool
counters:
  description: The counters of C(/proc/net/tls_stat), empty where there is no such file.
  returned: always
  type: dict
counted:
  description: What the counters grew by during the proof.
  returned: always
  type: dict
openssl:
  description: Version of the host's OpenSSL, and what it hands to the kernel in TLS 1.3.
  returned: always
  type: dict
  contains:
    version:
      description: Such as C(3.5.1); empty if there is none.
      type: str
    sends:
      description: Whether it hands over the sending direction.
      type: bool
    receives:
      description: Whether it hands over the receiving direction.
      type: bool
processor_aes:
  description: Whether the processor computes AES itself.
  returned: always
  type: bool
cipher_suites:
  description: The suites of TLS 1.3, the one that is fastest on this processor first.
  returned: always
  type: list
  elements: str
interfaces:
  description: The network cards, and what of TLS each can do.
  returned: always
  type: list
  elements: dict
  contains:
    interface:
      description: Name of the interface.
      type: str
    driver:
      description: Name of the driver; empty if there is none.
      type: str
    sends:
      description: C(on), C(off) or C(unable) for C(tls-hw-tx-offload).
      type: str
    receives:
      description: C(on), C(off) or C(unable) for C(tls-hw-rx-offload).
      type: str
"""

import os
import re
import socket
import struct

from ansible.module_utils.basic import AnsibleModule

TCP_ULP = 31
SOL_TLS = 282
TLS_TX = 1
TLS_RX = 2
TLS_1_3 = 0x0304
TLS_CIPHER_AES_GCM_128 = 51
FEATURES = {"sends": "tls-hw-tx-offload", "receives": "tls-hw-rx-offload"}
WITH_AES = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
]
WITHOUT_AES = [WITH_AES[2], WITH_AES[0], WITH_AES[1]]
LENGTH = 100_000


def read(path):
    """The text of a file; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def counters():
    """What /proc/net/tls_stat counts."""
    pairs = (line.split() for line in read("/proc/net/tls_stat").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def module_loaded():
    """Whether the kernel has TLS now."""
    builtin = read("/lib/modules/%s/modules.builtin" % os.uname().release)
    return os.path.isdir("/sys/module/tls") or "/net/tls/tls.ko" in builtin


def has_aes():
    """Whether the processor computes AES."""
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", read("/proc/cpuinfo"), re.MULTILINE)
    return flags is not None and "aes" in flags[1].split()


def pair():
    """Two ends of a TCP connection to ourselves."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname(), timeout=5)
        other = server.accept()[0]
        other.settimeout(5)
        return one, other


def hand_over(one, direction):
    """Give one direction of a socket to the kernel, with a key that protects nothing."""
    keys = struct.pack("=HH8s16s4s8s", TLS_1_3, TLS_CIPHER_AES_GCM_128, b"i" * 8, b"k" * 16, b"s" * 4, bytes(8))
    one.setsockopt(SOL_TLS, direction, keys)


def probe():
    """Send bytes through the kernel's TLS. Whether it takes sockets; why it is not proven."""
    one, other = pair()
    with one, other:
        try:
            for end in (one, other):
                end.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        except OSError as error:
            return False, "the kernel gives no TLS to a socket: %s" % error.strerror
        try:
            hand_over(one, TLS_TX)
            hand_over(other, TLS_RX)
            sent = os.urandom(LENGTH)
            one.sendall(sent)
            got = b""
            while len(got) < LENGTH:
                part = other.recv(LENGTH - len(got))
                if not part:
                    break
                got += part
        except OSError as error:
            return True, "the kernel's TLS failed: %s" % error.strerror
    return True, "" if got == sent else "what the kernel's TLS received is not what it was to send"


def openssl(module):
    """The host's OpenSSL, and what it hands over in TLS 1.3."""
    program = module.get_bin_path("openssl")
    output = module.run_command([program, "version"])[1] if program else ""
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", output)
    if found is None:
        return {"version": "", "sends": False, "receives": False}
    # OpenSSL 3.0 and 3.1 hand over receiving in TLS 1.2 only.
    return {
        "version": found[0],
        "sends": int(found[1]) >= 3,
        "receives": (int(found[1]), int(found[2])) >= (3, 2),
    }


def features(text):
    """What `ethtool --show-features` says of TLS."""
    listed = {}
    for key, feature in FEATURES.items():
        found = re.search(r"^\s*%s: (on|off)( \[fixed\])?" % feature, text, re.MULTILINE)
        listed[key] = "unable" if not found or (found[1] == "off" and found[2]) else found[1]
    return listed


def interfaces(module):
    """The network cards."""
    program = module.get_bin_path("ethtool")
    listed = []
    for name in sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else []:
        device = "/sys/class/net/%s/device" % name
        if not os.path.exists(device):
            continue
        text = module.run_command([program, "--show-features", name])[1] if program else ""
        driver = os.path.basename(os.path.realpath(device + "/driver"))
        listed.append({"interface": name, "driver": driver if driver != "driver" else "", **features(text)})
    return listed


def main():
    """Run as Ansible runs it."""
    module = AnsibleModule(argument_spec={"probe": {"type": "bool", "default": True}}, supports_check_mode=True)
    available, reason, before = module_loaded(), "no proof was asked for", counters()
    if module.params["probe"]:
        available, reason = probe()
    after = counters()
    counted = {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}
    if not reason and after and not (counted.get("TlsTxSw") and counted.get("TlsRxSw")):
        reason = "/proc/net/tls_stat counted nothing"
    aes = has_aes()
    module.exit_json(
        changed=False,
        available=available,
        proven=not reason,
        reason=reason,
        module_loaded=module_loaded(),
        counters=after,
        counted=counted,
        openssl=openssl(module),
        processor_aes=aes,
        cipher_suites=WITH_AES if aes else WITHOUT_AES,
        interfaces=interfaces(module),
    )


if __name__ == "__main__":
    main()
