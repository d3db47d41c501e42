"""Everything below a store as one stream: several directories at a time where waiting for an answer costs time.

The stream is never ahead of its reader by more than a few pages, and an error of any request is the reader's.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from queue import Queue

from tidegate.errors import SourceError
from tidegate.observe.wording import visible
from tidegate.planning.reasons import Tally
from tidegate.storage.port import PAGE, ObjectInfo, ObjectStore
from tidegate.storage.scope import INTERNAL, Scope

PAGES_AHEAD = 2


def list_everything(store: ObjectStore, scope: Scope) -> Generator[ObjectInfo, None, None]:
    """Every object in ``scope``, each once; those of one directory in ascending order."""
    if store.concurrency == 1:
        yield from store.list(scope=scope)
        return
    top = store.list_directory(scope=scope)
    yield from top.objects
    with closing(_pages(store, top.directories, scope)) as pages:
        for page in pages:
            yield from page


def refuse_left_out(scope: Scope, uri: str, remedy: str) -> None:
    """``SourceError`` if something was left out of a listing that has to be whole, for want of a place to tell it."""
    tally = Tally()
    for path, reason in scope.unseen.items():
        if not any(part.startswith(INTERNAL) for part in path.split("/")):
            tally.add(reason, visible(path))
    for each in tally.result():
        raise SourceError(f"{uri}: {each}", remedy)


def _pages(store: ObjectStore, directories: Sequence[str], scope: Scope) -> Generator[list[ObjectInfo], None, None]:
    width = min(store.concurrency, len(directories))
    pages: Queue[list[ObjectInfo] | Exception | None] = Queue(maxsize=PAGES_AHEAD * width)
    stopped = threading.Event()
    left = iter(directories)
    taking = threading.Lock()

    def work() -> None:
        try:
            while not stopped.is_set():
                with taking:
                    directory = next(left, None)
                if directory is None:
                    return
                listed = iter(store.list(directory, scope=scope))
                while not stopped.is_set() and (page := list(islice(listed, PAGE))):
                    pages.put(page)
        except Exception as error:
            pages.put(error)
        finally:
            pages.put(None)

    with ThreadPoolExecutor(max(1, width), "list") as pool:
        for _ in range(width):
            pool.submit(work)
        working = width
        try:
            while working:
                page = pages.get()
                if isinstance(page, Exception):
                    raise page
                if page is None:
                    working -= 1
                else:
                    yield page
        finally:
            stopped.set()
            while working:
                working -= pages.get() is None
