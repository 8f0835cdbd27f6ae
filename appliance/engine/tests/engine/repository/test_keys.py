"""Keys come back from wraps and files as they were, and from nothing else.

A client's put key opens what is its own and shared, and nothing of another client.
"""

import base64
import struct
import threading

import pytest
from cryptography.hazmat.primitives.kdf import argon2
from hypothesis import given
from hypothesis import strategies as st

from strongroom.base.errors import DamageError, KeyRightError, UnknownFormatError, UsageError
from strongroom.engine.repository.keys.files import export_key, import_key
from strongroom.engine.repository.keys.owners import (
    SHARED,
    ContentKeys,
    OwnerKeys,
    agree,
    is_signed,
)
from strongroom.engine.repository.keys.roles import (
    MOST_GENERATIONS,
    ApplianceKey,
    PackKeys,
    TicketKey,
    new_restore_key,
    required_appliance_key,
    required_restore_key,
    restore_key,
)
from strongroom.engine.repository.keys.wrapping import Argon2Cost, unwrap_key, wrap_info, wrap_key

CHEAP = Argon2Cost(64, 1, 1)
GOLDEN = {
    "public": "8f40c5adb68f2562",
    "verify": "54307886861ff812",
    "id": "904b093df31b9640",
    "secret": "6b7fe216b45406ba",
    "common": "750f341fe2445c6b",
    "own chunk": "d6a595a37fbe1394",
    "own block": "a0a0ee0aa1fbc198",
    "own chunker": "60dea3be26b5c250",
    "common chunk": "3fe1a638a8ce09f6",
    "common block": "94b1576859c0a1a5",
    "common chunker": "84c3caf14355dfe3",
    "index": "1ebf84a1738c5f5b",
    "shared index": "90822ea5521f10e6",
    "snapshot": "8d7968b5276c5e5d",
    "lease": "2d25fd64bda3e48d",
    "appliance lease": "ab58218a9c39ff4f",
    "ticket": "3f78ea9772720525",
}
KEY = restore_key(bytes(range(16)), bytes(range(32)), bytes(range(32, 64)))
APPLIANCE_KEY = ApplianceKey(KEY.repository_id, KEY.restore_public, KEY.secret)
WEB1, WEB2 = KEY.put_key("web1"), KEY.put_key("web2")


def test_derived_keys_never_change():
    """They are part of the format."""
    own, common = WEB1.client.own, WEB1.client.common
    derived = {
        "public": WEB1.restore_public,
        "verify": WEB1.verify_key,
        "id": WEB1.client_id,
        "secret": WEB1.client_secret,
        "common": WEB1.common_secret,
        "own chunk": own.chunk_key,
        "own block": own.block_key,
        "own chunker": own.chunker_seed,
        "common chunk": common.chunk_key,
        "common block": common.block_key,
        "common chunker": common.chunker_seed,
        "index": WEB1.client.index_key,
        "shared index": WEB1.shared.index_key,
        "snapshot": WEB1.client.snapshot_key,
        "lease": WEB1.client.lease_key,
        "appliance lease": KEY.lease_key,
        "ticket": WEB1.client.ticket_key,
    }
    assert {name: key.hex()[:16] for name, key in derived.items()} == GOLDEN
    assert len(set(derived.values())) == len(derived)


def secrets_of(key):
    """All that a put key holds or derives and that must be no one else's."""
    client = key.client
    return {
        key.client_secret,
        *client.own,
        client.index_key,
        client.snapshot_key,
        client.lease_key,
        client.ticket_key,
    }


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
generations = st.integers(0, MOST_GENERATIONS)


@given(names, generations, names, generations)
def test_clients_have_nothing_in_common_but_the_common_keys(one, number, other, other_number):
    first, second = KEY.put_key(one, number), KEY.put_key(other, other_number)
    if (one, number) == (other, other_number):
        assert first == second
        return
    assert first.client_id != second.client_id
    assert not secrets_of(first) & secrets_of(second)
    assert first.common_secret == second.common_secret
    assert first.client.common == second.client.common == first.shared.own
    assert first.shared.index_key == second.shared.index_key
    assert SHARED not in (first.client_id, second.client_id)


@given(names, generations)
def test_the_keys_of_a_client_are_the_same_for_whoever_may_have_them(name, generation):
    put_key = KEY.put_key(name, generation)
    assert APPLIANCE_KEY.put_key(name, generation) == put_key
    for owner, mine in ((put_key.client_id, put_key.client), (SHARED, put_key.shared)):
        assert put_key.owner(owner) == mine
        assert APPLIANCE_KEY.owner(owner) == KEY.owner(owner) == mine
    assert KEY.has_name(put_key.client_id, name, generation)
    assert put_key.has_name(put_key.client_id, name, generation)
    assert not KEY.has_name(put_key.client_id, name + "x", generation)


def test_a_put_key_gives_no_keys_of_another_client():
    with pytest.raises(KeyRightError, match="web1"):
        WEB1.owner(WEB2.client_id)
    with pytest.raises(KeyRightError, match="web2"):
        WEB1.put_key("web2")
    with pytest.raises(KeyRightError):
        WEB1.put_key("web1", 1)
    assert WEB1.put_key("web1") is WEB1
    assert not WEB1.has_name(WEB2.client_id, "web1", 0)


