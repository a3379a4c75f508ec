"""Entity keys as bytes: one text as it stands in the buffer, several fields joined."""

from collections.abc import Sequence

import numpy as np

from features.columns import Columns
from features.kernels.texts import join_keys
from features.state import Keys


def entity_keys(columns: Columns, fields: Sequence[str]) -> Keys:
    """The key of each event; null where one of the fields is missing."""
    if len(fields) == 1 and columns.schema[fields[0]].type is str:
        there = columns.is_valid(fields[0]).view(np.bool_)
        return Keys(buffer=columns.buffer, refs=np.where(there, columns.word(fields[0]), -1))
    parts = np.ascontiguousarray([columns.word(name) for name in fields])
    valid = np.ascontiguousarray([columns.is_valid(name) for name in fields])
    is_text = np.array([columns.schema[name].type is str for name in fields], np.uint8)
    texts = parts[is_text.view(np.bool_)][valid[is_text.view(np.bool_)].view(np.bool_)] & 0xFFFFFF
    buffer = np.empty(8 * parts.size + int(texts.sum()) + 16, np.uint8)
    refs = np.empty(len(columns), np.int64)
    join_keys(columns.base, parts, valid, is_text, buffer.ctypes.data, refs)
    return Keys(buffer=buffer, refs=refs)
