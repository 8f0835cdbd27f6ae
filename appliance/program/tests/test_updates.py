"""Updates into the other root: only what is signed, whole or not at all, and tried at first."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile

import pytest

from appliance_kit.private_machine import SCRIPTS
from appliance_kit.two_roots import RUNNING_IMAGE, TwoRoots, make_key

MIB = 1 << 20
ROOT = bytes(range(256)) * (6 * MIB // 256)
NEWER, OLDER = "3000-bbbb", "1000-cccc"
SOURCE = f"source: 'http://127.0.0.1:8000/{NEWER}.update'"
MOMENTS = 400


@pytest.fixture
def roots(machine, new_disk, tmp_path):
    return TwoRoots(machine, new_disk(40 * MIB).path, tmp_path)


def test_an_update_goes_to_the_other_root_and_is_tried_three_times(roots):
    said = roots.installer("update", str(roots.update(ROOT))).stdout
    assert "3000-bbbb is in root b; restart to try it" in said
    assert roots.digest("b", len(ROOT)) == hashlib.sha256(ROOT).hexdigest()
    found = roots.slots()
    assert found["states"] == {"a": "good", "b": "3"}
    assert found["order"] == "b a"
    assert found["update"]["result"] == "written"


def test_an_update_written_twice_is_written_once(roots):
    update = roots.update(ROOT)
    roots.installer("update", str(update))
    assert "writes" not in roots.installer("update", str(update)).stdout


def test_root_b_is_updated_into_root_a(roots):
    roots.boot("b")
    roots.installer("update", str(roots.update(ROOT)))
    assert roots.digest("a", len(ROOT)) == hashlib.sha256(ROOT).hexdigest()
    assert roots.slots()["order"] == "a b"


def refused(roots, place, exit_code=9, *words):
    before = roots.digest("b", 8 * MIB)
    said = roots.installer("update", str(place), *words, exit_code=exit_code).stderr
    assert roots.digest("b", 8 * MIB) == before
    assert roots.slots()["order"] == "a b"
    assert roots.slots()["states"] == {"a": "good", "b": "0"}
    return said


def test_an_update_of_another_key_is_refused(roots, tmp_path):
    update = roots.update(ROOT, key=make_key(tmp_path / "other.pem"))
    assert "not signed by the key of this image" in refused(roots, update)


def test_a_changed_manifest_is_refused(roots):
    update = roots.update(ROOT)
    data = update.read_bytes()
    update.write_bytes(data.replace(b'"9.9"', b'"9.8"'))
    assert "not signed by the key of this image" in refused(roots, update)


def test_an_update_without_a_signature_is_refused(roots):
    update = roots.update(ROOT)
    update.write_bytes(update.read_bytes().replace(b"manifest.sig", b"manifest.gis"))
    assert "it has no manifest.sig" in refused(roots, update, 20)


@pytest.mark.parametrize("content", [b"", b"no tar file at all", bytes(4096)])
def test_what_is_no_update_is_refused(roots, tmp_path, content):
    place = tmp_path / "rubbish"
    place.write_bytes(content)
    assert "rubbish is no" in refused(roots, place, 20)


@pytest.mark.parametrize("before", ["manifest.json", "manifest.sig", "root.zst"])
def test_a_head_that_announces_gigabytes_takes_no_memory(roots, tmp_path, before):
    """Heads are not signed, and anyone who is on the way can write any."""
    update = roots.update(ROOT)
    data = update.read_bytes()
    at = data.index(before.encode().ljust(100, b"\0"))
    place = tmp_path / "long.update"
    with place.open("wb") as file:
        file.write(data[:at])
        file.write(long_name(64 << 20))
        file.truncate(file.tell() + (64 << 20))
        file.seek(0, os.SEEK_END)
        file.write(data[at:])
    assert "its heads are too large" in refused(roots, place, 20)


def long_name(size: int) -> bytes:
    """The head of a member whose name, of this size, follows."""
    head = tarfile.TarInfo("././@LongLink")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, size
    return head.tobuf(tarfile.GNU_FORMAT)


def test_an_older_update_is_refused_unless_it_is_wanted(roots):
    update = roots.update(ROOT, image=OLDER)
    assert "older than what runs" in refused(roots, update)
    roots.installer("update", str(update), "--older")
    assert roots.slots()["states"]["b"] == "3"


def test_what_runs_is_not_written_again(roots):
    update = roots.update(ROOT, image=RUNNING_IMAGE)
    assert "runs already; nothing was changed" in refused_as_needless(roots, update)


def refused_as_needless(roots, update):
    said = roots.installer("update", str(update)).stdout
    assert roots.slots()["states"] == {"a": "good", "b": "0"}
    return said


@pytest.mark.parametrize("fault", ["changed", "truncated"])
def test_a_damaged_root_is_never_started(roots, fault):
    update = roots.update(ROOT)
    data = bytearray(update.read_bytes())
    # Past the first two members and their heads.
    place = 512 * 5 + 100
    data = data[:place] if fault == "truncated" else data[:place] + b"!!!" + data[place + 3 :]
    update.write_bytes(data)
    roots.installer("update", str(update), exit_code=20)
    assert roots.slots()["states"] == {"a": "good", "b": "0"}
    assert roots.slots()["order"] == "a b"


def test_the_root_of_another_signed_update_is_not_taken_for_the_one_that_was_signed(roots):
    with tarfile.open(roots.update(ROOT[::-1], image=OLDER)) as update:
        swapped = update.extractfile("root.zst").read()
    newer = roots.update(ROOT)
    with tarfile.open(newer) as update:
        members = {one.name: (one, update.extractfile(one).read()) for one in update}
    with tarfile.open(newer, "w", format=tarfile.GNU_FORMAT) as update:
        for name, (head, data) in members.items():
            content = swapped if name == "root.zst" else data
            head.size = len(content)
            update.addfile(head, io.BytesIO(content))
    roots.installer("update", str(newer), exit_code=20)
    assert roots.slots()["states"] == {"a": "good", "b": "0"}
    assert roots.slots()["order"] == "a b"


def test_the_update_of_the_day_is_never_an_older_one(roots):
    answers_for(roots, "")
    # What was signed long ago, in place of the newest.
    roots.update(ROOT, image=OLDER).rename(roots.folder / f"{NEWER}.update")
    said = served(roots, "strongroom-appliance update --scheduled", exit_code=9)
    assert "older than" in said.stderr
    assert roots.slots()["states"] == {"a": "good", "b": "0"}


def test_a_root_larger_than_its_partition_is_refused(roots):
    assert "install the new image" in refused(roots, roots.update(bytes(9 * MIB)), 30)


def test_an_update_killed_at_any_moment_leaves_the_running_root_first(roots):
    """Either the whole update is tried next, or what runs is started again."""
    update = roots.update(ROOT)
    wanted = hashlib.sha256(ROOT).hexdigest()
    seen = set()
    moment = 1
    while roots.machine.killed_at(moment, "strongroom-appliance", "update", str(update)):
        found = roots.slots()
        seen.add(found["order"])
        assert found["states"]["a"] == "good"
        if found["order"] == "b a":
            assert found["states"]["b"] == "3"
            assert roots.digest("b", len(ROOT)) == wanted
        else:
            assert found["states"]["b"] == "0"
        moment += 1
        assert moment < MOMENTS
    assert roots.digest("b", len(ROOT)) == wanted
    assert "a b" in seen


def test_nothing_is_written_over_the_good_root_while_the_other_is_tried(roots):
    roots.boot("b", "strongroom.trial=2")
    before = roots.digest("a", 8 * MIB)
    done = roots.installer("update", str(roots.update(ROOT)), exit_code=61)
    assert "this root is being tried" in done.stderr
    assert roots.digest("a", 8 * MIB) == before


def test_a_root_that_was_found_good_takes_the_next_update_without_a_restart(roots):
    roots.boot("b", "strongroom.trial=2")
    judge = "from strongroom_appliance.updates.slots import change_states; "
    roots.machine.run(sys.executable, "-c", judge + "change_states(b_state='good')")
    assert roots.slots()["trial"] is False
    roots.installer("update", str(roots.update(ROOT)))
    assert roots.digest("a", len(ROOT)) == hashlib.sha256(ROOT).hexdigest()
    assert roots.slots()["states"] == {"a": "3", "b": "good"}


def test_a_root_that_is_not_healthy_is_given_up_with_a_reason(roots):
    """Here no systemd runs, which is as unhealthy as can be."""
    roots.installer("update", str(roots.update(ROOT)))
    roots.boot("b", "strongroom.trial=2")
    roots.run_image(NEWER)
    done = roots.installer("confirm", "--within", "1", exit_code=21)
    assert "root b (3000-bbbb) is given up" in done.stderr
    assert roots.slots()["states"] == {"a": "good", "b": "0"}
    roots.boot("a")
    roots.run_image(RUNNING_IMAGE)
    said = roots.installer("confirm").stdout
    assert "the update to 3000-bbbb failed, root a runs on" in said
    assert "strongroom-console.service is not active" in said


def test_a_root_that_never_said_anything_is_reported_too(roots):
    roots.installer("update", str(roots.update(ROOT)))
    assert "failed" not in roots.installer("confirm").stdout
    grub_counts_down(roots)
    assert "was not found good once" in roots.installer("confirm").stdout
    assert roots.slots()["update"]["result"] == "failed"


def grub_counts_down(roots):
    """What GRUB does in three starts: it writes into the file's place on the disk."""
    change = f"mount {roots.device}p1 /mnt && sed -i s/b_state=3/b_state=0/ /mnt/grub/grubenv"
    roots.machine.run("sh", "-c", change)


