"""Expressions over one event in plain Python, from the documentation: what the compiled ones are judged by."""

import math
import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import xxhash

from features.expressions import (
    Arithmetic,
    Column,
    Comparison,
    EventTimeColumn,
    Expression,
    FillMissing,
    Hashed,
    IsIn,
    IsMissing,
    Literally,
    Logic,
    TimePart,
)

Event = Mapping[str, Any]
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def value_of(it: Expression, event: Event) -> Any:  # noqa: C901, PLR0911 - a case an expression
    """The expression's value, ``None`` where it is missing; the event time is in ``ts``, ms."""
    match it:
        case Column():
            return event[it.name]
        case EventTimeColumn():
            return event["ts"]
        case Literally():
            return it.value
        case Arithmetic():
            return _calculated(it, event)
        case Comparison():
            left, right = value_of(it.left, event), value_of(it.right, event)
            return None if None in (left, right) else _OPERATORS[it.operator](left, right)
        case Logic():
            return _decided(it.operator, [value_of(part, event) for part in it.parts])
        case IsMissing():
            return value_of(it.operand, event) is None
        case IsIn():
            value = value_of(it.operand, event)
            return None if value is None else value in [value_of(each, event) for each in it.values]
        case FillMissing():
            value = value_of(it.operand, event)
            return value_of(it.value, event) if value is None else value
        case Hashed():
            value = value_of(it.operand, event)
            return None if value is None else (id_of(value) % 2**64 >> 32) * it.buckets >> 32
        case TimePart():
            value = value_of(it.operand, event)
            return None if value is None else _part(it.part_name, math.floor(value), it.zone_name)
    raise AssertionError(f"{type(it).__name__} has no meaning here yet; write it down")


def id_of(text: str) -> int:
    """A text's category id."""
    hashed: int = xxhash.xxh64_intdigest(text.encode())
    return hashed - 2**64 if hashed >= 2**63 else hashed


def _calculated(it: Arithmetic, event: Event) -> Any:
    left, right = value_of(it.left, event), value_of(it.right, event)
    if None in (left, right):
        return None
    left, right = float(left), float(right)
    if it.operator == "/" and right == 0:
        return math.copysign(math.inf, left) * math.copysign(1, right) if left else None
    result = left / right if it.operator == "/" else _OPERATORS[it.operator](left, right)
    return None if math.isnan(result) else result


def _decided(symbol: str, values: list[Any]) -> Any:
    if symbol == "~":
        return None if values[0] is None else not values[0]
    decisive = symbol == "|"
    if decisive in values:
        return decisive
    return None if None in values else not decisive


def _part(name: str, milliseconds: int, zone: str) -> int:
    local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)).astimezone(
        ZoneInfo(zone)
    )
    return {
        "hour": local.hour,
        "minute": local.minute,
        "minute_of_day": 60 * local.hour + local.minute,
        "day_of_week": local.weekday(),
        "day_of_month": local.day,
        "day_of_year": local.timetuple().tm_yday,
        "month": local.month,
    }[name]
