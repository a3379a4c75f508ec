"""Values that tell where they belong."""

from collections.abc import Iterable


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def dealt(values: list[bytes], partitions: int = 3) -> list[list[bytes]]:
    """How ``Cluster.fill`` spreads values over partitions."""
    return [values[number::partitions] for number in range(partitions)]


def first_times(values: Iterable[bytes | None]) -> list[bytes | None]:
    """The values without those that came before: what a consumer sees that keeps the first."""
    return list(dict.fromkeys(values))