def served(roots, command: str, exit_code: int = 0):
    """Run a command of the machine while a web server there has the updates."""
    script = (
        f"cd {roots.folder}; python3 -m http.server --bind 127.0.0.1 8000 2>/dev/null & "
        "for i in $(seq 600); do curl -s -o /dev/null 127.0.0.1:8000 && break; sleep 0.1; done; "
        f"PATH={SCRIPTS}:$PATH {command}"
    )
    return roots.machine.run("sh", "-c", script, exit_code=exit_code)


def test_an_update_comes_from_a_web_server(roots):
    update = roots.update(ROOT)
    command = "strongroom-appliance update http://127.0.0.1:8000/"
    served(roots, command + update.name)
    assert roots.digest("b", len(ROOT)) == hashlib.sha256(ROOT).hexdigest()
    said = served(roots, command + "none", exit_code=32)
    assert " 404" in said.stderr


def answers_for(roots, more: str) -> str:
    roots.machine.write("/etc/answers.yml", f"version: 1\nupdates: {{{SOURCE}{more}}}\n")
    done = roots.installer("apply", "/etc/answers.yml")
    return str(done.stdout)


def test_the_answers_name_the_source_of_updates_and_the_time_of_the_restart(roots):
    assert "every day at 02:10, then restart" in answers_for(roots, ", reboot: '02:10'")
    schedule = json.loads(roots.machine.path("/etc/strongroom-appliance/updates.json").read_text())
    assert schedule == {"source": f"http://127.0.0.1:8000/{NEWER}.update", "restarts": True}
    place = "/etc/systemd/system/strongroom-update.timer.d/50-answers.conf"
    assert "OnCalendar=*-*-* 02:10" in roots.machine.path(place).read_text()


