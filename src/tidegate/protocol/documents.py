"""What is written about a position: its document, the ``.won`` note, the commit tag in the log, and the mirror.

``{version:020d}-{attempt}.json`` is the **document**: the complete new state, written before its commit, and immutable:
one plain PUT under a name that only one attempt uses. Many attempts may reach for the same version; the log says whose
won, and ``….won`` beside the document repeats it. Spark names its data files while it commits, so they are saved
afterwards, as a debt, and readers of such a document get them with it.

``{"tidegate": [{pipeline, source, version, attempt, sha256, identity, state}]}`` in the log entry: one **commit tag**
per source that the commit moves. The state is without its late window; above 4 KB it is zlib-compressed and
base64-encoded. Beside it stand the debts of the commit and the number of open dead letters, if any.

The **mirror** shows the newest state in one readable file per source, for people, dashboards and ``status``: the
state's own fields on top and, under ``tidegate``, whose position it is. It follows the commit and may be older than the
table; correctness depends only on whether it exists. Only OPEN knows whether it shows the newest state.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegate.core.json_shape import load_json
from tidegate.errors import ObjectMissing, StateError
from tidegate.failpoints import failpoint
from tidegate.protocol.change import Coverage, DataFile, Identity, SourceKey, State

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore

SCHEMA_VERSION = 1


def encode(data: Mapping[str, Any]) -> bytes:
    """Canonical JSON, so that its hash is meaningful."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(data: bytes) -> str:
    """The sha256 of a document's bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def check_schema_version(data: Mapping[str, Any], what: str) -> None:
    """Refuse what a newer Tidegate wrote, before reading any other field."""
    found = data.get("schema_version")
    if isinstance(found, int) and found > SCHEMA_VERSION:
        raise StateError(
            f"{what} has schema_version {found}, but this Tidegate knows only {SCHEMA_VERSION}; nothing was written",
            "upgrade Tidegate on this machine to at least the version that wrote it",
        )


@dataclass(frozen=True, slots=True)
class Parent:
    """The position that a document builds on; winners form a chain of these."""

    version: int
    attempt: str
    sha256: str

    def to_json(self) -> dict[str, object]:
        return {"version": self.version, "attempt": self.attempt, "sha256": self.sha256}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Parent:
        return cls(int(data["version"]), str(data["attempt"]), str(data["sha256"]))


@dataclass(frozen=True, slots=True)
class Document:
    """One attempt to move one source from ``version - 1`` to ``version``.

    ``delta_version`` is the table's version when the position was opened, -1 without a table. ``letters`` is the number
    of open dead letters of the source after it. ``run`` is the id of the run that made it, if a run did.
    """

    key: SourceKey
    identity: Identity
    version: int
    attempt: str
    parent: Parent | None
    table_id: str | None
    delta_version: int
    state: State
    coverage: tuple[Coverage, ...]
    data_files: tuple[DataFile, ...]
    rows: int
    written_at: str
    dead_letter_files: tuple[DataFile, ...] = ()
    debts: tuple[Mapping[str, Any], ...] = ()
    action: str = "run"
    letters: int = 0
    run: str = ""

    def to_bytes(self) -> bytes:
        return encode(
            {
                "schema_version": SCHEMA_VERSION,
                "pipeline": self.key.pipeline,
                "source": self.key.source,
                "identity": self.identity.to_json(),
                "version": self.version,
                "attempt": self.attempt,
                "parent": None if self.parent is None else self.parent.to_json(),
                "table_id": self.table_id,
                "delta_version": self.delta_version,
                "state": dict(self.state),
                "coverage": [item.to_json() for item in self.coverage],
                "data_files": [item.to_json() for item in self.data_files],
                "dead_letter_files": [item.to_json() for item in self.dead_letter_files],
                "debts": [dict(debt) for debt in self.debts],
                "action": self.action,
                "rows": {"written": self.rows, "open_letters": self.letters},
                "written_at": self.written_at,
                **({"run": self.run} if self.run else {}),
            }
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> Document:
        """Decode a document; ``ValueError`` or ``KeyError`` if it is none, ``StateError`` if it is newer."""
        data = load_json(content)
        if not isinstance(data, dict):
            raise ValueError("not a JSON object")
        check_schema_version(data, f"the document of {data.get('pipeline')}/{data.get('source')}")
        parent, table_id = data["parent"], data["table_id"]
        return cls(
            key=SourceKey(data["pipeline"], data["source"]),
            identity=Identity.from_json(data["identity"]),
            version=int(data["version"]),
            attempt=str(data["attempt"]),
            parent=None if parent is None else Parent.from_json(parent),
            table_id=None if table_id is None else str(table_id),
            delta_version=int(data["delta_version"]),
            state=dict(data["state"]),
            coverage=tuple(map(Coverage.from_json, data["coverage"])),
            data_files=tuple(map(DataFile.from_json, data["data_files"])),
            rows=int(data["rows"]["written"]),
            written_at=str(data["written_at"]),
            dead_letter_files=tuple(map(DataFile.from_json, data["dead_letter_files"])),
            debts=tuple(data["debts"]),
            action=str(data.get("action", "run")),
            letters=int(data["rows"].get("open_letters", 0)),
            run=str(data.get("run", "")),
        )


@dataclass(frozen=True, slots=True)
class Stored:
    """A document as found: ``document`` is None if its content is damaged or belongs to something else."""

    attempt: str
    sha256: str
    document: Document | None


@dataclass(frozen=True, slots=True)
class Won:
    """The ``.won`` note: which commit it was, and how far the log after it was checked.

    No RESTORE follows the commit up to table version ``checked``; only ``unseen``, the first and last version whose
    entries had been cleaned up, could not be checked. ``paid``: the commit owes nothing more. ``added`` are the data
    files of its entry that its document could not name, because their writer chose the names.
    """

    version: int
    attempt: str
    sha256: str
    table_version: int
    table_id: str
    checked: int
    unseen: tuple[int, int] | None = None
    paid: bool = False
    added: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        return encode(
            {
                "version": self.version,
                "attempt": self.attempt,
                "sha256": self.sha256,
                "table_version": self.table_version,
                "table_id": self.table_id,
                "checked": self.checked,
                "unseen": self.unseen,
                "paid": self.paid,
                **({"added": self.added} if self.added else {}),
            }
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> Won | None:
        """Decode a note; None if it is damaged."""
        try:
            data = load_json(content)
            unseen = data["unseen"]
            return cls(
                int(data["version"]),
                str(data["attempt"]),
                str(data["sha256"]),
                int(data["table_version"]),
                str(data["table_id"]),
                int(data["checked"]),
                None if unseen is None else (int(unseen[0]), int(unseen[1])),
                bool(data.get("paid", False)),
                tuple(map(str, data.get("added", ()))),
            )
        except (ValueError, KeyError, TypeError, IndexError):
            return None


@dataclass(frozen=True, slots=True)
class Name:
    """An object of a source's directory: ``ending`` is ``json`` (a document) or ``won``."""

    version: int
    attempt: str
    ending: str


