"""Who a position belongs to, and where its objects lie below the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.specs.locations import current_identity

ROOT = "_tidegate"
LEGACY_ROOT = "_blizzard"


@dataclass(frozen=True, slots=True)
class SourceKey:
    """One source of one pipeline; all names are constant over its life.

    >>> SourceKey("events", "asia").app_id
    'tidegate/events/asia'
    """

    pipeline: str
    source: str

    def __post_init__(self) -> None:
        for role, name in (("pipeline", self.pipeline), ("source", self.source)):
            if not name or "/" in name or name.startswith(".") or not name.isprintable():
                raise ValueError(
                    f"{name!r} cannot be the name of a {role}: use printable characters other than '/', "
                    "and do not begin with '.'"
                )

    def __str__(self) -> str:
        return f"{self.pipeline}/{self.source}"

    @property
    def app_id(self) -> str:
        """The application id whose ``txn`` version is the position."""
        return f"tidegate/{self.pipeline}/{self.source}"

    @property
    def directory(self) -> str:
        """Where documents lie, relative to the table."""
        return f"{ROOT}/{self.pipeline}/{self.source}"

    def document(self, version: int, attempt: str) -> str:
        """The document of one attempt to reach ``version``."""
        return f"{self.directory}/{version:020d}-{attempt}.json"

    def won(self, version: int, attempt: str) -> str:
        """The note that this attempt is the one in the log."""
        return f"{self.directory}/{version:020d}-{attempt}.won"

    def written(self, version: int, attempt: str) -> str:
        """The data files of a commit that Spark made, read from the log after it.

        Not beside the document: every OPEN lists those.
        """
        return f"{self.directory}/written/{version:020d}-{attempt}.files"

    @property
    def work(self) -> str:
        """Where work areas lie."""
        return f"{self.directory}/work"

    @property
    def ledger(self) -> str:
        """Where the blocks of the ledger lie: what old documents said, 256 positions to a file."""
        return f"{self.directory}/ledger"

    @property
    def cold_start(self) -> str:
        """The state that a first, filtered plan fixed before there was a table."""
        return f"{self.directory}/cold_start.json"

    @property
    def at_work(self) -> str:
        """What a run says while it works on the source.

        Not below ``directory``: every OPEN lists that one, and whatever lies there has tried to make a position.
        """
        return f"{ROOT}/{self.pipeline}/{self.source}.at-work.json"

    @property
    def attempts(self) -> str:
        """What failed before there was any position."""
        return f"{ROOT}/{self.pipeline}/{self.source}.attempts.json"

    def segment(self, sha256: str) -> str:
        """A part of the set of paths that were read, where a source is tracked by a set.

        Not below ``directory``: every OPEN lists that one from the newest document on.
        """
        return f"{ROOT}/{self.pipeline}_{self.source}_set/{sha256}.parquet"

    @property
    def mirror(self) -> str:
        """The newest state, for people."""
        return f"{ROOT}/{self.pipeline}_{self.source}_checkpoint.json"

    @property
    def legacy_mirror(self) -> str:
        """The mirror's older place, written on request only."""
        return f"{LEGACY_ROOT}/{self.pipeline}_{self.source}_checkpoint.json"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a position is a position *in*: it means nothing for another location or another set of names.

    ``notes`` are recorded beside it and may change, such as the hosts of a database. ``formerly`` is how earlier
    releases wrote ``source_uri``: a position with that form is about the same source, and the next commit rewrites it.
    """

    kind: str
    source_uri: str
    pattern: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)
    formerly: str | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, object]:
        """As it is stored."""
        data: dict[str, object] = {"kind": self.kind, "source_uri": self.source_uri, "pattern": self.pattern}
        return data | ({"notes": dict(self.notes)} if self.notes else {})

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Identity:
        """The stored form read back; ``KeyError`` when something is missing."""
        pattern, notes = data["pattern"], data.get("notes")
        kept = {str(name): str(note) for name, note in notes.items()} if isinstance(notes, Mapping) else {}
        return cls(str(data["kind"]), str(data["source_uri"]), None if pattern is None else str(pattern), kept)

    def differences(self, recorded: Identity) -> tuple[str, ...]:
        """One phrase per field that is not as it was recorded; addresses of databases show in today's form alone."""
        source = current_identity(recorded.source_uri)
        is_former = recorded.source_uri in (self.source_uri, self.formerly)
        pairs = (
            ("kind", recorded.kind, self.kind),
            ("source_uri", self.source_uri if is_former else source, self.source_uri),
            ("pattern", recorded.pattern, self.pattern),
        )
        return tuple(f"{name} was {old!r} and is now {new!r}" for name, old, new in pairs if old != new)