def test_the_update_of_the_day_is_written_once(roots):
    answers_for(roots, "")
    roots.update(ROOT)
    said = served(roots, "strongroom-appliance update --scheduled")
    assert "the next restart tries it" in said.stdout
    assert roots.slots()["states"] == {"a": "good", "b": "3"}
    roots.boot("b")
    roots.run_image(NEWER)
    said = served(roots, "strongroom-appliance update --scheduled")
    assert "what runs is the newest" in said.stdout


def test_answers_without_updates_end_them(roots):
    answers_for(roots, "")
    answers_for(roots, ", security: no")
    done = roots.installer("update", "--scheduled", exit_code=40)
    assert "no source of updates is set" in done.stderr


def test_a_service_without_a_home_asks_the_director_of_its_user(machine):
    """The judgement and the daily update, to which systemd gives no HOME."""
    machine.write("/root/.config/strongroom/console.toml", "director = 'https://127.0.0.1:9'\n")
    ask = (
        "import sys; from strongroom_appliance.machine import run_for_code; "
        "print(run_for_code([sys.executable, '-m', 'strongroom', 'status'])[1])"
    )
    said = machine.run("env", "-u", "HOME", "-u", "XDG_CONFIG_HOME", sys.executable, "-c", ask)
    assert "https://127.0.0.1:9" in said.stdout
    assert "no director was named" not in said.stdout