def parse_name(path: str) -> Name | None:
    """The parts of the name of a document or note; None for any other object."""
    stem, _, ending = path.rpartition("/")[2].rpartition(".")
    # By place, not by splitting: an attempt is a UUID, which has dashes of its own.
    digits, dash, attempt = stem[:20], stem[20:21], stem[21:]
    if ending not in ("json", "won") or dash != "-" or not attempt:
        return None
    return Name(int(digits), attempt, ending) if digits.isascii() and digits.isdigit() else None


def names(store: ObjectStore, key: SourceKey, from_version: int = 0, to_version: int | None = None) -> Iterator[Name]:
    """Every document and note of the source from ``from_version`` up to ``to_version``, ascending.

    Stops at the first object after them, so that nothing else in the directory is listed.
    """
    after = f"{key.directory}/{from_version:020d}" if from_version else None
    for found in store.list(key.directory, after):
        # Digits sort before letters, so the folders come after the last document.
        if found.path.startswith(f"{key.ledger}/"):
            return
        name = parse_name(found.path)
        if name is not None and to_version is not None and name.version > to_version:
            return
        if name is not None and name.version >= from_version:
            yield name


def read(store: ObjectStore, key: SourceKey, version: int, attempt: str) -> Stored | None:
    """The document of that attempt; None without one.

    A document of another source, version or attempt counts as damaged.
    """
    try:
        content = store.get(key.document(version, attempt))
    except ObjectMissing:
        return None
    try:
        document: Document | None = Document.from_bytes(content)
    # Not ``StateError``: a document of a newer version is no damaged one.
    except (ValueError, KeyError, TypeError, AttributeError):
        document = None
    # A document copied under another name must not pass for that attempt's.
    if document is not None and (document.key, document.version, document.attempt) != (key, version, attempt):
        document = None
    if document is not None and (files := _read_saved_files(store, document)):
        document = replace(document, data_files=files)
    return Stored(attempt, digest(content), document)


