"""The closed vocabularies of the language: which words a directive of a given type may take.

A word in OWN_KEYWORDS is Strongroom's: known in our dialect, rejected where Bareos would reject it.
Comparison ignores case; the spelling here is the canonical one.
"""

from __future__ import annotations

_GZIP = tuple(f"GZIP{level}" for level in range(1, 10))
_CIPHERS = (
    "aes128",
    "aes192",
    "aes256",
    "camellia128",
    "camellia192",
    "camellia256",
    "aes128hmacsha1",
    "aes256hmacsha1",
    "blowfish",
)
BACKUP_LEVELS = ("Full", "Base", "Incremental", "Differential", "Since", "VirtualFull")
VERIFY_LEVELS = ("Catalog", "InitCatalog", "VolumeToCatalog", "DiskToCatalog", "Data")
MESSAGE_TYPES = (
    "abort",
    "debug",
    "fatal",
    "error",
    "warning",
    "info",
    "saved",
    "notsaved",
    "skipped",
    "mount",
    "terminate",
    "restored",
    "security",
    "alert",
    "volmgmt",
    "audit",
    "all",
)
# Type of the directive -> its words.
KEYWORDS: dict[str, tuple[str, ...]] = {
    "ACTIONONPURGE": ("None", "Truncate"),
    "AUTHPROTOCOLTYPE": ("Native", "NDMPv2", "NDMPv3", "NDMPv4"),
    "AUTHTYPE": ("None", "Clear", "MD5"),
    "CIPHER": _CIPHERS,
    "CMPRSALGO": ("GZIP", "LZO", "LZFAST", "LZ4", "LZ4HC"),
    "IODIRECTION": ("in", "out", "both", "readonly", "writeonly", "readwrite"),
    "JOBTYPE": (
        "Backup",
        "Admin",
        "Archive",
        "Verify",
        "Restore",
        "Copy",
        "Migrate",
        "Consolidate",
    ),
    "KTLS": ("yes", "no", "true", "false", "auto", "require"),
    "LABEL": ("Bareos", "ANSI", "IBM"),
    "LEVEL": (*BACKUP_LEVELS, *VERIFY_LEVELS),
    "MIGTYPE": (
        "SmallestVolume",
        "OldestVolume",
        "PoolOccupancy",
        "PoolTime",
        "PoolUncopiedJobs",
        "Client",
        "Volume",
        "Job",
        "SqlQuery",
    ),
    "NOTIFYTYPE": ("Mail", "Webhook", "Slack", "Matrix", "Ntfy", "Gotify", "Command"),
    "POOLTYPE": ("Backup", "Copy", "Cloned", "Archive", "Migration", "Scratch"),
    "PROTOCOLTYPE": ("Native", "NDMP_BAREOS", "NDMP_NATIVE", "NDMP"),
    "REPLACE": ("Always", "IfNewer", "IfOlder", "Never"),
    "RUNSCRIPT_WHEN": ("Before", "After", "AfterVSS", "Always"),
    "SMTPSECURITY": ("StartTLS", "TLS", "None"),
}
_YES_NO = ("yes", "no")
# Option of a FileSet -> its words; those with a rule of their own are in fileset_options.
OPTION_KEYWORDS: dict[str, tuple[str, ...]] = {
    "Compression": ("GZIP", *_GZIP, "LZO", "LZFAST", "LZ4", "LZ4HC"),
    "Signature": ("MD5", "SHA1", "SHA256", "SHA512", "XXH128"),
    "Replace": ("Always", "IfNewer", "Never"),
    "Shadowing": ("None", "LocalWarn", "LocalRemove", "GlobalWarn", "GlobalRemove"),
    **dict.fromkeys(
        (
            "OneFs",
            "Recurse",
            "Sparse",
            "HardLinks",
            "ReadFifo",
            "Portable",
            "MtimeOnly",
            "KeepAtime",
            "NoAtime",
            "Exclude",
            "AclSupport",
            "XAttrSupport",
            "IgnoreCase",
            "HfsPlusSupport",
            "EnhancedWild",
            "CheckFileChanges",
            "HonorNoDumpFlag",
            "AutoExclude",
            "ForceEncryption",
        ),
        _YES_NO,
    ),
}
# Option or type -> words that only Strongroom knows.
OWN_KEYWORDS: dict[str, tuple[str, ...]] = {
    "Compression": ("None", "Auto", "ZSTD", *(f"ZSTD{level}" for level in range(1, 20))),
    "Signature": ("None", "BLAKE3"),
}
# Words that old trees use and that no daemon of today takes -> what to write.
BACULA_KEYWORDS: dict[str, tuple[str, ...]] = {
    "LABEL": ("Bacula",),
    "LEVEL": ("None",),
    "AUTHTYPE": ("Clear",),
}
