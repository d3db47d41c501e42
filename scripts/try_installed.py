"""Uses an installed Tidegate: NDJSON into a table by the local engine and the native reader, in a folder of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = """\
engine: local
source: {source_uri: in/, format: ndjson}
schema: {fields: [{name: id, type: int64}, {name: name, type: string}]}
sink: {table_uri: lake/rows}
"""


def tidegate(folder: Path, *arguments: str) -> dict[str, object]:
    command = [sys.executable, "-m", "tidegate", *arguments, "--json"]
    return dict(json.loads(subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE).stdout))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reader = tidegate(folder, "version")["json_reader"]
        assert str(reader).startswith("native"), reader
        (folder / "in").mkdir()
        (folder / "in" / "1.ndjson").write_text('{"id": 1, "name": "one"}\n{"id": 2, "name": "zwei"}\n')
        (folder / "rows.yml").write_text(CONFIG)
        for rows in (2, 0):
            (source,) = tidegate(folder, "run", "rows.yml")["sources"]  # type: ignore[misc,attr-defined]
            assert source["rows"] == rows, source
    print(f"{reader}: two rows, exactly once")


if __name__ == "__main__":
    main()
