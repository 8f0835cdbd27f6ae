"""Make a one-file program of another version out of one: newer.py FILE INTO."""

import io
import json
import sys
import zipfile
from pathlib import Path

source, target = Path(sys.argv[1]), Path(sys.argv[2])
made = io.BytesIO()
with zipfile.ZipFile(source) as old, zipfile.ZipFile(made, "w") as new:
    for name in old.namelist():
        content = old.read(name)
        if name == "release.json":
            content = json.dumps({**json.loads(content), "version": "9.0"}).encode()
        new.writestr(name, content)
target.parent.mkdir(parents=True, exist_ok=True)
target.write_bytes(b"#!/usr/bin/env python3\n" + made.getvalue())
