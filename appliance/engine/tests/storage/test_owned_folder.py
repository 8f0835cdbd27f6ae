"""Who has the folder of a repository sees what its owner list lets count."""

from strongroom.engine.content.digests import object_name
from strongroom.engine.stores.local import LocalStore
from strongroom.storage.owned_folder import OwnedFolder


def test_a_pack_that_was_found_false_is_neither_listed_nor_named(tmp_path):
    plain = LocalStore(tmp_path / "r")
    plain.prepare()
    names = sorted(object_name(b"%d" % number) for number in range(5))
    for name in names:
        plain.put("packs", name, b"pack")
    store = OwnedFolder(tmp_path / "r")
    assert store.pack_ids() == plain.pack_ids()
    store.vouch("packs", names[:2], sound=False)
    found = store.pack_ids()
    assert sorted(found[at : at + 32].hex() for at in range(0, len(found), 32)) == names[2:]
    assert sorted(info.name for info in store.list("packs")) == names[2:]
    store.close()
