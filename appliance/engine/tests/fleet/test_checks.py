"""`--check` of the three daemons: what a start would fail on is said, and where it is."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import sys
from contextlib import closing

import pytest
from sqlalchemy import create_engine, inspect

from kit.appliance_keys import appliance_key_text
from kit.tiny_backup import PASSPHRASE, new_repository
from strongroom.agent.service import check_agent
from strongroom.base.errors import (
    CatalogError,
    ConfigurationError,
    RepositoryExistsError,
)
from strongroom.cli.daemons import log_faults
from strongroom.cli.main import command_parser
from strongroom.cli.terminal import Terminal
from strongroom.director.catalog.database import open_catalog
from strongroom.director.checking import check_director
from strongroom.engine.repository.keys.files import export_key
from strongroom.engine.stores.local import LocalStore
from strongroom.net.identities.authority import Authority
from strongroom.storage.service import check_storage

DIRECTOR = """
Director {{ Name = boss; Password = x; Messages = standard; Address = {address}; Port = 1
  Working Directory = "{folder}/state"; Identity Directory = "{folder}/boss"
  Authority Directory = "{folder}/ca"; Authority Passphrase File = "{folder}/ca-passphrase"
  Appliance Key File = "{folder}/appliance.key"; {director} }}
Messages {{ Name = standard; Console = all }}
Catalog {{ Name = main; Db Name = main; Db User = x; {catalog} }}
Storage {{ Name = vault; Address = 127.0.0.1; Password = x; Device = disk; Media Type = File
  Repository = "{folder}/repository"; Passphrase File = "{folder}/passphrase" }}
Storage {{ Name = remote; Address = 127.0.0.1; Password = x; Device = disk; Media Type = File
  Repository = "unix:/nowhere/there.sock"; Passphrase File = "{folder}/passphrase" }}
Pool {{ Name = all; Pool Type = Backup }}
Client {{ Name = web1; Address = 192.0.2.1; Password = x }}
FileSet {{ Name = home; Include {{ File = /home }} }}
Job {{ Name = nightly; Type = Backup; Client = web1; FileSet = home; Storage = vault; Pool = all
  Messages = standard }}
"""
STORAGE = """
Storage {{ Name = vault; Address = {address}; Identity Directory = "{folder}/vault"
  Maintenance Socket = "{folder}/run/storage.sock"; {clients}; {storage} }}
Director {{ Name = boss; Password = x }}
Device {{ Name = disk; Media Type = File; Archive Device = "{folder}/repository" }}
"""
AGENT = """
Client {{ Name = web1; Identity Directory = "{folder}/web1"; Address = {address}
  Working Directory = "{folder}/working" }}
Director {{ Name = boss; Password = x; Connection From Director To Client = yes }}
"""
USUAL = {
    "address": "127.0.0.1",
    "director": "",
    "catalog": "",
    "storage": "",
    "clients": 'Clients = "*all*"',
}


class Site:
    """Folders and files of three daemons that could start."""

    def __init__(self, folder, capsys) -> None:
        self.folder = folder
        self.capsys = capsys

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)

    def check(self, daemon: str, text: str = "", **settings: str) -> tuple[int, list[str]]:
        """Exit code, and the lines of errors and warnings."""
        text = text or {"director": DIRECTOR, "storage": STORAGE, "agent": AGENT}[daemon]
        self.write(f"{daemon}.conf", text.format(folder=self.folder, **USUAL | settings))
        before = self.listing()
        words = ["--check", "--config", str(self.folder / f"{daemon}.conf")]
        arguments = command_parser(daemon).parse_args(words)
        code = arguments.run(arguments, Terminal())
        assert self.listing() == before, "a check makes and changes nothing"
        return code, self.capsys.readouterr().err.splitlines()

    def listing(self) -> dict[str, int]:
        found = {}
        for place, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(place, name)
                found[path] = os.stat(path).st_mtime_ns
        return found


def tables_of(url) -> list[str]:
    engine = create_engine(url, connect_args={"client_encoding": "utf8"})
    found = inspect(engine).get_table_names()
    engine.dispose()
    return sorted(found)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Nothing is missing here; made once, for making keys takes its time."""
    folder = tmp_path_factory.mktemp("whole")
    site = Site(folder, None)
    authority = Authority.create(str(folder / "ca"), "test", b"authority's")
    for name, role in (("boss", "director"), ("vault", "storage"), ("web1", "agent")):
        authority.issue_identity(str(folder / name), name, role, ())
    site.write("ca-passphrase", "authority's\n")
    site.write("passphrase", PASSPHRASE.decode() + "\n")
    repository = new_repository(LocalStore(str(folder / "repository")))
    site.write("appliance.key", appliance_key_text(repository.key))
    put_key = export_key(repository.key.put_key("web1"))
    repository.close()
    (folder / "run").mkdir()
    (folder / "web1" / "put-keys").mkdir(mode=0o700)
    site.write("web1/put-keys/one.key", put_key)
    return folder


