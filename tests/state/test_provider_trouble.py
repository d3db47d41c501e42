"""A state store that is damaged, forbidden or out of reach is an error, never a first run."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from faults.racing import ENVIRONMENT
from servers.postgres import PASSWORD, Server
from servers.s3 import Server as S3Server
from support.errors import raises
from support.providers import Settings, opened, text
from tidegate.errors import (
    AccessDenied,
    ConfigError,
    EnvironmentProblem,
    StateError,
    StorageError,
    StorageUnavailable,
    TidegateError,
    WatermarkError,
)
from tidegate.protocol.providers import BaseMetadataProvider, FileMetadataProvider, Saved, WatermarkManager
from tidegate.protocol.sql_provider import SqliteMetadataProvider
from tidegate.protocol.sqlalchemy_provider import SqlAlchemyMetadataProvider
from tidegate.protocol.store import metadata_provider, provider_of
from tidegate.specs.locations import Location, Secret
from tidegate.specs.project import ProviderKind, StateSpec

IDS = {"job_id": None, "dataflow_run_id": None}
NOBODY = 65534


def save(provider: BaseMetadataProvider, *numbers: int) -> None:
    for number in numbers:
        provider.update_watermark("p/s", text(number), **IDS)


# --- files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def files(folder: Path) -> BaseMetadataProvider:
    return opened({"provider": "file", "url": str(folder)})


def damaged(content: bytes) -> dict[str, bytes]:
    entry = json.loads(content)
    return {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "garbage": b"{oops",
        "not UTF-8": content.replace(b"p/s", b"p/\xff"),
        "a list": b"[1]",
        "null": b"null",
        "other dataflow": json.dumps({**entry, "dataflow_id": "p/t"}).encode(),
        "a number": json.dumps({**entry, "watermark": 7}).encode(),
        "no watermark": json.dumps({**entry, "watermark": None}).encode(),
        "no time": json.dumps({**entry, "updated_at": "yesterday"}).encode(),
        "a key missing": json.dumps({key: value for key, value in entry.items() if key != "number"}).encode(),
        "newer": json.dumps({**entry, "schema_version": 2}).encode(),
    }


@pytest.mark.parametrize("way", damaged(b'{"dataflow_id": "p/s"}'))
def test_a_damaged_file_is_never_a_first_run(files: BaseMetadataProvider, folder: Path, way: str) -> None:
    save(files, 1)
    current = folder / "p" / "s" / "current.json"
    current.write_bytes(damaged(current.read_bytes())[way])
    with raises(StateError, "current.json"):
        files.get_watermark("p/s")
    with raises(StateError, "current.json"):
        files.update_watermark("p/s", text(2), **IDS)
    assert len(list((folder / "p" / "s" / "history").iterdir())) == 1


@pytest.mark.parametrize("way", ["empty", "garbage", "not UTF-8"])
def test_a_damaged_entry_that_is_newer_than_the_current_file_is_an_error(
    files: BaseMetadataProvider, folder: Path, way: str
) -> None:
    save(files, 1)
    current = folder / "p" / "s" / "current.json"
    before = current.read_bytes()
    save(files, 2)
    entry = folder / "p" / "s" / "history" / f"{2:020d}.json"
    entry.write_bytes(damaged(entry.read_bytes())[way])
    current.write_bytes(before)
    with raises(StateError, "history/00000000000000000002.json", "'p/s'"):
        files.get_watermark("p/s")


def test_a_current_file_that_is_old_or_gone_does_not_count(files: BaseMetadataProvider, folder: Path) -> None:
    save(files, 1)
    current = folder / "p" / "s" / "current.json"
    old = current.read_bytes()
    save(files, 2, 3)
    current.write_bytes(old)
    assert files.get_watermark("p/s") == text(3)
    current.unlink()
    assert files.get_watermark("p/s") == text(3)
    save(files, 4)
    assert [saved.watermark for saved in files.history("p/s")] == [text(number) for number in (1, 2, 3, 4)]


def test_an_old_history_may_be_removed(files: BaseMetadataProvider, folder: Path) -> None:
    save(files, 1, 2, 3)
    for number in (1, 2):
        (folder / "p" / "s" / "history" / f"{number:020d}.json").unlink()
    save(files, 4)
    assert files.get_watermark("p/s") == text(4)
    assert [saved.number for saved in files.history("p/s")] == [3, 4]


def test_a_file_where_the_folder_should_be_is_an_error(files: BaseMetadataProvider, folder: Path) -> None:
    folder.write_text("not a folder")
    with raises(StorageError, "state/p/s/current.json", "ENOTDIR"):
        files.get_watermark("p/s")


def asked_by_somebody_else(settings: Settings, path: Path) -> str:
    """What another user of this machine is told, who may not enter the folder at ``path``."""
    program = (
        "import json, os, sys\n"
        "from support.providers import opened\n"
        "from tidegate.errors import TidegateError\n"
        "provider = opened(json.loads(sys.argv[1]))\n"
        "provider.get_watermark('p/s')\n"
        f"os.seteuid({NOBODY}) if os.geteuid() == 0 else os.chmod(sys.argv[2], 0)\n"
        "try: print(provider.get_watermark('p/s'))\n"
        "except TidegateError as error: print(type(error).__name__, error)\n"
    )
    path.chmod(0o700)
    command = [sys.executable, "-c", program, json.dumps(settings), str(path)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    path.chmod(0o700)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_folder_that_may_not_be_read_is_an_error(files: BaseMetadataProvider, folder: Path) -> None:
    save(files, 1)
    told = asked_by_somebody_else({"provider": "file", "url": str(folder)}, folder)
    assert told.startswith("AccessDenied cannot read ")


@pytest.mark.s3
def test_a_bucket_that_refuses_is_an_error(s3: S3Server) -> None:
    location = s3.location("state")
    save(FileMetadataProvider(location), 1)
    reader = FileMetadataProvider(Location(location.uri, s3.reader_options))
    assert reader.get_watermark("p/s") == text(1)
    with pytest.raises(AccessDenied):
        save(reader, 2)
    stranger = {**s3.options, "AWS_SECRET_ACCESS_KEY": "wrong-canary"}
    with pytest.raises(AccessDenied) as caught:
        FileMetadataProvider(Location(location.uri, type(s3.options)(stranger))).get_watermark("p/s")
    assert "wrong-canary" not in str(caught.value)


# --- databases


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def sqlite(path: Path) -> SqliteMetadataProvider:
    return SqliteMetadataProvider(str(path), f"sqlite:///{path}")


FILE_OF_SQLALCHEMY = """
CREATE TABLE tidegate_watermarks (
	dataflow_id VARCHAR(500) NOT NULL, number BIGINT NOT NULL, watermark TEXT NOT NULL, previous TEXT, job_id TEXT,
	dataflow_run_id TEXT, updated_at DATETIME NOT NULL, PRIMARY KEY (dataflow_id)
);
CREATE TABLE tidegate_watermark_history (
	dataflow_id VARCHAR(500) NOT NULL, number BIGINT NOT NULL, watermark TEXT NOT NULL, previous TEXT, job_id TEXT,
	dataflow_run_id TEXT, updated_at DATETIME NOT NULL, PRIMARY KEY (dataflow_id, number)
);
INSERT INTO tidegate_watermarks VALUES ('p/s', 1, '{"id": 1}', NULL, 'j', 'r', '2026-04-03 09:15:00.000007');
INSERT INTO tidegate_watermark_history SELECT * FROM tidegate_watermarks;
"""


def test_a_file_of_sqlalchemy_is_read_and_continued_and_sqlalchemy_reads_ours(database: Path) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.executescript(FILE_OF_SQLALCHEMY)
    ours, theirs = sqlite(database), SqlAlchemyMetadataProvider(Secret(f"sqlite:///{database}"))
    assert ours.last("p/s") == Saved("""{"id": 1}""", None, "j", "r", datetime(2026, 4, 3, 9, 15, 0, 7, UTC), 1)
    save(ours, 2)
    with contextlib.closing(sqlite3.connect(database)) as connection:
        ((when,),) = connection.execute("SELECT updated_at FROM tidegate_watermarks")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}", when)
    assert theirs.history("p/s") == ours.history("p/s")
    assert [saved.number for saved in ours.history("p/s")] == [1, 2]


def test_a_file_has_the_columns_that_sqlalchemy_gives_it(tmp_path: Path) -> None:
    def columns(path: Path) -> list[tuple[object, ...]]:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            query = "SELECT m.name, c.* FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
            return sorted(connection.execute(query).fetchall())

    save(sqlite(tmp_path / "ours.db"), 1)
    save(SqlAlchemyMetadataProvider(Secret(f"sqlite:///{tmp_path / 'theirs.db'}")), 1)
    assert columns(tmp_path / "ours.db") == columns(tmp_path / "theirs.db")


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be read as one" * 100])
def test_a_damaged_database_is_an_error(database: Path, content: bytes) -> None:
    database.write_bytes(content)
    with raises(StateError, "state.db", "not a database", "backup"):
        sqlite(database).get_watermark("p/s")


def test_a_database_cut_short_is_an_error(database: Path) -> None:
    save(sqlite(database), 1)
    database.write_bytes(database.read_bytes()[:6000])
    with pytest.raises(TidegateError):
        sqlite(database).get_watermark("p/s")


def test_a_database_in_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with raises(AccessDenied, "missing/state.db", "unable to open"):
        sqlite(tmp_path / "missing" / "state.db").get_watermark("p/s")
    with raises(AccessDenied, "sqlite", "unable to open"):
        sqlite(tmp_path).get_watermark("p/s")


def test_a_database_that_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    save(sqlite(tmp_path / "state.db"), 1)
    told = asked_by_somebody_else({"provider": "sql", "url": f"sqlite:///{tmp_path / 'state.db'}"}, tmp_path)
    assert told.startswith("AccessDenied the state database sqlite:///")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tidegate_watermarks SET watermark = x'00ff'",
        "UPDATE tidegate_watermarks SET updated_at = 'yesterday'",
        "ALTER TABLE tidegate_watermarks DROP COLUMN previous",
        "DROP TABLE tidegate_watermarks",
        "ALTER TABLE tidegate_watermarks RENAME TO other",
    ],
)
def test_a_row_or_a_table_that_somebody_changed_is_an_error(database: Path, change: str) -> None:
    save(sqlite(database), 1)
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(change)
    connection.close()
    with raises(StateError, "state.db", "tidegate_watermarks"):
        sqlite(database).get_watermark("p/s")


def test_tables_that_another_process_makes_meanwhile_are_no_trouble(database: Path) -> None:
    class Overtaken(SqliteMetadataProvider):
        """Looks for its tables just after another process made them."""

        def _has_tables(self) -> bool:
            save(sqlite(database), 1)
            return super()._has_tables()

    assert Overtaken(str(database), "").get_watermark("p/s") == text(1)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens to, and that nobody else takes meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_a_database_out_of_reach_is_an_error_that_may_pass(closed_port: int) -> None:
    provider = SqlAlchemyMetadataProvider(Secret(f"postgresql://somebody:canary@127.0.0.1:{closed_port}/state"))
    with raises(StorageUnavailable, f"127.0.0.1:{closed_port}") as caught:
        provider.get_watermark("p/s")
    assert caught.value.retryable
    with pytest.raises(StorageUnavailable):
        save(provider, 1)


@pytest.mark.parametrize("password", ["canary-of-this-test", "c@nary/of:this%test"])
def test_a_wrong_password_is_an_error_that_does_not_show_it(postgres: Server, password: str) -> None:
    from urllib.parse import quote

    url = postgres.url(password=quote(password, safe=""))
    provider = SqlAlchemyMetadataProvider(Secret(url))
    with pytest.raises(AccessDenied) as caught:
        provider.get_watermark("p/s")
    shown = f"{caught.value} {caught.value!r} {provider.uri} {pickle.loads(pickle.dumps(caught.value))}"
    assert password not in shown
    assert quote(password, safe="") not in shown
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_user_who_may_not_read_or_write_is_told_so(postgres: Server) -> None:
    database = postgres.new_database()
    save(SqlAlchemyMetadataProvider(Secret(postgres.url(database))), 1)
    with postgres.connect(database) as connection:
        connection.execute(f"CREATE ROLE {database} LOGIN PASSWORD '{PASSWORD}'".encode())
    guest = SqlAlchemyMetadataProvider(Secret(postgres.url(database).replace("//tidegate:", f"//{database}:")))
    with raises(AccessDenied, "permission denied for table tidegate_watermarks"):
        guest.get_watermark("p/s")
    with postgres.connect(database) as connection:
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {database}".encode())
    assert guest.get_watermark("p/s") == text(1)
    with raises(AccessDenied, "permission denied for table tidegate_watermarks"):
        save(guest, 2)


def test_a_database_that_is_not_there_is_an_error(postgres: Server) -> None:
    with raises(TidegateError, 'database "nowhere" does not exist') as caught:
        SqlAlchemyMetadataProvider(Secret(postgres.url("nowhere"))).get_watermark("p/s")
    assert PASSWORD not in str(caught.value)


def test_texts_that_are_no_watermarks_are_an_error(files: BaseMetadataProvider, database: Path) -> None:
    for provider in (files, sqlite(database)):
        for kept in ("{oops", "[1]", '{"a": {"__date__": "x"}}'):
            provider.update_watermark("p/s", kept, **IDS)
            with pytest.raises(WatermarkError):
                WatermarkManager(provider).get_watermark("p/s")


# --- addresses


@pytest.mark.parametrize(
    "url", ["nonsense", "", "oracel://user:canary@host/db", "postgresql://user:canary@host:port/db", "sqlite://"]
)
def test_an_address_that_is_none_is_refused_without_showing_it(url: str) -> None:
    with raises(ConfigError, "state.url") as caught:
        SqlAlchemyMetadataProvider(Secret(url))
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("state", FileMetadataProvider),
        ("file:///srv/state", FileMetadataProvider),
        ("memory://example/state", FileMetadataProvider),
        ("s3://bucket/state", FileMetadataProvider),
        ("s3a://bucket/state", FileMetadataProvider),
        ("sqlite:///state.db", SqliteMetadataProvider),
        ("postgresql://somebody@db/state", SqlAlchemyMetadataProvider),
    ],
)
def test_an_address_tells_the_kind_of_provider(url: str, kind: type[BaseMetadataProvider]) -> None:
    assert isinstance(metadata_provider(url, {"AWS_REGION": "x"} if url.startswith("s3") else None), kind)


def test_postgresql_without_sqlalchemy_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "tidegate.protocol.sqlalchemy_provider")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(EnvironmentProblem) as caught:
        metadata_provider("postgresql://somebody:canary@db/state")
    assert "pip install 'tidegate[sql]'" in caught.value.remedy
    assert metadata_provider(f"sqlite:///{tmp_path / 'state.db'}").get_watermark("p/s") is None


def test_a_provider_without_an_address_is_refused() -> None:
    with raises(ConfigError, "state.url", "'file'"):
        provider_of(StateSpec(ProviderKind.FILE))


def test_the_delta_log_needs_no_provider() -> None:
    assert provider_of(StateSpec()) is None


@pytest.mark.parametrize("dataflow_id", ["", "/", "a//b", "a/", "a\nb"])
def test_an_id_that_no_store_could_keep_is_refused(
    files: BaseMetadataProvider, database: Path, dataflow_id: str
) -> None:
    for provider in (files, sqlite(database)):
        with raises(StateError, "dataflow id", "{pipeline}/{source}"):
            provider.get_watermark(dataflow_id)
        with raises(StateError, "dataflow id", "{pipeline}/{source}"):
            provider.update_watermark(dataflow_id, text(1), **IDS)
