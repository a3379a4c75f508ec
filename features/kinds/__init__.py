"""The kinds of features, one idea a file."""

from features.kinds.category import category
from features.kinds.count import count
from features.kinds.derived import derived, time_part
from features.kinds.extreme import max_, min_
from features.kinds.first import first, first_category
from features.kinds.last import last, last_category
from features.kinds.mean import mean
from features.kinds.ratio import ratio
from features.kinds.raw import raw
from features.kinds.running_count import running_count
from features.kinds.seconds_since_last import seconds_since_last
from features.kinds.std import std
from features.kinds.sum import sum_

__all__ = [
    "category",
    "count",
    "derived",
    "first",
    "first_category",
    "last",
    "last_category",
    "max_",
    "mean",
    "min_",
    "ratio",
    "raw",
    "running_count",
    "seconds_since_last",
    "std",
    "sum_",
    "time_part",
]
