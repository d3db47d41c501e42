"""A file that can be read from anywhere gives one version of an object, or an error."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tidegate.errors import ObjectChanged, ObjectMissing
from tidegate.specs.locations import Location
from tidegate.storage.port import SeekableInput
from tidegate.storage.stores import open_store


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    return Location(tmp_path.as_uri() if request.param == "file" else f"memory://{tmp_path.name}")


def test_any_part_can_be_read(place: Location) -> None:
    store = open_store(place)
    store.put("a", b"0123456789")
    file = io.BufferedReader(SeekableInput(store, "a", etag=store.head("a").etag, size=10), 4)
    assert (file.seek(-3, io.SEEK_END), file.read()) == (7, b"789")
    assert (file.seek(2), file.read(3), file.tell()) == (2, b"234", 5)
    assert (file.seek(1, io.SEEK_CUR), file.read(1)) == (6, b"6")
    assert (file.seek(50), file.read()) == (50, b"")


def test_another_version_is_noticed_when_opening_and_when_reading(place: Location) -> None:
    store = open_store(place)
    store.put("a", b"0123456789")
    for etag, size in ((None, 9), ("another", None)):
        with pytest.raises(ObjectChanged):
            SeekableInput(store, "a", etag=etag, size=size)
    file = SeekableInput(store, "a", etag=None, size=10)
    assert file.read(2) == b"01"
    store.put("a", b"abcdefghij")
    with pytest.raises(ObjectChanged):
        file.read(2)
    with pytest.raises(ObjectMissing):
        SeekableInput(store, "gone", etag=None, size=1)
