"""The reference of mirrors and state documents names every key that real documents of every kind of source have."""

from __future__ import annotations

import json
import re
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.all_cases import for_all
from tidegate.core.messages import SentMessages
from tidegate.core.run_history import RunHistory

TESTS = Path(__file__).parents[1]
TEXT = (TESTS.parent / "docs/reference/state.md").read_text(encoding="utf-8")
STATES = {
    "path": "The state of a source of files",
    "set": "The state of a source of files",
    "column": "The state of a column source",
    "unit": "The state of a source of work units",
    "replay": "The record of a replay",
    "committer": "The state of the committer",
}
NOTES = (".won", ".files", "cold_start.json", ".attempts.json", ".at-work.json")


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the content of everything that the lakes of earlier code keep in JSON beside their tables."""
    for lake in sorted((TESTS / "compat/lakes").glob("*.tar.gz")):
        with tarfile.open(lake) as archive:
            for member in archive:
                path = Path(member.name)
                ours = "_tidegate" in path.parts or "pending" in path.parts
                if ours and member.isfile() and path.suffix in (".json", ".won", ".files"):
                    file = archive.extractfile(member)
                    assert file is not None
                    yield path.name, json.loads(file.read())


def kind_of(state: dict[str, Any]) -> str:
    return str(state.get("tracking") or state.get("kind") or ("committer" if "foreign" in state else "path"))


def found() -> dict[str, set[str]]:
    """The keys that real documents have, by the section of the page that must name them."""
    keys: dict[str, set[str]] = defaultdict(set)
    for name, data in documents():
        if name.endswith("_checkpoint.json"):
            extra = {"delta_version", "tidegate"}
            keys["The mirror"] |= extra
            keys["`tidegate` in a mirror"] |= set(data["tidegate"])
            add_state(keys, {key: value for key, value in data.items() if key not in extra})
        elif re.match(r"\d{20}-.*\.json$", name):
            keys["The state document"] |= set(data)
            add_state(keys, data["state"])
            keys["`identity`"] |= set(data["identity"])
            for section in ("coverage", "data_files"):
                keys[f"`{section}`"] |= {key for each in data[section] for key in each}
        elif name.endswith(NOTES):
            keys["Notes beside the documents"] |= set(data)
        elif name.endswith((".meta.json", ".unit.json")):
            keys["Staged files"] |= set(data)
    # Newer than any of the lakes.
    keys["Notes beside the documents"] |= set(json.loads(RunHistory().to_bytes()))
    keys["Notes beside the documents"] |= set(json.loads(SentMessages().to_bytes()))
    keys["The state document"].add("run")
    return keys


def add_state(keys: dict[str, set[str]], state: dict[str, Any]) -> None:
    keys[STATES[kind_of(state)]] |= set(state)
    for file in state.get("source_state", {}).get("files", {}).values():
        keys["A file in `source_state.files`"] |= set(file) if isinstance(file, dict) else {file}


def on_page(section: str) -> set[str]:
    """The keys in the first column of the tables of a section."""
    body = re.split(rf"^##+ {re.escape(section)}$", TEXT, flags=re.MULTILINE)[1]
    own = re.split(r"^##", body, flags=re.MULTILINE)[0]
    cells = re.findall(r"^\| (`[^|]*) \|", own, flags=re.MULTILINE)
    return {key for cell in cells for key in re.findall(r"`([^`]+)`", cell)} | set(
        re.findall(r"has `(data_files)`", own)
    )


FOUND = found()


def test_the_lakes_have_documents_of_every_kind() -> None:
    assert set(STATES.values()) <= set(FOUND)


@for_all(sorted(FOUND), str)
def test_the_page_names_the_keys_that_real_documents_have_and_no_others(section: str) -> None:
    assert on_page(section) == FOUND[section]
