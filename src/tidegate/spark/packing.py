"""Functions for ``mapInArrow`` together with what they need, packed so that nothing can be read on the way."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class Packed:
    """``work`` with further arguments ``needs``; both are unpacked in the task."""

    def __init__(self, work: Callable[..., Iterator[pa.RecordBatch]], *needs: object) -> None:
        self._payload = zlib.compress(pickle.dumps((work, needs)), level=1)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        work, needs = pickle.loads(zlib.decompress(self._payload))
        yield from work(batches, *needs)


def pickled(result: object) -> pa.RecordBatch:
    """One result on its way to the driver, as the column ``result binary``."""
    import pyarrow as pa

    return pa.record_batch({"result": [pickle.dumps(result)]})
