"""What is recognised of the systems that people come from: keys that mean nothing here."""

from __future__ import annotations

from tidegate.specs.foreign import Foreign

FOREIGN = Foreign(
    keys={
        "global.connection_pooling": "Tidegate always pools connections",
        "pipelines.*.sources.*.batch_size": "decoders choose the size of their batches by memory",
    },
)