def test_a_ticket_gives_no_keys_but_those_of_content():
    own = ContentKeys(WEB2.client.own.chunk_key, WEB2.client.own.block_key, b"")
    content = OwnerKeys(WEB2.client_id, own, WEB1.shared.common, b"", WEB1.repository_id)
    ticket = TicketKey(WEB1, content, PackKeys(b""), {})
    assert ticket.owner(WEB2.client_id).own.chunk_key == WEB2.client.own.chunk_key
    for name in ("index_key", "snapshot_key", "lease_key", "ticket_key"):
        with pytest.raises(KeyRightError):
            getattr(ticket.owner(WEB2.client_id), name)
    with pytest.raises(KeyRightError):
        ticket.index_object_key("ab" * 32, WEB2.client_id, bytes(33), b"label")
    with pytest.raises(KeyRightError):
        ticket.put_key("web1")


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_a_name_that_no_client_can_have_is_refused(name):
    with pytest.raises(UsageError, match="1 to 255"):
        KEY.put_key(name)
    assert not KEY.has_name(WEB1.client_id, name, 0)


@pytest.mark.parametrize("generation", [-1, MOST_GENERATIONS + 1])
def test_a_generation_that_no_client_can_have_is_refused(generation):
    with pytest.raises(UsageError, match="generation"):
        KEY.put_key("web1", generation)
    assert not KEY.has_name(WEB1.client_id, "web1", generation)


@given(st.binary(max_size=50), st.integers(0, 63))
def test_only_the_appliance_signs(data, place):
    signature = APPLIANCE_KEY.sign(data)
    assert is_signed(WEB1.verify_key, signature, data)
    assert not is_signed(WEB1.verify_key, signature, data + b"x")
    changed = bytearray(signature)
    changed[place] ^= 1
    assert not is_signed(WEB1.verify_key, changed, data)
    assert not is_signed(WEB1.verify_key, signature[:place], data)
    assert not is_signed(new_restore_key().verify_key, signature, data)


def test_a_wrap_opens_with_its_passphrase_only():
    wrapped = wrap_key(KEY, b"correct horse", "laptop", CHEAP)
    assert unwrap_key(wrapped, b"correct horse") == KEY
    assert unwrap_key(wrapped, b"correct horsf") is None
    assert unwrap_key(wrapped, b"") is None
    info = wrap_info(wrapped)
    assert (info.label, info.cost) == ("laptop", CHEAP)


def test_two_wraps_of_one_key_look_different():
    wraps = [wrap_key(KEY, b"p", "", CHEAP) for _ in range(2)]
    assert wraps[0][-112:] != wraps[1][-112:]


