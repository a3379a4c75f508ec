"""The kinds of features, one idea a file."""

from features.kinds.category import category
from features.kinds.count import count
from features.kinds.derived import derived, time_part
from features.kinds.last import last, last_category
from features.kinds.mean import mean
from features.kinds.ratio import ratio
from features.kinds.raw import raw
from features.kinds.seconds_since_last import seconds_since_last
from features.kinds.sum import sum_

__all__ = [
    "category",
    "count",
    "derived",
    "last",
    "last_category",
    "mean",
    "ratio",
    "raw",
    "seconds_since_last",
    "sum_",
    "time_part",
]
