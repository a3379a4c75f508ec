import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Misdeclared
from features.paths import LARGEST_INDEX, look_up, parse_path, path_text, put
from features.schema import EventTime, Field, Schema

names = st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cc", "Cs"]), max_size=6)
steps = names | st.integers(0, LARGEST_INDEX) | st.sampled_from(["a", "0", "a.b", "[0]", "$", "->", "/x"])
paths = st.lists(steps, min_size=1, max_size=5).map(tuple).filter(lambda path: isinstance(path[0], str))


@given(path=paths)
def test_a_path_is_read_back_as_it_is_written(path: tuple[str | int, ...]) -> None:
    assert parse_path(path_text(path)) == path


@given(path=paths, value=st.integers())
def test_what_is_put_at_a_path_is_found_there(path: tuple[str | int, ...], value: int) -> None:
    event: dict[str, Any] = {}
    put(event, path, value)
    assert look_up(json.loads(json.dumps(event)), path) == value


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("id", ("id",)),
        ("card.id", ("card", "id")),
        ("items[0].price", ("items", 0, "price")),
        ("grid[1][20]", ("grid", 1, 20)),
        ('["dev.temp"]', ("dev.temp",)),
        ('a["b c"].d', ("a", "b c", "d")),
        ('a["0"]', ("a", "0")),
        ('["\\u00e9"]', ("é",)),
        ("merchant category.größe", ("merchant category", "größe")),
    ],
)
def test_a_path_names_objects_and_items(text: str, path: tuple[str | int, ...]) -> None:
    assert parse_path(text) == path
    assert path_text(path) == path_text(parse_path(path_text(path)))


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("items.0.price", "write [0] for an array's item"),
        ("$.card.id", "leave out the '$'"),
        ("card->id", "write '.' for '->', and indexes from 0"),
        ("/card/id", "write 'card.id'"),
        ("items[*].price", "is no path"),
        ("items[-1]", "is no path"),
        ("a['b']", "is no path"),
        ("a..b", "empty name"),
        (".a", "empty name"),
        ("a.", "empty name"),
        ("[0].a", "begins with an index"),
        ("a[0", "is no path"),
        ('a["\\""]', "can't be read"),
        ("a.b\\c", "can't be read"),
        ("a]", "is no path"),
        ("a[256]", "at most 255"),
        (".".join("abcdefghijk" * 3), "at most 32"),
    ],
)
def test_a_path_of_another_language_is_refused_with_the_fix(text: str, fix: str) -> None:
    with pytest.raises(Misdeclared) as refused:
        Field(name="x", type=str, path=text)
    assert str(refused.value).startswith(f"Field 'x': path={text!r}")
    assert fix in str(refused.value)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (("a.b", "a"), "one holds the other"),
        (("a[0]", "a[0].b"), "one holds the other"),
        (("a[0]", "a.b"), "'a' is an array or an object"),
        (("a.b", '["a"]["b"]'), "two fields with one path, 'a.b'"),
    ],
)
def test_paths_that_contradict_each_other_are_refused(paths: tuple[str, str], message: str) -> None:
    with pytest.raises(Misdeclared) as refused:
        Schema(
            fields=[
                Field(name="k", type=str),
                Field(name="t", type=int),
                *(Field(name=f"f{place}", type=str, path=path) for place, path in enumerate(paths)),
            ],
            key="k",
            time=EventTime(field="t"),
        )
    assert message in str(refused.value)
