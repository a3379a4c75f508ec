"""Bisection: the rows at which a model fails are found, the others are answered.

Costs at most ``2·log2(n) + 1`` further calls for each row at fault among ``n``, and one of a known row if all are.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.errors import Malformed

Block = NDArray[np.float32]
Ids = NDArray[np.int64]
Answers = Mapping[str, NDArray[Any]]
Predict = Callable[[Block, Ids], Answers]
Check = Callable[[], None]
"""Raises if a model does not give its known answer."""


def predict_bisecting(
    predict: Predict, check: Check, block: Block, ids: Ids
) -> tuple[Answers, dict[int, Malformed]]:
    """Outputs of every row, NaN where the model failed, and by row why it did.

    Args:
        predict: The model; raises `Malformed` for rows that it can't compute. Of no rows it gives no answers, with
            their names and shapes.
        check: Called when it failed at every row: whether they are at fault, or the model.
        block: ``(n, floats) float32``.
        ids: ``(n, categories) int64``.

    Raises:
        Malformed, Misdeclared, Unavailable: What ``check`` raised: it is not the rows that are at fault.
    """
    try:
        return predict(block, ids), {}
    except Malformed as error:
        failed: dict[int, Malformed] = {}
        parts: dict[int, Answers] = {}
        _search(predict, block, ids, (0, len(block)), error, parts, failed)
        if not parts:
            check()
            parts[0] = predict(block[:0], ids[:0])
        return _joined(parts, len(block)), failed


def _search(  # noqa: PLR0913, PLR0917 - the recursion hands on what it collects
    predict: Predict,
    block: Block,
    ids: Ids,
    span: tuple[int, int],
    error: Malformed,
    parts: dict[int, Answers],
    failed: dict[int, Malformed],
) -> None:
    """Answer what can be answered of a span that failed with ``error``."""
    first, last = span
    if last - first == 1:
        failed[first] = error
        return
    middle = (first + last) // 2
    for half in ((first, middle), (middle, last)):
        try:
            parts[half[0]] = predict(block[slice(*half)], ids[slice(*half)])
        except Malformed as deeper:
            _search(predict, block, ids, half, deeper, parts, failed)


def _joined(parts: Mapping[int, Answers], rows: int) -> Answers:
    some = next(iter(parts.values()))
    joined = {name: np.full((rows, *values.shape[1:]), np.nan, np.float32) for name, values in some.items()}
    for first, answers in parts.items():
        for name, values in answers.items():
            joined[name][first : first + len(values)] = values
    return joined
