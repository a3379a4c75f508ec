"""The loop that hands records to librdkafka, a call of ``rd_kafka_produceva`` each, without the interpreter."""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from features.kernels import COMPILE

# rd_kafka_vtype_t
_TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _HEADER = 2, 3, 4, 5, 7, 9
_COPY = 2  # RD_KAFKA_MSG_F_COPY
_WORDS = 9  # of an rd_kafka_vu_t: the type, and a union of 64 bytes
_FIXED = 5  # topic, partition, flags, value, key


@intrinsic
def _produceva(typing_context: Any, function: Any, client: Any, values: Any, count: Any) -> Any:
    """``rd_kafka_error_t *rd_kafka_produceva(rd_kafka_t *, const rd_kafka_vu_t *, size_t)``, by its address."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word, word, word])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    return types.int64(*[types.int64] * 4), build


@numba.njit("i8(i8, i8, i8, i8, i8[:,::1], i8[:,::1], i8[::1], i8[::1], i8[:,::1], i8[::1])", **COMPILE)
def produce_records(function, client, topic, partition, values, keys, bounds, names, contents, progress):
    """Hand records over, beginning with ``progress[0]``, which is moved on to the first that was not taken.

    Args:
        function: Address of ``rd_kafka_produceva``.
        client: ``rd_kafka_t *``.
        topic: ``rd_kafka_topic_t *``.
        partition: Of all of them, -1 for the partitioner's.
        values: ``(n, 2) int64`` address and length; length -1 is none.
        keys: The same.
        bounds: ``(n + 1,) int64``: headers of record ``i`` are ``bounds[i]`` to ``bounds[i + 1]``.
        names: ``(headers,) int64`` address of each name, which ends with a zero byte.
        contents: ``(headers, 2) int64`` address and length; length -1 is none.
        progress: ``(1,) int64``.

    Returns:
        ``rd_kafka_error_t *`` of the record that was not taken, 0 if all were.
    """
    most = 0
    for i in range(values.shape[0]):
        most = max(most, bounds[i + 1] - bounds[i])
    arguments = np.zeros((_FIXED + most, _WORDS), np.int64)
    at = arguments.ctypes.data
    arguments[0, 0], arguments[0, 1] = _TOPIC, topic
    arguments[1, 0], arguments[1, 1] = _PARTITION, partition
    arguments[2, 0], arguments[2, 1] = _FLAGS, _COPY
    arguments[3, 0], arguments[4, 0] = _VALUE, _KEY
    for header in range(most):
        arguments[_FIXED + header, 0] = _HEADER
    while progress[0] < values.shape[0]:
        i = progress[0]
        for place in range(2):
            column = values if place == 0 else keys
            there = column[i, 1] >= 0
            arguments[3 + place, 1] = column[i, 0] if there else 0
            arguments[3 + place, 2] = column[i, 1] if there else 0
        count = _FIXED
        for header in range(bounds[i], bounds[i + 1]):
            there = contents[header, 1] >= 0
            arguments[count, 1] = names[header]
            arguments[count, 2] = contents[header, 0] if there else 0
            arguments[count, 3] = contents[header, 1] if there else 0
            count += 1
        error = _produceva(function, client, at, count)
        if error != 0:
            return error
        progress[0] = i + 1
    return types.int64(0)