@given(st.data())
def test_no_flipped_bit_of_a_wrap_goes_unnoticed(data):
    wrapped = bytearray(wrap_key(KEY, b"p", "label", CHEAP))
    bit = data.draw(st.integers(0, len(wrapped) * 8 - 1))
    wrapped[bit // 8] ^= 1 << bit % 8
    try:
        assert unwrap_key(bytes(wrapped), b"p") is None
    except (DamageError, UnknownFormatError):
        return


@pytest.mark.parametrize("size", [0, 3, 4, 20, 41, 60])
def test_a_wrap_that_is_cut_off_opens_with_nothing(size):
    wrapped = wrap_key(KEY, b"p", "label", CHEAP)[:size]
    try:
        assert unwrap_key(wrapped, b"p") is None
    except DamageError:
        return


@pytest.mark.parametrize(
    "cost",
    [
        Argon2Cost(1 << 31, 1, 1),
        Argon2Cost(64, 1 << 31, 1),
        Argon2Cost(64, 0, 1),
        Argon2Cost(64, 1, 0),
        Argon2Cost(64, 1, 200),
        Argon2Cost(8, 1, 4),
    ],
)
def test_a_forged_cost_is_refused_before_it_is_paid(cost):
    wrapped = wrap_key(KEY, b"p", "", CHEAP)
    forged = wrapped[:8] + struct.pack("<III", cost.memory_kib, cost.iterations, cost.lanes)
    with pytest.raises(DamageError, match="cost"):
        unwrap_key(forged + wrapped[20:], b"p")


def test_an_unknown_version_asks_for_a_newer_strongroom():
    wrapped = wrap_key(KEY, b"p", "", CHEAP)
    with pytest.raises(UnknownFormatError):
        unwrap_key(wrapped[:4] + b"\2" + wrapped[5:], b"p")


ALL_KEYS = [KEY, APPLIANCE_KEY, WEB1, KEY.put_key("wéb\udcff", 7)]


@pytest.mark.parametrize("key", ALL_KEYS)
def test_a_key_file_gives_the_key_back(key):
    text = export_key(key)
    again = import_key(text)
    assert (again, type(again)) == (key, type(key))
    assert import_key("  \n" + text.replace("\n", "\r\n") + "\n\n") == key
    assert max(map(len, text.splitlines())) <= 64


@given(names, generations)
def test_the_put_key_of_any_client_comes_back_from_its_file(name, generation):
    assert import_key(export_key(KEY.put_key(name, generation))) == KEY.put_key(name, generation)


def body_of(key):
    return base64.b64decode("".join(export_key(key).splitlines()[1:-1]))


def test_a_key_file_holds_no_more_than_its_kind_of_key_may():
    assert KEY.private in body_of(KEY)
    assert KEY.private not in body_of(APPLIANCE_KEY)
    assert KEY.secret in body_of(APPLIANCE_KEY)
    for more in (KEY.private, KEY.secret, *secrets_of(WEB2)):
        assert more not in body_of(WEB1)
    assert not import_key(export_key(WEB1)).can_read
    assert not import_key(export_key(APPLIANCE_KEY)).can_read


@pytest.mark.parametrize("key", ALL_KEYS)
@given(data=st.data())
def test_a_damaged_key_file_never_gives_another_key(key, data):
    text = export_key(key)
    at = data.draw(st.integers(0, len(text) - 2))
    other = data.draw(st.sampled_from("AbC9+/=-é"))
    damaged = text[:at] + other + text[at + 1 :]
    if damaged == text:
        return
    try:
        # Base64 has bits that mean nothing.
        assert import_key(damaged) == key
    except (UsageError, UnknownFormatError):
        return


@pytest.mark.parametrize(
    ("key", "title"),
    [
        (WEB1, "RESTORE"),
        (WEB1, "APPLIANCE"),
        (KEY, "PUT"),
        (KEY, "APPLIANCE"),
        (APPLIANCE_KEY, "PUT"),
        (APPLIANCE_KEY, "RESTORE"),
    ],
)
def test_a_key_file_under_another_title_gives_no_key(key, title):
    lines = export_key(key).splitlines()
    lines[0], lines[-1] = (f"-----{word} STRONGROOM {title} KEY-----" for word in ("BEGIN", "END"))
    with pytest.raises(UsageError):
        import_key("\n".join(lines))


@pytest.mark.parametrize("text", ["", "-----BEGIN STRONGROOM PUT KEY-----", "ssh-rsa AAAA"])
def test_what_is_no_key_file_is_refused(text):
    with pytest.raises(UsageError):
        import_key(text)


def test_only_the_restore_key_reads():
    assert required_restore_key(KEY) is KEY
    for key in (WEB1, APPLIANCE_KEY):
        with pytest.raises(KeyRightError):
            required_restore_key(key)


def test_only_the_appliance_key_and_the_restore_key_act_for_all_clients():
    for key in (KEY, APPLIANCE_KEY):
        assert required_appliance_key(key) is key
    with pytest.raises(KeyRightError):
        required_appliance_key(WEB1)


def test_a_public_key_of_small_order_is_refused():
    with pytest.raises(DamageError):
        agree(KEY.private, bytes(32))


def test_both_sides_agree_on_a_secret():
    other = new_restore_key()
    assert agree(KEY.private, other.restore_public) == agree(other.private, KEY.restore_public)


def test_two_threads_open_wraps_at_once():
    """As a director does when two jobs end together."""
    wrapped = wrap_key(KEY, b"secret", "", Argon2Cost(8 << 10, 2, 4))
    opened = []
    threads = [
        threading.Thread(target=lambda: opened.append(unwrap_key(wrapped, b"secret")), daemon=True)
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert opened == [KEY] * 4


def test_work_is_done_while_a_key_is_computed(monkeypatch):
    wrapped = wrap_key(KEY, b"secret", "", CHEAP)
    worked = threading.Event()
    real = argon2.Argon2id

    class Waiting:
        def __init__(self, **parameters):
            self._derivation = real(**parameters)

        def derive(self, passphrase):
            assert worked.wait(30)
            return self._derivation.derive(passphrase)

    monkeypatch.setattr(argon2, "Argon2id", Waiting)
    here = threading.get_ident()
    assert unwrap_key(wrapped, b"secret", worked.set) == KEY
    callers = []
    assert unwrap_key(wrapped, b"wrong", lambda: callers.append(threading.get_ident())) is None
    assert callers == [here]


def test_work_that_fails_beside_a_key_leaves_no_thread():
    wrapped = wrap_key(KEY, b"secret", "", CHEAP)

    def fail():
        raise ModuleNotFoundError("no module named that", name="that")

    with pytest.raises(ModuleNotFoundError):
        unwrap_key(wrapped, b"secret", fail)
    assert "key" not in [thread.name for thread in threading.enumerate()]
    assert unwrap_key(wrapped, b"secret") == KEY


def test_a_key_that_cannot_be_computed_beside_work_is_an_error(monkeypatch):
    """Not a thread that died, and an answer that is missing."""
    wrapped = wrap_key(KEY, b"secret", "", CHEAP)

    class Failing:
        def __init__(self, **parameters):
            pass

        def derive(self, passphrase):
            raise MemoryError

    monkeypatch.setattr(argon2, "Argon2id", Failing)
    with pytest.raises(MemoryError):
        unwrap_key(wrapped, b"secret", lambda: None)
