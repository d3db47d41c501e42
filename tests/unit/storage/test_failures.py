"""Foreign errors become ours: the right kind, with the URI and a remedy, and without secrets."""

from __future__ import annotations

import errno
import os
import pickle

import pytest

from tidegate.errors import (
    AccessDenied,
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    StorageError,
    StorageUnavailable,
)
from tidegate.storage.failures import from_client, from_os, safe_cause

URI = "s3://lake/raw/a.json"


def answer(status: int, code: str) -> Exception:
    return RuntimeError(f"Server returned non-2xx status code: {status} X: <Error><Code>{code}</Code></Error>")


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOENT, ObjectMissing),
        (errno.EEXIST, ObjectExists),
        (errno.EACCES, AccessDenied),
        (errno.EPERM, AccessDenied),
        (errno.EROFS, AccessDenied),
        (errno.ENOSPC, StorageError),
        (errno.EDQUOT, StorageError),
        (errno.EIO, StorageUnavailable),
        (errno.ESTALE, StorageUnavailable),
        (errno.EMFILE, StorageError),
        (errno.EINVAL, StorageError),
    ],
)
def test_every_error_of_the_operating_system_has_a_kind_and_a_remedy(number: int, kind: type[StorageError]) -> None:
    error = from_os(OSError(number, os.strerror(number)), URI, "read")
    assert type(error) is kind
    assert URI in str(error)
    assert error.remedy


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AccessDenied", AccessDenied),
        (403, "SignatureDoesNotMatch", AccessDenied),
        (401, "", AccessDenied),
        (404, "NoSuchKey", ObjectMissing),
        (404, "NoSuchBucket", StorageError),
        (412, "PreconditionFailed", ObjectChanged),
        (500, "InternalError", StorageUnavailable),
        (503, "SlowDown", StorageUnavailable),
        (429, "", StorageUnavailable),
        (400, "RequestTimeout", StorageUnavailable),
        (400, "InvalidRequest", StorageError),
    ],
)
def test_every_answer_of_the_store_has_a_kind_and_a_remedy(status: int, code: str, kind: type[StorageError]) -> None:
    error = from_client(answer(status, code), URI, "read")
    assert type(error) is kind
    assert URI in str(error)
    assert error.remedy


@pytest.mark.parametrize("status", [409, 412])
def test_a_refused_condition_of_a_plain_write_may_be_tried_again(status: int) -> None:
    error = from_client(answer(status, "ConditionalRequestConflict"), URI, "write")
    assert type(error) is StorageUnavailable
    assert f"cannot write {URI} (the store answered {status}" in str(error)


def test_a_listing_cut_short_may_be_tried_again() -> None:
    error = from_client(RuntimeError("Got invalid list response: tag not closed"), URI, "list")
    assert type(error) is StorageUnavailable
    assert "cut short" in str(error)


def test_a_missing_bucket_is_not_a_missing_object() -> None:
    error = from_client(FileNotFoundError(str(answer(404, "NoSuchBucket"))), URI, "read")
    assert not isinstance(error, ObjectMissing)
    assert "s3://lake does not exist" in error.remedy


def test_no_answer_may_be_tried_again() -> None:
    error = from_client(RuntimeError("HTTP error: error sending request"), URI, "list")
    assert isinstance(error, StorageUnavailable)
    assert error.retryable


def test_missing_credentials_are_said() -> None:
    error = from_client(RuntimeError("error sending request for url (http://169.254.169.254/x)"), URI, "list")
    assert isinstance(error, AccessDenied)
    assert "no credentials" in str(error)


def test_the_text_of_a_foreign_error_is_not_repeated() -> None:
    error = from_client(RuntimeError("HTTP error for https://x/?sig=CANARY"), URI, "list")
    assert "CANARY" not in str(error)


def test_a_cause_that_holds_a_secret_is_dropped() -> None:
    error = RuntimeError("https://x/?sig=CANARY")
    assert safe_cause(error, ("CANARY",)) is None
    assert safe_cause(error, ("other",)) is error


def test_storage_errors_travel_between_processes() -> None:
    error = from_os(OSError(errno.ENOSPC, "full"), URI, "write")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