@pytest.fixture
def site(whole, tmp_path, capsys):
    return Site(shutil.copytree(whole, tmp_path / "site"), capsys)


@pytest.mark.parametrize("daemon", ["director", "storage", "agent"])
def test_a_daemon_that_could_start_has_no_faults(site, daemon):
    assert site.check(daemon) == (0, [])
    open_catalog(f"sqlite:///{site.folder}/state/main.sqlite").close()
    assert site.check(daemon) == (0, [])


def test_what_a_director_could_not_do_is_told_with_its_place(site):
    verify = "Job {{ Name = v; Type = Verify; Client = web1; FileSet = home; Storage = vault\n"
    verify += "  Pool = all; Messages = standard{more} }}\n"
    text = DIRECTOR.format(folder=site.folder, **USUAL)
    (site.folder / "tree").mkdir()
    site.write("tree/storage.conf", STORAGE.format(folder=site.folder, **USUAL))
    site.write("tree/director.conf", text + verify.format(more="; Job To Verify = nightly"))
    assert check_director(str(site.folder / "tree"))[1].warnings == []
    elsewhere = text.replace("Device = disk", "Device = tape", 1)
    site.write("tree/director.conf", elsewhere + verify.format(more="; Enabled = no"))
    device, unverified = check_director(str(site.folder / "tree"))[1].warnings[::-1]
    assert "director.conf:8:60: " in device
    assert "warning: the storage daemon vault serves no Device tape; it has disk" in device
    assert "warning: Verify job v needs Job To Verify" in unverified
    site.write("tree/director.conf", text + verify.format(more=""))
    with pytest.raises(ConfigurationError, match=r"director.conf:\d+:1: .*job v "):
        check_director(str(site.folder / "tree"))


# What is taken away or spoilt, and what is said: the directive, the id, the file.
@pytest.mark.parametrize(
    ("file", "text", "code", "said"),
    [
        ("passphrase", None, 2, "[usage]: Passphrase File of Storage vault: cannot read"),
        ("passphrase", "\n", 2, "[usage]: Passphrase File of Storage vault: the first line of"),
        ("boss/certificate.pem", None, 2, "[usage]: Identity Directory: "),
        ("boss/key.pem", None, 2, "[usage]: Identity Directory: "),
        ("ca/root.pem", None, 2, "[usage]: Authority Directory: "),
        ("ca/root.key", None, 2, "[usage]: Authority Directory: cannot read"),
        ("ca-passphrase", None, 2, "[usage]: Authority Passphrase File: cannot read"),
        ("ca-passphrase", "no\n", 12, "[wrong-key]: Authority Directory: wrong passphrase"),
        ("appliance.key", None, 2, "[usage]: Appliance Key File: cannot read"),
        ("appliance.key", "no key", 2, "[usage]: Appliance Key File: "),
        ("state", "a file", 71, "[operating-system]: Working Directory: "),
    ],
)
def test_what_a_director_lacks_is_named(site, file, text, code, said):
    assert (site.folder / file).exists() or file == "state"
    if text is None:
        (site.folder / file).unlink()
    else:
        site.write(file, text)
    found, lines = site.check("director")
    assert found == code
    assert any(said in line for line in lines), lines
    assert all(line.startswith("strongroom: error [") for line in lines)


