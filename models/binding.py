"""Binding: which columns of a pipeline feed which input of a model; checked and compiled at start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.engine import Engine
from features.errors import Misdeclared
from features.kernels.codes import gather_rows
from features.schema import did_you_mean
from models.manifest import Column, Input, Manifest, columns_of
from models.tensor import ROWS, Array, aligned
from models.vocabulary import Vocabulary

Int64s = NDArray[np.int64]

_FOR_NUMBERS = ("float32", "float64")
_FOR_CODES = ("int64", "int32", *_FOR_NUMBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Feed:
    """One input, compiled.

    Args:
        name: Of the input.
        dtype: Of the input.
        is_flat: Whether it has one dimension.
        columns: ``(columns,) int64`` of the block, or -1 - that of the ids.
    """

    name: str
    dtype: np.dtype[np.generic]
    is_flat: bool
    columns: Int64s


class Binding:
    """Turns rows of the engine into a model's inputs.

    Args:
        manifest: Of the model.
        engine: Of the pipeline.

    Raises:
        Misdeclared: They don't fit, naming the field, both values and the fix.
    """

    def __init__(self, manifest: Manifest, engine: Engine) -> None:
        check_columns(manifest, engine)
        self.floats, self.categories = len(engine.float_columns), len(engine.category_columns)
        vocabularies = [
            Vocabulary(ids=manifest.vocabularies[name]) if name in manifest.vocabularies else None
            for name in engine.category_columns
        ]
        self._codes = _code_table(vocabularies)
        self._feeds = [_feed(declared, engine, manifest.vocabularies) for declared in manifest.inputs]

    def room(self, rows: int) -> dict[str, Array]:
        """Inputs by name with that many rows, not written yet, at aligned addresses."""
        return {
            feed.name: aligned((rows,) if feed.is_flat else (rows, len(feed.columns)), feed.dtype)
            for feed in self._feeds
        }

    def fill(self, block: NDArray[np.float32], ids: NDArray[np.int64], room: Mapping[str, Array]) -> None:
        """Write the inputs of ``(n, floats) float32`` and ``(n, categories) int64``; the last row is repeated."""
        for feed in self._feeds:
            out = room[feed.name]
            gather_rows(block, ids, feed.columns, *self._codes, out[:, np.newaxis] if feed.is_flat else out)


def check_columns(manifest: Manifest, engine: Engine) -> None:
    """Raise `Misdeclared` unless the manifest was written for the engine's columns."""
    given, wanted = columns_of(engine), manifest.columns
    names = {column.name: column for column in given}
    for column in wanted:
        if column.name not in names:
            raise Misdeclared(
                f"{_ref(manifest)} needs the column {column.name!r}, and the pipeline has none: rename the feature, or train "
                f"the model again; {did_you_mean(column.name, names)}"
            )
        if column.dtype != names[column.name].dtype:
            raise Misdeclared(
                f"{_ref(manifest)} was made for {column.name!r} as {column.dtype}, and the pipeline's is "
                f"{names[column.name].dtype}; change the feature's kind back, or train the model again"
            )
    if given != wanted:
        raise Misdeclared(_other_columns(manifest, given, wanted))
    if manifest.column_fingerprint != engine.column_fingerprint:
        raise Misdeclared(
            f"{_ref(manifest)} is bound to column fingerprint {manifest.column_fingerprint}, and the pipeline's is "
            f"{engine.column_fingerprint}: the columns have the same names and another meaning (a window, field, "
            "predicate, key or time zone changed); change the feature back, or train the model again"
        )


def _other_columns(manifest: Manifest, given: Sequence[Column], wanted: Sequence[Column]) -> str:
    more = [column.name for column in given if column not in wanted]
    what = f"the pipeline also has {more[0]!r}" if more else "the pipeline's are in another order"
    return (
        f"{_ref(manifest)} was made for {len(wanted)} columns, and {what}; "
        "change the features back, or train the model again"
    )


def _feed(declared: Input, engine: Engine, vocabularies: Mapping[str, Sequence[int]]) -> _Feed:
    floats = {name: i for i, name in enumerate(engine.float_columns)}
    categories = {name: i for i, name in enumerate(engine.category_columns)}
    for name in declared.columns:
        _check_column(declared, name, floats, categories, vocabularies)
    _check_shape(declared)
    columns = [floats[name] if name in floats else -1 - categories[name] for name in declared.columns]
    return _Feed(
        name=declared.name,
        dtype=np.dtype(declared.dtype),
        is_flat=len(declared.shape) == 1,
        columns=np.array(columns, np.int64),
    )


def _check_column(
    declared: Input,
    name: str,
    floats: Mapping[str, int],
    categories: Mapping[str, int],
    vocabularies: Mapping[str, Sequence[int]],
) -> None:
    where = f"Input {declared.name!r}"
    if name not in floats and name not in categories:
        raise Misdeclared(
            f"{where} takes the column {name!r}, and the pipeline has none; {did_you_mean(name, (*floats, *categories))}"
        )
    allowed = _FOR_NUMBERS if name in floats else _FOR_CODES
    if declared.dtype not in allowed:
        raise Misdeclared(
            f"{where} is {declared.dtype}, and takes {name!r}, which is {'float32' if name in floats else 'a category code'}; "
            f"make the model's input {' or '.join(allowed)}"
        )
    if name in categories and name not in vocabularies:
        raise Misdeclared(
            f"{where} ({declared.text}) takes the category {name!r} as a code, and there is no vocabulary for it: give the "
            f"one that the model was trained with (--vocabulary-from), or other columns (--input {declared.name}=...)"
        )


def _check_shape(declared: Input) -> None:
    where, width = f"Input {declared.name!r}", len(declared.columns)
    if len(declared.shape) not in {1, 2} or isinstance(declared.shape[0], int):
        raise Misdeclared(f"{where} is {declared.text}; it has to be [{ROWS}] or [{ROWS}, columns]")
    size = declared.shape[1] if len(declared.shape) == 2 else 1
    if isinstance(size, int) and size != width:
        raise Misdeclared(f"{where} is {declared.text} and takes {width} columns; name {size}")


def _code_table(vocabularies: Sequence[Vocabulary | None]) -> tuple[Int64s, Int64s, Int64s]:
    """Known ids of all categories, the code of each, and where each category's start."""
    empty = np.empty(0, np.int64)
    known = [empty if each is None else each.known for each in vocabularies]
    codes = [empty if each is None else each.codes for each in vocabularies]
    starts = np.cumsum([0, *map(len, known)])
    return np.concatenate([empty, *known]), np.concatenate([empty, *codes]), starts


def _ref(manifest: Manifest) -> str:
    return f"Model {manifest.name}:{manifest.version}" if manifest.version else f"Model {manifest.name}"
