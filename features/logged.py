"""Logged features: the values that a prediction carries beside its digest, and back to rows."""

from collections.abc import Mapping, Sequence

import numpy as np

from features.engine import Engine
from features.rows import Rows

Features = dict[str, float | int | str | None]
"""A row's values by column: null where missing, and as text the bits of a float without a plain decimal."""

NAN_BITS = 0x7FC00000
"""Of a missing value."""


def logged_bits(value: float | str | None) -> int:
    """The bits of a logged float, as an unsigned integer."""
    if value is None:
        return NAN_BITS
    return int(value, 16) if isinstance(value, str) else int(np.float32(value).view(np.uint32))


def rows_of(engine: Engine, logged: Sequence[Mapping[str, float | int | str | None]]) -> Rows:
    """Logged rows that have exactly the engine's columns."""
    bits = [[logged_bits(row[name]) for name in engine.float_columns] for row in logged]
    ids = [[row[name] for name in engine.category_columns] for row in logged]
    n = len(logged)
    return Rows(
        block=np.array(bits, np.uint32).reshape(n, len(engine.float_columns)).view(np.float32),
        ids=np.array(ids, np.int64).reshape(n, len(engine.category_columns)),
        events=np.arange(n),
    )
