import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from features.byte_column import ByteColumn

ITEMS = st.lists(st.none() | st.binary(max_size=9), max_size=20)


@given(ITEMS, st.integers(-25, 25), st.integers(-25, 25), st.sampled_from([-2, -1, 1, 3]))
def test_it_is_a_sequence_of_its_items(items: list[bytes | None], first: int, last: int, step: int) -> None:
    column = ByteColumn.of(items)
    assert len(column) == len(items)
    assert list(column) == items
    assert column == items
    assert [column[i] for i in range(-len(items), len(items))] == [*items, *items]
    assert column[first:last:step] == items[first:last:step]
    assert column.lengths.tolist() == [-1 if item is None else len(item) for item in items]
    assert ByteColumn.of(column) is column


@given(ITEMS, st.data())
def test_items_are_taken_and_replaced(items: list[bytes | None], data: st.DataObject) -> None:
    column = ByteColumn.of(items)
    places = data.draw(st.lists(st.sampled_from(range(len(items))), max_size=9) if items else st.just([]))
    assert column.take(np.array(places, np.intp)) == [items[place] for place in places]
    others = {place: b"%d" % place for place in places}
    assert column.replaced(others) == [others.get(i, item) for i, item in enumerate(items)]
    assert column == items


@given(st.lists(st.binary(max_size=9), max_size=20))
def test_items_are_cut_from_a_buffer(items: list[bytes]) -> None:
    buffer = np.frombuffer(b"".join([*items, b"\0"]), np.uint8)
    assert ByteColumn.cut(buffer, np.cumsum([len(item) for item in items], dtype=np.int64)) == items
