"""A pipeline written from a sample: fields, types, time and key are inferred, the rest is yours to change."""

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from features.archive import is_raw
from features.engine import RESERVED_COLUMNS
from features.errors import Misdeclared
from features.paths import MOST_STEPS, FieldPath, can_read, look_up, path_text

MOST_ROWS = 5000
_TIME_NAMES = ("event_time", "timestamp", "ts", "time", "occurred_at", "created_at", "datetime", "date")
_UNIT_SPANS = (("s", 1e8, 1e11), ("ms", 1e11, 1e14), ("us", 1e14, 1e17), ("ns", 1e17, 1e20))
"""An integer between these is a time from 1973 to 5138 in that unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledField:
    """A field as the sample shows it."""

    name: str
    path: FieldPath
    type: type
    optional: bool
    distinct: int

    @property
    def declaration(self) -> str:
        """The line that declares it."""
        parts = [f'name="{self.name}"', f"type={self.type.__name__}"]  # the name is an identifier
        parts += ["optional=True"] if self.optional else []
        parts += [f"path={_literal(path_text(self.path))}"] if self.path != (self.name,) else []
        return f"Field({', '.join(parts)}),"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Rows of a sample, and the Kafka keys they came with, if they came from a topic."""

    rows: Sequence[Mapping[str, Any]]
    keys: Sequence[bytes | None] = ()


def read_sample(path: Path) -> Sample:
    """Rows of a file of JSON lines, one JSON array, or Parquet; raises `Misdeclared` naming the line."""
    if not path.exists():
        raise Misdeclared(f"--sample {path}: there is no such file or topic")
    if path.suffix == ".parquet":
        return _of_table(path)
    data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    if data.lstrip()[:1] == b"[":
        return Sample(rows=_objects(enumerate(msgspec.json.decode(data, type=list[msgspec.Raw]), 1), path))
    lines = [line for line in data.splitlines() if line.strip()][:MOST_ROWS]
    return Sample(rows=_objects(enumerate(lines, 1), path))


def _of_table(path: Path) -> Sample:
    """Events of a typed table, with its timestamps as numbers, which is how replay takes them; or of a raw archive."""
    try:
        file = pq.ParquetFile(path)
        table = next(file.iter_batches(MOST_ROWS), None)
    except pa.ArrowInvalid as error:
        raise Misdeclared(f"--sample {path} is no Parquet file: {error}") from error
    rows = file.schema_arrow.empty_table() if table is None else pa.table(table)
    if is_raw(rows.schema):
        rows = rows.filter(pc.is_valid(rows["value"]))
        return Sample(
            rows=_objects(enumerate(rows["value"].to_pylist(), 1), path), keys=rows["key"].to_pylist()
        )
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            millis = rows[field.name].cast(pa.timestamp("ms", field.type.tz), safe=False)
            rows = rows.set_column(place, field.name, millis.cast(pa.int64()))
    return Sample(rows=rows.to_pylist())


def _objects(rows: Iterator[tuple[int, bytes | msgspec.Raw]], path: Path) -> list[dict[str, Any]]:
    objects = []
    for number, row in rows:
        try:
            objects.append(msgspec.json.decode(row, type=dict[str, Any]))
        except msgspec.DecodeError as error:
            raise Misdeclared(
                f"--sample {path}, row {number} is no JSON object: {error}; give a file of JSON lines, a JSON array or "
                "Parquet, with null where a number is missing"
            ) from error
    return objects


def infer_fields(sample: Sample) -> list[SampledField]:
    """The fields of a sample; those with mixed or unusable types are left out."""
    return _look_through(sample)[0]


def left_out(sample: Sample) -> list[str]:
    """What of the sample became no field, and why, a line each."""
    return _look_through(sample)[1]


def _look_through(sample: Sample) -> tuple[list[SampledField], list[str]]:
    seen: dict[FieldPath, list[Any]] = {}
    for row in sample.rows:
        for path, value in _leaves(row, ()):
            seen.setdefault(path, []).append(value)
    fields: dict[str, SampledField] = {}
    unused: list[str] = []
    for path, values in seen.items():
        there = [value for value in values if value is not None]
        type_ = _common_type(there)
        name = re.sub(r"\W", "_", "_".join(map(str, path)))
        name = f"f_{name}" if not name.isidentifier() else name
        if why := _no_field(path, there, type_, name in fields):
            unused.append(f"{_literal(path_text(path))}: {why}")
            continue
        assert type_ is not None
        is_optional = len(there) < len(sample.rows)
        fields[name] = SampledField(
            name=name, path=path, type=type_, optional=is_optional, distinct=len(set(there))
        )
    return list(fields.values()), unused


def _no_field(path: FieldPath, there: Sequence[Any], type_: type | None, is_taken: bool) -> str | None:  # noqa: FBT001
    """Why these values can't be a field."""
    if not can_read(path):
        return "a name with a quote, backslash or control character can't be read"
    if len(path) > MOST_STEPS:
        return f"it stands {len(path)} objects deep; a path has at most {MOST_STEPS} steps"
    if not there:
        return "null in every row"
    if type_ is None:
        if all(isinstance(value, list) for value in there):
            return f"an array; a field can be one item of it, such as path={_literal(path_text((*path, 0)))}"
        kinds = sorted({type(value).__name__ for value in there})
        return f"its values ({', '.join(kinds)}) have no type in common that a field can have"
    return "another field has the same name with what is no letter or digit replaced" if is_taken else None


