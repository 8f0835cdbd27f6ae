"""From a FileSet resource to what the agent is told, and what it makes of that."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from strongroom.base.errors import ConfigurationError, RefusedError, SourceError, UsageError
from strongroom.config.filesets import chosen_fileset, fileset_notes, fileset_spec
from strongroom.config.model import Resource
from strongroom.config.settings.fileset import FileSetSettings
from strongroom.config.table.schema import schema
from strongroom.engine.backup.fileset_options import with_fileset
from strongroom.engine.backup.options import BackupOptions, Tuning, compressions_of
from strongroom.engine.filesets.resolve import plugin_source, resolve_fileset
from strongroom.engine.filesets.spec import FileSetInclude, FileSetOptions, FileSetSpec


def resource(folder: Path, body: str) -> Resource:
    file = folder / "fileset.conf"
    file.write_text(f'FileSet {{\n Name = "Set"\n {body}\n}}\n')
    return chosen_fileset(str(file))


def fileset(folder: Path, body: str) -> FileSetSettings:
    return FileSetSettings.of(resource(folder, body))


def options_of(folder: Path, text: str) -> FileSetOptions:
    spec = fileset_spec(fileset(folder, f"Include {{ File = /x\n Options {{\n{text}\n}} }}"))
    return spec.includes[0].options[0]


def test_everything_a_fileset_says_arrives(tmp_path):
    settings = fileset(
        tmp_path,
        """Include {
             Options { Compression = LZ4; Exclude = yes; IgnoreCase = yes; EnhancedWild = yes
               Wild = "*.a"; Wild = "*.b"; WildDir = "/c"; WildFile = "d"
               Regex = "e"; RegexDir = "f$"; RegexFile = "^g" }
             Options { Signature = SHA256; OneFs = no; Recurse = no; AclSupport = no
               XattrSupport = no; HonorNoDumpFlag = yes; FsType = ext4; FsType = xfs; Size = 1k-2k }
             File = "/one"
             File = "/two"
             Plugin = "bpipe:file=/three:reader=echo three:writer=cat"
             Exclude Dir Containing = .nobackup
           }
           Include { File = /four }
           Exclude { File = /five
             File = "*.six" }""",
    )
    assert fileset_spec(settings) == FileSetSpec(
        name="Set",
        includes=(
            FileSetInclude(
                files=("/one", "/two"),
                options=(
                    FileSetOptions(
                        exclude=True, compression="lz4", ignore_case=True, enhanced_wild=True,
                        wild=("*.a", "*.b"), wild_dir=("/c",), wild_file=("d",),
                        regex=("e",), regex_dir=("f$",), regex_file=("^g",),
                    ),
                    FileSetOptions(
                        signature="sha256", one_file_system=False, recurse=False, acls=False,
                        xattrs=False, honor_no_dump=True, file_system_types=("ext4", "xfs"),
                        smallest_bytes=1024, largest_bytes=2048,
                    ),
                ),
                plugins=("bpipe:file=/three:reader=echo three:writer=cat",),
                exclude_dir_containing=(".nobackup",),
            ),
            FileSetInclude(files=("/four",)),
        ),
        excludes=("/five", "*.six"),
    )  # fmt: skip


def test_unset_options_are_those_of_bareos(tmp_path):
    options = options_of(tmp_path, "Sparse = yes")
    assert options == FileSetOptions()
    assert (options.one_file_system, options.recurse, options.acls) == (True, True, None)


@pytest.mark.parametrize(
    ("text", "smallest", "largest"),
    [("<1k", None, 1023), (">1k", 1025, None), ("1k-1k", 1024, 1024), ("1000", 991, 1009)],
)
def test_sizes_bound_as_bareos_compares_them(tmp_path, text, smallest, largest):
    options = options_of(tmp_path, f'Size = "{text}"')
    assert (options.smallest_bytes, options.largest_bytes) == (smallest, largest)


def test_each_option_is_mapped_or_told_to_have_no_effect(tmp_path):
    values = {
        "Accurate": "mcs", "Verify": "pins5", "Replace": "always", "StripPath": "1",
        "Shadowing": "none", "Size": "<1k", "Compression": "gzip", "Signature": "md5",
        "DriveType": "fixed", "FsType": "ext4", "Meta": "x", "Plugin": '"x:y=z"',
    }  # fmt: skip
    patterns = {"Regex", "RegexDir", "RegexFile", "Wild", "WildDir", "WildFile"}
    options = schema().blocks["Options"]
    unset = FileSetOptions()
    for spec in options.by_key.values():
        if spec.bacula or spec.retired is not None:
            continue
        choices = [values.get(spec.name, "x" if spec.name in patterns else "")]
        if choices == [""]:
            choices = ["yes", "no"]
        said = [
            resource(tmp_path, f"Include {{ File = /x\n Options {{ {spec.name} = {choice} }} }}")
            for choice in choices
        ]
        acts = any(FileSetSettings.of(one).includes[0].options[0] != unset for one in said)
        assert acts != bool(fileset_notes(said[0])), spec.name


def test_lists_and_commands_are_read_where_they_are_meant_to(tmp_path):
    listed = tmp_path / "list"
    listed.write_text("/listed/one\n\n  /listed/two\r\n")
    here = fileset(tmp_path, f'Include {{ File = "<{listed}"\n File = "|echo /of/command" }}')
    with pytest.raises(RefusedError):
        fileset_spec(here)
    (include,) = fileset_spec(here, allow_commands=True).includes
    assert include.files == ("/listed/one", "/listed/two", "/of/command")
    there = fileset(tmp_path, f'Include {{ File = "\\\\<{listed}"\n File = "\\\\|echo /etc" }}')
    spec = fileset_spec(there)
    assert spec.includes[0].files == (f"\\<{listed}", "\\|echo /etc")
    with pytest.raises(RefusedError):
        resolve_fileset(spec)
    resolved = resolve_fileset(spec, allow_commands=True)
    assert resolved.source.paths() == (b"etc",)
    assert [problem.path for problem in resolved.problems] == [b"listed/one", b"listed/two"]
    assert not any(problem.is_harmless for problem in resolved.problems)
    for wrong in ("\\|exit 3", "\\<" + str(tmp_path / "none")):
        broken = FileSetSpec(name="broken", includes=(FileSetInclude(files=(wrong,)),))
        with pytest.raises(SourceError):
            resolve_fileset(broken, allow_commands=True)


def test_a_fileset_of_nothing_that_is_there_is_an_error(tmp_path):
    include = FileSetInclude(files=(str(tmp_path / "none"), "relative"))
    with pytest.raises(SourceError):
        resolve_fileset(FileSetSpec(name="nothing", includes=(include,)))


def test_paths_within_others_are_walked_once(tmp_path):
    (tmp_path / "sub").mkdir()
    include = FileSetInclude(files=(f"{tmp_path}/sub", str(tmp_path), f"{tmp_path}/"))
    resolved = resolve_fileset(FileSetSpec(name="nested", includes=(include,)))
    assert resolved.source.paths() == (os.fsencode(tmp_path.resolve()).strip(b"/"),)


def settled(tmp_path, *options: FileSetOptions, **tuning: object):
    include = FileSetInclude(files=(str(tmp_path),), options=options)
    resolved = resolve_fileset(FileSetSpec(name="Set", includes=(include,)))
    return with_fileset(BackupOptions("host", tuning=Tuning(**tuning)), resolved)  # type: ignore[arg-type]


def test_what_holds_for_all_files_is_the_jobs_own_setting(tmp_path):
    excluding = FileSetOptions(exclude=True, wild=("*.tmp",))
    plain = FileSetOptions(compression="gzip4", signature="md5", acls=False)
    options, notes = settled(tmp_path, excluding, plain)
    assert str(options.tuning.compression) == "gzip4"
    assert (options.tuning.signature, options.tuning.acls, options.tuning.xattrs) == (
        "md5", False, True,
    )  # fmt: skip
    assert (options.treatments, options.treatment_digest, notes) == ((), "", ())
    assert options.fileset == "Set"


def test_what_differs_by_file_is_kept_apart(tmp_path):
    special = FileSetOptions(wild=("*.gz",), compression="none", signature="none")
    plain = FileSetOptions(signature="sha1")
    options, _ = settled(tmp_path, special, plain)
    assert options.tuning.signature == "sha1"
    assert [(str(one.compression), one.signs) for one in options.treatments] == [
        ("auto", False), ("none", False), ("auto", True),
    ]  # fmt: skip
    assert list(map(str, compressions_of(options))) == ["auto", "none"]
    assert options.attribute_options()["treatments"]
    only_compression, _ = settled(tmp_path, FileSetOptions(wild=("*.gz",), compression="none"))
    assert not only_compression.treatment_digest


def test_several_signatures_become_the_strongest_and_that_is_told(tmp_path):
    options, notes = settled(
        tmp_path,
        FileSetOptions(wild=("*.gz",), signature="md5"),
        FileSetOptions(signature="sha256"),
    )
    assert options.tuning.signature == "sha256"
    assert "md5, sha256" in notes[0]
    with pytest.raises(UsageError):
        settled(tmp_path, FileSetOptions(compression="brotli"))
    with pytest.raises(UsageError):
        settled(tmp_path, FileSetOptions(signature="crc32"))


def test_plugins_are_sources(tmp_path):
    source = plugin_source(
        r"bpipe:file=/dumps/db.sql:reader=sh -c 'printf a\:b':writer=cat", allow_commands=True
    )
    (stream,) = source.streams()
    buffer = bytearray(10)
    assert (stream.name, stream.readinto(memoryview(buffer)), bytes(buffer[:3])) == (
        b"db.sql", 3, b"a:b",
    )  # fmt: skip
    stream.finish()
    (stream,) = plugin_source("bpipe:/old/style:echo x:cat", allow_commands=True).streams()
    assert stream.name == b"style"
    stream.close()
    with pytest.raises(RefusedError):
        plugin_source("bpipe:file=/x:reader=echo", allow_commands=False)
    for wrong in ("bpipe:", "bpipe:file=/x:reader=", "bpipe:file=/x:reader='", "stdin", "files:x"):
        with pytest.raises(UsageError):
            plugin_source(wrong, allow_commands=True)
    with pytest.raises(UsageError, match="'python3'"):
        plugin_source("python3:module_name=bareos-fd-x", allow_commands=True)


def test_a_fileset_is_found_by_name(tmp_path):
    file = tmp_path / "sets.conf"
    file.write_text("FileSet { Name = A\n Include { File = /a } }\nFileSet { Name = B }\n")
    assert chosen_fileset(f"{file}:B").name == "B"
    for wrong in (str(file), f"{file}:C", str(tmp_path / "none"), f"{tmp_path}/none:A"):
        with pytest.raises(UsageError):
            chosen_fileset(wrong)
    file.write_text("FileSet { Name = A")
    with pytest.raises(ConfigurationError):
        chosen_fileset(str(file))


def test_it_goes_over_the_wire(tmp_path):
    spec = FileSetSpec(name="a", includes=(FileSetInclude(files=("/x",)),), excludes=("/y",))
    assert msgspec.json.decode(msgspec.json.encode(spec), type=FileSetSpec) == spec
