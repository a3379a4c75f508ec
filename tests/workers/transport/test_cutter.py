from itertools import chain

import numpy as np
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from workers.transport.cutter import offsets_of, pieces, runs, unseen
from workers.transport.partitions import Partition

places = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2))


@given(st.lists(places, min_size=1, max_size=60))
def test_runs_keep_every_message_in_order(where: list[tuple[str, int]]) -> None:
    messages = [Message(topic=t, partition=n, offset=i, value=b"") for i, (t, n) in enumerate(where)]
    found = runs(messages, one_topic=len({topic for topic, _ in where}) == 1)
    expected: dict[Partition, list[int]] = {}
    for index, place in enumerate(where):
        expected.setdefault(Partition(*place), []).append(index)
    assert {partition: offsets_of(run).tolist() for partition, run in found.items()} == expected


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(0, 30))
def test_only_offsets_past_the_position_and_all_before_them_are_unseen(
    offsets: list[int], position: int
) -> None:
    mask = unseen(np.array(offsets, np.int64), position)
    kept, newest = [], position - 1
    for offset in offsets:
        kept.append(offset > newest)
        newest = max(newest, offset)
    assert (mask.tolist() if mask is not None else [True] * len(offsets)) == kept


@given(st.integers(0, 50), st.integers(1, 12))
def test_pieces_cover_everything_once(count: int, most: int) -> None:
    items = list(range(count))
    cut = [items[piece] for piece in pieces(count, most)]
    assert list(chain(*cut)) == items
    assert all(0 < len(piece) <= most for piece in cut)