def _leaves(row: Mapping[str, Any], path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value.isoformat() if isinstance(value, datetime) else value


def _common_type(values: Sequence[Any]) -> type | None:
    types = set(map(type, values))
    if types == {int, float}:
        return float
    if len(types) != 1:
        return None
    (type_,) = types
    if type_ is int and any(abs(value) >= 2**63 for value in values):
        return None
    return type_ if type_ in {str, int, float, bool} else None


def infer_time(sample: Sample, fields: Sequence[SampledField]) -> tuple[SampledField, str]:
    """The field that says when an event happened, and its unit; raises `Misdeclared` if none does."""
    found = [
        (field, unit)
        for field in fields
        if not field.optional and (unit := _time_unit(sample, field)) is not None
    ]
    found.sort(key=lambda pair: _rank(pair[0].name))
    if not found:
        raise Misdeclared(
            "No field of the sample is a time in every row: give each event ISO 8601 text, or seconds, "
            "milliseconds, microseconds or nanoseconds since 1970"
        )
    return found[0]


def _rank(name: str) -> tuple[int, str]:
    lowered = name.lower()
    for rank, known in enumerate(_TIME_NAMES):
        if lowered == known or lowered.endswith(f"_{known}"):
            return rank, name
    return len(_TIME_NAMES), name


def _time_unit(sample: Sample, field: SampledField) -> str | None:
    values = [_at(row, field.path) for row in sample.rows]
    if field.type is str:
        return "iso8601" if all(map(_is_iso8601, values)) else None
    if field.type not in {int, float}:
        return None
    for unit, low, high in _UNIT_SPANS:
        if all(low <= value < high for value in values):
            return unit
    return None


def _is_iso8601(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return len(text) >= len("2013-01-01T00:00")


def infer_key(sample: Sample, fields: Sequence[SampledField], time: SampledField) -> SampledField:
    """The partition key: what the Kafka keys are, else a field that names few things often."""
    candidates = [field for field in fields if field.type in {str, int} and field.name != time.name]
    if not candidates:
        raise Misdeclared("No field of the sample can be the partition key: it takes a text or an integer")
    matching: Counter[str] = Counter()
    for row, key in zip(sample.rows, sample.keys, strict=False):
        matching.update(
            field.name
            for field in candidates
            if key is not None and str(_at(row, field.path)).encode() == key
        )
    if matching:
        (name, _), *_ = matching.most_common(1)
        return next(field for field in candidates if field.name == name)

    def rank(field: SampledField) -> tuple[bool, bool, bool, bool, float]:
        unevenness = _unevenness(field, len(sample.rows))
        is_named_so = re.search(r"(^|_)(id|key|uid|uuid)$", field.name.lower()) is not None
        return field.optional, unevenness > 1, not is_named_so, field.type is not str, unevenness

    return min(candidates, key=rank)


def _unevenness(field: SampledField, rows: int) -> float:
    """Keys name several things several times: neither one value nor a new one in every row."""
    if field.distinct < 2:
        return 2.0
    return abs(field.distinct / max(1, rows) - 0.1) + (field.distinct == rows)


def _at(row: Mapping[str, Any], path: FieldPath) -> Any:
    value = look_up(row, path)
    return value.isoformat() if isinstance(value, datetime) else value


def _literal(text: str) -> str:
    """A text of the sample as Python source: a JSON string is one as well."""
    return json.dumps(text, ensure_ascii=False)


_TEMPLATE = '''"""The pipeline {name}: what its events look like and what is computed from them."""

from datetime import timedelta

from features.featureset import FeatureSet, over
from features.kinds import {kinds}
from features.schema import EventTime, Field, Schema
from pipelines.pipeline import Pipeline, Source

schema = Schema(
    fields=[
        {fields}
    ],
    key="{key}",
    time=EventTime(field="{time}", unit="{unit}"),
)

pipeline = Pipeline(
    name="{name}",
    source=Source(topic="{topic}", schema=schema),
    features=[
{row_set}        FeatureSet(
            key="{key}",
            features={{
                **over(
                    [timedelta(minutes=10), timedelta(hours=1), timedelta(hours=24)],
                    {windowed}
                ),
                "since_last": seconds_since_last(),
            }},
        ),
    ],
    model="{name}",
)
'''


def write_pipeline(name: str, topic: str, sample: Sample) -> str:
    """Source text of a pipeline for such events; it passes ``headrace check``."""
    if not sample.rows:
        raise Misdeclared("The sample has no rows; give at least one event")
    fields = infer_fields(sample)
    time, unit = infer_time(sample, fields)
    key = infer_key(sample, fields, time)
    numbers = [f for f in fields if f.type is float or (f.type is int and f not in {time, key})][:4]
    texts = [
        f for f in fields if f.type is str and f not in {time, key} and f.distinct < max(2, len(sample.rows))
    ][:4]
    kinds = (
        ["count", "seconds_since_last"]
        + (["mean", "raw", "sum_"] if numbers else [])
        + (["category"] if texts else [])
    )
    row_lines = [f'"{_feature_name(f)}": raw("{f.name}"),' for f in numbers] + [
        f'"{_feature_name(f)}": category("{f.name}"),' for f in texts
    ]
    row_set = f"        FeatureSet(features={{{' '.join(row_lines).rstrip(',')}}}),\n" if row_lines else ""
    windowed = (
        ["n=count(),"]
        + [f'{f.name}_mean=mean("{f.name}"),' for f in numbers]
        + [f'{f.name}_sum=sum_("{f.name}"),' for f in numbers]
    )
    return _TEMPLATE.format(
        name=name,
        topic=topic,
        kinds=", ".join(sorted(kinds)),
        fields="\n        ".join(
            [field.declaration for field in fields] + [f"# left out: {why}" for why in left_out(sample)]
        ),
        key=key.name,
        time=time.name,
        unit=unit,
        row_set=row_set,
        windowed="\n                    ".join(windowed),
    )


def _feature_name(field: SampledField) -> str:
    return f"{field.name}_value" if field.name in RESERVED_COLUMNS else field.name
