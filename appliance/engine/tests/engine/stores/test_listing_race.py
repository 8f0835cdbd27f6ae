"""A listing made while one object replaces another has at least one of the two."""

import os
import signal
import time

import pytest

from kit.tiny_backup import new_repository
from strongroom.engine.stores.local import LocalStore


@pytest.mark.parametrize("others", [0, 700])
def test_an_object_that_is_replaced_by_another_is_never_missed(folder, others):
    place = str(folder / "repository")
    new_repository(LocalStore(place)).close()
    store = LocalStore(place)
    for number in range(others):
        store.put("index", f"{number:064x}", b"other")
    store.put("index", "f" * 64, b"first")
    child = os.fork()
    if child == 0:
        mine, number = LocalStore(place), 0
        while True:
            mine.put("index", f"{number:x}".rjust(64, "e"), b"new")
            time.sleep(0.001)  # a program that merges indexes is not faster
            mine.delete("index", f"{number - 1:x}".rjust(64, "e") if number else "f" * 64)
            number += 1
    try:
        for _ in range(150):
            names = [info.name for info in store.list("index")]
            assert any(name[0] in "ef" for name in names)
            assert len(names) >= others + 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        store.close()