def test_all_faults_are_told_at_once_and_the_first_gives_the_code(site):
    for name in ("passphrase", "appliance.key", "boss/authority.pem"):
        (site.folder / name).unlink()
    code, lines = site.check("director", address="192.0.2.9")
    assert code == 2
    beginnings = [line.removeprefix("strongroom: error ").split(": ")[:2] for line in lines]
    assert beginnings == [
        ["[usage]", "Identity Directory"],
        ["[usage]", "Appliance Key File"],
        ["[usage]", "Passphrase File of Storage vault"],
        ["[usage]", "Passphrase File of Storage remote"],
        ["[operating-system]", "Address, Port and Addresses of the Director"],
    ]


def test_a_start_logs_all_faults_and_leaves_to_itself_which_are_fatal(site, caplog):
    caplog.set_level(logging.INFO)
    settings = {"address": "192.0.2.9", "clients": ""}
    for name in ("passphrase", "web1/certificate.pem"):
        (site.folder / name).unlink()
    for daemon, check, expected in (
        (
            "director",
            check_director,
            [
                "[usage]: Passphrase File of Storage vault: cannot read",
                "[usage]: Passphrase File of Storage remote: cannot read",
                "[operating-system]: Address, Port and Addresses of the Director: ",
            ],
        ),
        (
            "storage",
            check_storage,
            [
                "Clients is empty: no agent may connect",
                "[operating-system]: Address, Port and Addresses of the Storage: ",
            ],
        ),
        (
            "agent",
            check_agent,
            [
                "[usage]: Identity Directory: ",
                "[operating-system]: Address, Port and Addresses of the Client: ",
            ],
        ),
    ):
        site.check(daemon, **settings)
        caplog.clear()
        log_faults(check, str(site.folder / f"{daemon}.conf"))
        assert len(caplog.messages) == len(expected), caplog.messages
        for message, beginning in zip(caplog.messages, expected, strict=True):
            assert message.startswith(beginning)


def test_a_configuration_that_is_none_is_left_to_the_start(site, caplog):
    site.write("wrong.conf", "Director {")
    log_faults(check_director, str(site.folder / "wrong.conf"))
    assert caplog.messages == []


@pytest.mark.parametrize("error", [OSError("away"), ValueError("a fault of ours")])
def test_a_check_that_fails_keeps_nothing_from_starting(caplog, error):
    def check(path):
        raise error

    log_faults(check, "/nowhere")
    assert "the check before the start failed" in caplog.messages[0]


def test_a_certificate_of_another_is_none(site):
    (site.folder / "boss").rename(site.folder / "away")
    (site.folder / "web1").rename(site.folder / "boss")
    code, lines = site.check("director")
    assert code == 33
    assert lines[0].startswith("strongroom: error [peer-refused]: Identity Directory: ")


def test_cipher_suites_that_there_are_not_are_told(site):
    wrong = 'TLS Cipher Suites = "RC4"'
    for daemon, settings in (("director", {"director": wrong}), ("storage", {"storage": wrong})):
        code, lines = site.check(daemon, **settings)
        assert code == 2
        assert "TLS Cipher Suites" in lines[0]


def test_a_catalog_of_a_newer_version_or_of_nothing_is_told(site):
    path = site.folder / "state" / "main.sqlite"
    catalog = open_catalog(f"sqlite:///{path}")
    with catalog.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    catalog.close()
    code, lines = site.check("director")
    assert code == 66
    assert "[catalog]: Catalog main: " in lines[0]
    assert "9999" in lines[0]
    path.write_bytes(b"no database " * 1000)
    code, lines = site.check("director")
    assert code == 66
    assert str(path) in lines[0]


def test_a_database_of_something_else_is_told(site):
    path = site.folder / "state" / "main.sqlite"
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE job (jobid integer)")
    code, lines = site.check("director")
    assert code == CatalogError.exit_code
    assert "[catalog]: Catalog main: " in lines[0]
    with pytest.raises(CatalogError, match="another program"):
        open_catalog(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("job",)]


