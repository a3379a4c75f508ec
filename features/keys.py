"""Entity keys as bytes: one text as it stands in the buffer, several fields joined."""

from collections.abc import Sequence

import numpy as np

from features.columns import Columns
from features.kernels.texts import join_keys, joined_bytes
from features.schema import Schema
from features.state import Keys


class EntityKey:
    """The entity key of a feature set.

    Args:
        schema: Of the columns.
        fields: That make it up.
    """

    def __init__(self, schema: Schema, fields: Sequence[str]) -> None:
        self._text = fields[0] if len(fields) == 1 and schema[fields[0]].type is str else None
        self._parts = np.array([schema.place(name) for name in fields], np.int64)
        self._is_text = np.array([schema[name].type is str for name in fields], np.uint8)

    def of(self, columns: Columns) -> Keys:
        """The key of each event; null where one of the fields is missing."""
        if self._text is not None:
            there = columns.is_valid(self._text).view(np.bool_)
            return Keys(
                address=columns.base,
                refs=np.where(there, columns.word(self._text), -1),
                buffer=columns.buffer,
            )
        size = joined_bytes(columns.words, columns.valid, self._parts, self._is_text)
        buffer, refs = np.empty(size + 16, np.uint8), np.empty(len(columns), np.int64)
        address = buffer.ctypes.data
        join_keys(columns.base, columns.words, columns.valid, self._parts, self._is_text, address, refs)
        return Keys(address=address, refs=refs, buffer=buffer)
