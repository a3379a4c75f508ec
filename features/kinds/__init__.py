"""The kinds of features, one idea a file."""

from features.kinds.category import category
from features.kinds.count import count
from features.kinds.derived import derived, time_part
from features.kinds.distinct import distinct
from features.kinds.ewma import ewma
from features.kinds.extreme import max_, min_
from features.kinds.first import first, first_category
from features.kinds.hashed import hashed
from features.kinds.lag import lag
from features.kinds.last import last, last_category
from features.kinds.mean import mean
from features.kinds.quantile import quantile
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
    "distinct",
    "ewma",
    "first",
    "first_category",
    "hashed",
    "lag",
    "last",
    "last_category",
    "max_",
    "mean",
    "min_",
    "quantile",
    "ratio",
    "raw",
    "running_count",
    "seconds_since_last",
    "std",
    "sum_",
    "time_part",
]
