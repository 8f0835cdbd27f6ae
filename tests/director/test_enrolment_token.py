"""The lookup `enrolment_token` with a real authority, and clients that join with what it gives."""

from __future__ import annotations

import hashlib
import re

LOOKUP = "lookup('strongroom.backup.enrolment_token', %s, ca='%s')"


def digest_of(expression):
    """A task that shows a digest of a token."""
    return {"ansible.builtin.debug": {"msg": "digest {{ (%s) | hash('sha256') }}" % expression}}


def digests(said):
    return re.findall(r"digest ([0-9a-f]{64})", said)


def unused(house, pattern):
    told = house.command("ca", "list", "--ca", house.ca)
    return [one for one in told if one["type"] == "enrolment_token" and pattern in (one["name"], one["names"])]


def test_one_token_is_made_for_a_run_however_many_hosts_and_tasks_ask(house, play):
    lookup = LOOKUP % ("names='app*', uses=20, group='servers'", house.ca)
    said = play([digest_of(lookup)] * 2, "--forks", "4", hosts="app1,app2,app3,app4,")
    assert len(digests(said)) == 8
    assert len(set(digests(said))) == 1
    (token,) = unused(house, "app*")
    assert (token["uses"], token["group"]) == (20, "servers")
    again = play([digest_of(lookup)])
    assert digests(again)[0] not in digests(said)


def test_other_arguments_make_another_token(house, play):
    said = play([digest_of(LOOKUP % ("'one%d'" % number, house.ca)) for number in (1, 2)])
    assert len(set(digests(said))) == 2
    assert [len(unused(house, name)) for name in ("one1", "one2")] == [1, 1]


def test_a_machine_joins_with_it_and_it_is_neither_shown_nor_left_behind(house, play, tmp_path):
    lookup = LOOKUP % ("'app9', group='servers', lifetime='15min'", house.ca)
    file = tmp_path / "token"
    said = play(
        [{"ansible.builtin.copy": {"content": "{{ %s }}" % lookup, "dest": str(file), "mode": "0600"}, "no_log": True}],
        "-vvvv",
        "--diff",
        ANSIBLE_LOCAL_TEMP=str(tmp_path / "local"),
        ANSIBLE_LOG_PATH=str(tmp_path / "log"),
        ANSIBLE_REMOTE_TEMP=str(tmp_path / "remote"),
    )
    token = file.read_text()
    assert token
    assert token not in said
    file.unlink()
    left = [path for path in tmp_path.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert not left
    house.join("app9", token)
    assert any(one["name"] == "app9" for one in house.command("clients"))
    house.command("client", "remove", "app9")


def test_through_ssh_the_words_arrive_as_they_are(house, play, tmp_path):
    # As ssh does: the words behind the host are one text for a shell there.
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    words = "names='far *', command=['%s', 'root@vault', 'strongroom']" % ssh
    assert len(digests(play([digest_of(LOOKUP % (words, house.ca))]))) == 1
    assert len(unused(house, "far *")) == 1


def test_in_check_mode_none_is_made(house, play):
    said = play([digest_of(LOOKUP % ("'app8'", house.ca))], "--check")
    assert digests(said) == [hashlib.sha256(b"none-in-check-mode").hexdigest()]
    assert not unused(house, "app8")


def test_what_is_wrong_is_said(house, play):
    for words, text in (
        ("'app7', names='x*'", "give names of clients, or names=PATTERN, or any_name=true"),
        ("'app7', uses=3", "uses is for tokens of names=PATTERN or any_name=true"),
        ("'app7', lifetime='soon'", "soon"),
        ("'app7', command=['strongroom-that-is-not-there']", "say with command="),
        ("'app7', command=['echo']", "gave no JSON"),
    ):
        said = play([digest_of(LOOKUP % (words, house.ca))], exit_code=2)
        assert text in " ".join(said.split()), words
    assert "/nowhere" in play([digest_of(LOOKUP % ("'app7'", "/nowhere"))], exit_code=2)