def test_a_database_of_bacula_on_postgresql_is_told_and_left_alone(site, cluster):
    url = cluster.new_database()
    cluster.execute("CREATE TABLE job (jobid integer)", url.database)
    cluster.execute("CREATE TABLE version (versionid integer)", url.database)
    catalog = f'Db Name = {url.database}; Db User = strongroom; Db Socket = "{cluster.folder}"'
    catalog = DIRECTOR.replace("Db Name = main; Db User = x; {catalog}", catalog)
    code, lines = site.check("director", text=catalog)
    assert code == CatalogError.exit_code
    assert "(job, version)" in lines[0]
    with pytest.raises(CatalogError, match="another program"):
        open_catalog(url)
    assert tables_of(url) == ["job", "version"]


def test_a_database_without_an_encoding_is_told(site, cluster):
    url = cluster.new_database("ENCODING 'SQL_ASCII' TEMPLATE template0")
    catalog = f'Db Name = {url.database}; Db User = strongroom; Db Socket = "{cluster.folder}"'
    text = DIRECTOR.replace("Db Name = main; Db User = x; {catalog}", catalog)
    code, lines = site.check("director", text=text)
    assert code == CatalogError.exit_code
    assert "SQL_ASCII" in lines[0]
    with pytest.raises(CatalogError, match="UTF8"):
        open_catalog(url)
    assert tables_of(url) == []


def test_mysql_is_told_as_not_supported(site):
    for driver in ("mysql", "MySQL"):
        with pytest.raises(ConfigurationError, match="PostgreSQL"):
            site.check("director", catalog=f'Db Driver = "{driver}"')
    assert site.check("director", catalog='Db Driver = "postgresql"')[0] == 0


def test_a_database_server_that_is_away_is_told(site):
    code, lines = site.check("director", catalog=f'Db Socket = "{site.folder}/none"')
    assert code == 67
    assert "[catalog-unavailable]: Catalog main: " in lines[0]


def test_a_driver_that_is_not_installed_is_told(site, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    code, lines = site.check("director", catalog='Db Socket = "/run/postgresql"')
    assert code == 51
    assert "[missing-part]: Catalog main: " in lines[0]
    assert "postgresql" in lines[0]


def test_a_repository_that_is_not_there_is_told(site):
    (site.folder / "repository").rename(site.folder / "away")
    code, lines = site.check("director")
    assert code == 10
    assert "[repository-not-found]: Repository of Storage vault: " in lines[0]
    # The storage daemon makes its folder where it may.
    assert site.check("storage") == (0, [])


def test_what_a_storage_daemon_lacks_is_named(site):
    (site.folder / "vault" / "key.pem").unlink()
    (site.folder / "run").rmdir()
    (site.folder / "run").write_text("no folder")
    code, lines = site.check("storage", address="192.0.2.9")
    assert code == 2
    assert [line.split(": ")[2] for line in lines] == [
        "Identity Directory",
        "Maintenance Socket",
        "Address, Port and Addresses of the Storage",
    ]


def test_a_folder_of_something_else_is_no_repository(site):
    shutil.rmtree(site.folder / "repository")
    (site.folder / "repository").mkdir()
    (site.folder / "repository" / "Full-0001").write_text("a volume of Bareos")
    code, lines = site.check("storage")
    assert code == RepositoryExistsError.exit_code
    assert "Archive Device of Device disk: " in lines[0]
    assert "Full-0001" in lines[0]


def test_a_storage_daemon_without_a_certificate_serves_its_socket(site):
    (site.folder / "vault" / "certificate.pem").unlink()
    code, lines = site.check("storage")
    assert code == 0
    assert len(lines) == 1
    assert "socket" in lines[0]


def test_a_book_of_a_newer_version_is_told(site):
    folder = site.folder / "repository" / "provenance"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "objects.sqlite")) as database:
        database.execute("pragma user_version = 99")
    code, lines = site.check("storage")
    assert code == 30
    assert "[store]: Archive Device of Device disk: " in lines[0]


def test_what_an_agent_lacks_is_named(site):
    (site.folder / "web1" / "put-keys" / "one.key").unlink()
    code, lines = site.check("agent", address="192.0.2.9")
    assert code == 71
    assert "warning" in lines[0]
    assert "put key" in lines[0]
    assert "Address, Port and Addresses of the Client" in lines[1]
    (site.folder / "web1" / "key.pem").unlink()
    code, lines = site.check("agent")
    assert code == 2
    assert "Identity Directory" in lines[0]
