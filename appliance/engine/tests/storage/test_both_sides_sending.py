"""Answers that no one has read yet keep neither client nor daemon from going on."""

import os
import threading

from strongroom.engine.content.digests import object_name


def test_what_was_read_ahead_and_is_not_wanted_stops_no_upload(daemon, appliance):
    local = daemon.local()
    for _ in range(24):
        data = os.urandom(64 << 10)
        local.put("index", object_name(data), data)
    reader = daemon.local()
    listed = list(reader.list("index"))
    reader.get("index", listed[0].name, 0, 100)
    content = os.urandom(8 << 20)
    ended = threading.Event()

    def upload():
        writer = reader.writer("packs")
        writer.write(content)
        writer.commit(object_name(content))
        ended.set()

    threading.Thread(target=upload, daemon=True).start()
    assert ended.wait(20)
    assert reader.get("packs", object_name(content)) == content
    assert len(reader.get("index", listed[3].name)) == 64 << 10