def read_won(store: ObjectStore, key: SourceKey, version: int, attempt: str) -> Won | None:
    """The note of that attempt; None if it is missing, damaged or about another commit."""
    try:
        note = Won.from_bytes(store.get(key.won(version, attempt)))
    except ObjectMissing:
        return None
    return note if note is not None and (note.version, note.attempt) == (version, attempt) else None


WORK = "work"
"""The debt of every commit by Spark."""


def save_files(store: ObjectStore, key: SourceKey, version: int, attempt: str, entry: bytes) -> None:
    """Save the files that a log entry adds, for the document of a commit by Spark."""
    files = [file.to_json() for file in _parse_added_files(entry)]
    store.put(key.file_list(version, attempt), json.dumps({"data_files": files}).encode())


def _parse_added_files(entry: bytes) -> Iterator[DataFile]:
    for line in entry.splitlines():
        if line.startswith(b'{"add":'):
            add = load_json(line)["add"]
            rows = load_json(add.get("stats") or "{}").get("numRecords", 0)
            yield DataFile(unquote(str(add["path"])), int(add["size"]), int(rows), add.get("partitionValues") or {})


def _read_saved_files(store: ObjectStore, document: Document) -> tuple[DataFile, ...]:
    """The saved files of this document; none if Spark did not write it, and before the debt is paid."""
    if not any(debt.get("kind") == WORK for debt in document.debts):
        return ()
    try:
        data = load_json(store.get(document.key.file_list(document.version, document.attempt)))
        return tuple(map(DataFile.from_json, data["data_files"]))
    except (ObjectMissing, ValueError, KeyError, TypeError, AttributeError):
        return ()


FIELD = "tidegate"
# Every later reader of the log loads this text; a small state stays readable in the table's history.
COMPRESS_ABOVE = 4096

_BACKUP = "put the document of that position back from a backup, or write into a new table_uri"


class DamagedCommitTag(StateError):
    """The state inside a log entry cannot be read."""


