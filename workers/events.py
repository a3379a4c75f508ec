"""Recorded events from files: to publish them, or to replay them."""

import codecs
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.archive import is_raw
from features.codecs.arrow import ArrowCodec
from features.decode import RecordDecoder, columns_of
from features.errors import Misdeclared
from features.paths import look_up, put
from features.recorded import Recorded, RecordedFiles, RecordedTable, read_table
from features.records import NO_TIMESTAMP, Records
from features.replay import field_array
from pipelines.example import RECORDS
from pipelines.pipeline import Pipeline


def _is_json_lines(source: Path) -> bool:
    if not source.exists():
        raise Misdeclared(
            f"--from {source}: there is no such file; give a Parquet file, a folder of them, or a file of JSON lines"
        )
    return source.is_file() and source.suffix in {".jsonl", ".ndjson", ".json"}


def recorded(pipeline: Pipeline, source: Path) -> Recorded:
    """Recorded events of a Parquet file or folder, or of a file of JSON lines, for replay."""
    if _is_json_lines(source):
        return RecordedTable(_json_lines(pipeline, source))
    return RecordedFiles.at(source)


def publishable(pipeline: Pipeline, source: Path) -> pa.Table:
    """The same events with the columns of `pipelines.example.RECORDS`, in their order."""
    if _is_json_lines(source):
        return _json_lines(pipeline, source)
    table = read_table(RecordedFiles.at(source))
    if set(RECORDS.names) <= set(table.schema.names):
        return table.select(RECORDS.names).cast(RECORDS)
    if is_raw(table.schema):
        times = table["timestamp"].fill_null(0)
        return pa.table({"key": table["key"], "value": table["value"], "time": times})
    return _typed(pipeline, table)


def _json_values(source: Path) -> list[bytes]:
    """The events of a file of JSON lines, or of one JSON array."""
    data = source.read_bytes().removeprefix(codecs.BOM_UTF8)
    if data.lstrip()[:1] != b"[":
        return [line for line in data.splitlines() if line.strip()]
    try:
        return [bytes(each) for each in msgspec.json.decode(data, type=list[msgspec.Raw])]
    except msgspec.DecodeError as error:
        raise Misdeclared(f"{source} begins like a JSON array and is none: {error}") from error


def _json_lines(pipeline: Pipeline, source: Path) -> pa.Table:
    values = _json_values(source)
    keys, path = [], pipeline.source.schema[pipeline.source.schema.key].json_path
    for number, value in enumerate(values, 1):
        try:
            key = look_up(msgspec.json.decode(value), path)
        except msgspec.DecodeError as error:
            raise Misdeclared(f"{source}, event {number} is no JSON: {error}") from error
        keys.append(None if key is None else str(key).encode())
    times = _times_of(pipeline, keys, values)
    return pa.table(
        {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary()), "time": times}
    )


def _times_of(pipeline: Pipeline, keys: list[bytes | None], values: list[bytes]) -> NDArray[np.int64]:
    """Event times; a malformed record is published as well, at the time of the one before."""
    n = len(values)
    records = Records(keys=keys, values=values, offsets=np.arange(n), timestamps=np.full(n, NO_TIMESTAMP))
    columns = RecordDecoder(pipeline.source.schema).decode(records).columns
    times = np.zeros(n, np.int64)
    times[columns.positions] = columns.times
    return np.maximum.accumulate(times)


def _typed(pipeline: Pipeline, table: pa.Table) -> pa.Table:
    """Typed events as the JSON that decodes to them."""
    schema = pipeline.source.schema
    codec = ArrowCodec(schema)
    codec.check(table.schema)
    columns, malformed = columns_of(schema, codec.decode(table))
    if malformed:
        row, reason = min(malformed.items())
        raise Misdeclared(f"Row {row} can't be published: {reason}")
    rows: list[dict[str, Any]] = [{} for _ in range(len(columns))]
    for field in schema.fields:
        for row_, value in zip(rows, field_array(columns, field.name).to_pylist(), strict=True):
            if value is not None:
                put(row_, field.json_path, value)
    keys = pc.cast(pc.cast(field_array(columns, schema.key), pa.string()), pa.binary())
    values = pa.array([msgspec.json.encode(row_) for row_ in rows], pa.binary())
    return pa.table({"key": keys, "value": values, "time": columns.times})
