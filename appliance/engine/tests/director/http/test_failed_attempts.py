"""How often one address may be wrong."""

import pytest

from strongroom.base.errors import TooManyAttemptsError
from strongroom.director.http.limits import Attempts


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def limited(now):
    return Attempts(3, 60, lambda: now[0])


def fail(limited, address, times=1):
    for _ in range(times):
        limited.check(address)
        limited.failed(address)


def test_one_address_too_many_times_and_it_has_to_wait(limited, now):
    fail(limited, "10.0.0.1", 3)
    with pytest.raises(TooManyAttemptsError, match="wait 61 s"):
        limited.check("10.0.0.1")
    limited.check("10.0.0.2")
    now[0] += 59
    with pytest.raises(TooManyAttemptsError):
        limited.check("10.0.0.1")
    now[0] += 2
    limited.check("10.0.0.1")


def test_the_window_slides(limited, now):
    for _ in range(10):
        fail(limited, "10.0.0.1")
        now[0] += 30
    fail(limited, "10.0.0.1")


def test_hosts_of_one_ipv6_network_count_as_one(limited):
    for host in range(3):
        fail(limited, f"2001:db8:1:2::{host}")
    with pytest.raises(TooManyAttemptsError):
        limited.check("2001:db8:1:2:3:4:5:6")
    limited.check("2001:db8:1:3::1")


def test_an_ipv4_address_is_the_same_in_both_writings(limited):
    fail(limited, "::ffff:10.0.0.1", 3)
    with pytest.raises(TooManyAttemptsError):
        limited.check("10.0.0.1")


def test_a_flood_of_addresses_costs_no_memory(now):
    limited = Attempts(3, 60, lambda: now[0], most_addresses=10)
    fail(limited, "192.0.2.1", 3)
    for number in range(9):
        fail(limited, f"10.0.0.{number}", 3)
    for known in ("192.0.2.1", "10.0.0.8"):
        with pytest.raises(TooManyAttemptsError):
            limited.check(known)
    # The one that failed longest ago is forgotten.
    fail(limited, "10.0.0.9", 3)
    limited.check("192.0.2.1")
    for known in ("10.0.0.0", "10.0.0.9"):
        with pytest.raises(TooManyAttemptsError):
            limited.check(known)
