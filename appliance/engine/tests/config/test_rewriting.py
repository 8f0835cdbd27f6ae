"""fmt, diff, explain, convert, schema and docs, as a user runs them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kit.project import DOCUMENTS
from strongroom.config.reports.reference import reference_pages

SITE = Path(__file__).parent / "data" / "site"
BACULA = Path(__file__).parent / "data" / "bacula"


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def site(tmp_path):
    return Path(shutil.copytree(SITE, tmp_path / "site"))


def test_fmt_prints_checks_and_rewrites(config, tmp_path):
    file = tmp_path / "bareos-fd.conf"
    file.write_text("Client{Name=c}\n")
    assert config("fmt", str(file)).stdout == "Client {\n  Name = c\n}\n"
    assert config("fmt", "--check", str(file)).returncode == 1
    assert file.read_text() == "Client{Name=c}\n"
    file.chmod(0o600)
    assert config("fmt", "--write", str(file)).returncode == 0
    assert file.read_text() == "Client {\n  Name = c\n}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert config("fmt", "--check", str(file)).returncode == 0


def test_diff_is_about_meaning(config, site):
    file = site / "bareos-dir.d" / "pool" / "i.conf"
    file.write_text(file.read_text().replace("30 days", "720 hours").replace("Recycle = yes", ""))
    assert config("diff", str(SITE), str(site)).returncode == 0
    file.write_text(file.read_text().replace("720 hours", "1 week"))
    (site / "bareos-dir.d" / "console" / "c.conf").unlink()
    (site / "bareos-dir.d" / "x").mkdir()
    (site / "bareos-dir.d" / "x" / "y.conf").write_text("Pool { Name = More }")
    client = site / "bareos-dir.d" / "client" / "c.conf"
    client.write_text(client.read_text().replace('"p"', '"q"'))
    done = config("diff", "--json", str(SITE), str(site))
    assert done.returncode == 1
    found = [
        (one["type"], one["resource"], one["name"], one["directive"], one["before"], one["after"])
        for one in lines(done)
    ]
    assert found == [
        ("changed", "Client", "web-fd", "Password", "***", "***"),
        ("removed", "Console", "mon", "", None, None),
        ("changed", "Pool", "Inc", "Volume Retention", 2592000, 604800),
        ("added", "Pool", "More", "", None, None),
    ]


def test_explain_tells_what_has_no_effect(config):
    found = {
        (one["resource"], one["directive"]): one["status"]
        for one in lines(config("explain", "--json", str(SITE)))
        if one["type"] == "directive"
    }
    assert found["Pool Inc", "Label Format"] == "no effect"
    assert found["Pool Inc", "Volume Retention"] == "mapped"
    assert found["Client web-fd", "Address"] == "acted on"
    assert found["FileSet Linux / Include / Options", "Signature"] == "acted on"


def test_convert_makes_a_tree_that_loads_and_reports_the_rest(config, tmp_path):
    target = tmp_path / "new"
    done = config("convert", str(SITE), "--into", str(target))
    assert done.returncode == 0, done.stderr
    checked = config("check", "--json", "--werror", str(target))
    assert checked.returncode == 0, checked.stdout
    assert lines(checked)[-1]["resources"] == {
        "director": 14,
        "storage": 3,
        "agent": 4,
        "console": 1,
    }
    pool = (target / "director.d" / "pool" / "Inc.conf").read_text()
    assert "  Keep Within = 30 days\n" in pool
    assert "Label Format" not in pool
    report = (target / "CONVERSION.md").read_text()
    assert "Pool Inc | Label Format |" in report
    assert "Pool Inc | Volume Retention | to Keep Within |" in report
    again = config("convert", str(SITE), "--into", str(target))
    assert again.returncode == 2
    assert "not empty" in again.stderr


def test_a_bacula_tree_loads_as_it_is_and_converts(config, tmp_path):
    checked = config("check", "--json", "--root", str(BACULA), str(BACULA / "etc"))
    assert [one for one in lines(checked) if one["type"] == "finding"] == []
    target = tmp_path / "new"
    done = config("convert", "--root", str(BACULA), str(BACULA / "etc"), "--into", str(target))
    assert done.returncode == 0, done.stderr
    assert config("check", "--werror", str(target)).returncode == 0
    shown = config("show", "--json", "--config", str(target), "Job/BackupClient1")
    values = {one["name"]: one["value"] for one in lines(shown)[0]["values"]}
    assert (values["Client"], values["Level"], values["Pool"]) == ("web-fd", "Incremental", "File")
    report = (target / "CONVERSION.md").read_text()
    assert "Pid Directory" in report
    assert "Backups To Keep" in report
    assert "Autochanger" not in (target / "director.d" / "storage" / "File1.conf").read_text()


def faults(schema, value, definitions):
    """How often `value` breaks `schema`, for the keywords that our schema uses."""
    if "$ref" in schema:
        return faults(definitions[schema["$ref"].removeprefix("#/$defs/")], value, definitions)
    kinds = {
        "array": list,
        "object": dict,
        "string": str,
        "boolean": bool,
        "integer": int,
        "null": type(None),
    }
    found = 0
    if "type" in schema:
        names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        found += type(value) not in [kinds[name] for name in names]
    found += "enum" in schema and value not in schema["enum"]
    found += "minimum" in schema and isinstance(value, int) and value < schema["minimum"]
    if isinstance(value, list) and "items" in schema:
        found += sum(faults(schema["items"], one, definitions) for one in value)
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        found += sum(key not in known for key in value)
        found += sum(
            faults(known[key], one, definitions) for key, one in value.items() if key in known
        )
    return found


def test_the_schema_fits_what_show_prints(config):
    definitions = json.loads(config("schema").stdout)["$defs"]
    shown = lines(config("show", "--json", "--config", str(SITE)))
    assert len(shown) > 20
    for one in shown:
        values = {value["name"]: value["value"] for value in one["values"]}
        assert faults(definitions[f"{one['component']}.{one['type']}"], values, definitions) == 0
    wrong = {"Name": "p", "Recycle": "maybe", "Nonsense": 1, "Volume Retention": -1}
    assert faults(definitions["director.Pool"], wrong, definitions) == 3
    assert (
        "director.Pool" not in json.loads(config("schema", "--component", "agent").stdout)["$defs"]
    )


def test_the_reference_in_docs_is_what_the_table_says():
    for name, text in reference_pages().items():
        assert (DOCUMENTS / "reference" / name).read_text("utf-8") == text, (
            f"run: strongroom config docs ({name})"
        )


def test_docs_are_written_and_checked(config, tmp_path):
    assert config("docs", "--into", str(tmp_path / "d")).returncode == 0
    assert config("docs", "--check", "--into", str(tmp_path / "d")).returncode == 0
    page = tmp_path / "d" / "configuration-director.md"
    assert "| **Keep Daily** | number |" in page.read_text()
    page.write_text("old")
    assert config("docs", "--check", "--into", str(tmp_path / "d")).returncode == 1
