"""The state provider: whether it has the address that it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidegate.config.problems import Problem, nearest, problem, sentence
from tidegate.config.tree import Block
from tidegate.errors import StorageError
from tidegate.storage.options import split_uri

_DATABASES = ("sqlite", "postgresql")


def state_problems(root: Block) -> Iterator[Problem]:
    """Problems of ``state``, none of which quotes its address."""
    state = root.block("state")
    provider, url = str(state.text("provider") or "delta"), state.get("url")
    if provider == "delta" and url is not None:
        text = "the position is kept in the log of each table, which needs no address; set provider: file or sql"
        yield problem(root, ("state", "url"), text)
    if provider in ("file", "sql") and url is None:
        what = "the folder" if provider == "file" else "an address such as sqlite:///state.db"
        yield problem(root, ("state", "url"), f"is missing; the provider {provider} needs {what}")
    if provider == "sql" and (text := _address_problem(str(state.text("url") or ""))):
        yield problem(root, ("state", "url"), text)
    if provider == "file" and not _is_place(str(state.text("url") or "")):
        text = (
            "is an address of an unknown kind; allowed: a path, or an object storage address such as s3://bucket/state"
        )
        yield problem(root, ("state", "url"), text)
    if provider != "file" and state.block("storage_options"):
        yield problem(root, ("state", "storage_options"), "is about the folder of the provider file; remove it")


def _is_place(url: str) -> bool:
    try:
        split_uri(url if "://" in url else "file:///")
    except StorageError:
        return False
    return True


def _address_problem(url: str) -> str:
    if not url:
        return ""
    if url.startswith("jdbc:"):
        return "is a JDBC address; allowed: one of SQLAlchemy, such as postgresql+psycopg://user:…@host/database"
    found = re.match(r"([a-z0-9]+)(?:\+\w+)?://", url)
    if found is None:
        return "is not an address; allowed: such as sqlite:///state.db or postgresql://host/database"
    if found[1] not in _DATABASES:
        return sentence(
            "is an address of another database", f"allowed: {', '.join(_DATABASES)}", nearest(found[1], _DATABASES)
        )
    if re.fullmatch(r"sqlite(?:\+\w+)?://(?:/|/:memory:)?", url):
        return "names no file, so that every run would begin anew; allowed: such as sqlite:///state.db"
    return ""