@dataclass(frozen=True, slots=True)
class CommitTag:
    """Says that this commit is the attempt that moved ``key`` to ``version``."""

    key: SourceKey
    version: int
    attempt: str
    sha256: str
    identity: Identity | None
    packed: Mapping[str, Any]

    def to_json(self) -> dict[str, object]:
        return {
            "pipeline": self.key.pipeline,
            "source": self.key.source,
            "version": self.version,
            "attempt": self.attempt,
            "sha256": self.sha256,
            "identity": None if self.identity is None else self.identity.to_json(),
            **self.packed,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CommitTag:
        known = {"pipeline", "source", "version", "attempt", "sha256", "identity"}
        identity = data.get("identity")
        return cls(
            SourceKey(data["pipeline"], data["source"]),
            int(data["version"]),
            str(data["attempt"]),
            str(data["sha256"]),
            None if identity is None else Identity.from_json(identity),
            {name: value for name, value in data.items() if name not in known},
        )

    @property
    def debts(self) -> tuple[Mapping[str, Any], ...]:
        """What the commit left to do, beyond note and mirror."""
        return tuple(self.packed.get("debts", ()))

    @property
    def letters(self) -> int:
        """The number of open dead letters after the commit."""
        return int(self.packed.get("letters", 0))

    def state(self) -> State:
        """The embedded state; ``StateError`` if it is damaged or newer than this program."""
        what = f"the commit tag of {self.key} at position {self.version}"
        check_schema_version(self.packed, what)
        try:
            text = self.packed.get("state_zlib")
            state = self.packed["state"] if text is None else load_json(zlib.decompress(base64.b64decode(text)))
        except (KeyError, ValueError, TypeError, zlib.error) as error:
            raise DamagedCommitTag(f"{what} has no readable state", _BACKUP) from error
        if not isinstance(state, dict):
            raise DamagedCommitTag(f"{what} has no readable state", _BACKUP)
        return state


def new_tag(document: Document, sha256: str, state: State) -> CommitTag:
    """The tag of the attempt with that document; ``state`` is without its late window."""
    text = encode(state)
    packed: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    if len(text) > COMPRESS_ABOVE:
        packed["state_zlib"] = base64.b64encode(zlib.compress(text, 6)).decode()
    else:
        packed["state"] = dict(state)
    if document.debts:
        packed["debts"] = [dict(debt) for debt in document.debts]
    if document.letters:
        packed["letters"] = document.letters
    if document.run:
        packed["run"] = document.run
    return CommitTag(document.key, document.version, document.attempt, sha256, document.identity, packed)


def user_metadata(tags: Sequence[CommitTag]) -> str:
    """The ``userMetadata`` of a commit that holds these tags.

    A dollar sign is written as JSON's ``\\u0024``, the same text to every reader: Spark gets the note as a setting, and
    in settings it replaces ``${…}`` by variables of its own and of the environment.
    """
    return encode({FIELD: [tag.to_json() for tag in tags]}).decode().replace("$", "\\u0024")


def parse_tags(text: object) -> tuple[CommitTag, ...]:
    """The tags in a commit's ``userMetadata``; none if another program wrote it."""
    # Every entry of every writer passes here, and most are not ours: a search is cheaper than parsing.
    if not isinstance(text, str) or f'"{FIELD}"' not in text:
        return ()
    try:
        items = load_json(text)[FIELD]
        return tuple(map(CommitTag.from_json, items))
    # Any program may write a userMetadata; what is not a tag of ours moves nothing.
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


@dataclass(frozen=True, slots=True)
class Mirror:
    """One source's newest recorded state; ``delta_version`` is the table version its commit was based on.

    ``shown_by`` is ``mirror``, or ``document`` if the mirror lags behind.
    """

    key: SourceKey
    version: int
    attempt: str
    table_version: int
    delta_version: int
    state: State
    polls: int
    written_at: str
    letters: int = 0
    shown_by: str = "mirror"

    def to_bytes(self) -> bytes:
        """The file's content, indented for people."""
        about = {
            "pipeline": self.key.pipeline,
            "source": self.key.source,
            "version": self.version,
            "attempt": self.attempt,
            "table_version": self.table_version,
            "polls": self.polls,
            "written_at": self.written_at,
            "open_letters": self.letters,
        }
        import orjson

        content = {**self.state, "delta_version": self.delta_version, "tidegate": about}
        return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def from_bytes(cls, content: bytes) -> Mirror:
        """Decode a mirror; ``ValueError``, ``KeyError`` or ``TypeError`` if it is none."""
        data: dict[str, Any] = load_json(content)
        about = data.pop("tidegate")
        return cls(
            SourceKey(about["pipeline"], about["source"]),
            int(about["version"]),
            str(about["attempt"]),
            int(about["table_version"]),
            int(data.pop("delta_version")),
            data,
            int(about["polls"]),
            str(about["written_at"]),
            int(about.get("open_letters", 0)),
        )


def write_mirror(store: ObjectStore, mirror: Mirror, second: str | None = None) -> None:
    """Replace the mirror in one step; the same at the path ``second``, if there is one."""
    content = mirror.to_bytes()
    failpoint("state.mirror.before")
    store.put(mirror.key.mirror, content)
    if second is not None:
        store.put(second, content)
    failpoint("state.mirror.after")


def read_mirror(store: ObjectStore, key: SourceKey) -> Mirror | None:
    """The mirror; None if it is missing, damaged or another source's."""
    try:
        mirror = Mirror.from_bytes(store.get(key.mirror))
    except (ObjectMissing, ValueError, KeyError, TypeError, AttributeError):
        return None
    return mirror if mirror.key == key else None


def is_mirror_of(store: ObjectStore, key: SourceKey) -> bool:
    """Whether a mirror exists and is not plainly another source's (``a_b``/``c`` and ``a``/``b_c`` share a name)."""
    try:
        content = store.get(key.mirror)
    except ObjectMissing:
        return False
    try:
        return Mirror.from_bytes(content).key == key
    # A damaged mirror still proves that there was a commit; taken for a first run, everything would be read again.
    except (ValueError, KeyError, TypeError, AttributeError):
        return True


def read_recorded(store: ObjectStore, key: SourceKey) -> Mirror | None:
    """The newest recorded position of ``key``, from its mirror or a newer document; None without either.

    ``table_version`` is -1 for a document without a note.
    """
    mirror = read_mirror(store, key)
    winners = [name for name in names(store, key, 1 if mirror is None else mirror.version + 1) if name.ending == "won"]
    for name in sorted(winners, key=lambda name: name.version, reverse=True):
        found = read(store, key, name.version, name.attempt)
        if found is not None and (document := found.document) is not None:
            note = read_won(store, key, name.version, name.attempt)
            return Mirror(
                key,
                document.version,
                document.attempt,
                -1 if note is None else note.table_version,
                document.delta_version,
                document.state,
                0,
                document.written_at,
                document.letters,
                shown_by="document",
            )
    return mirror
