import logging

from workers.transport.calm import Calm


def test_a_kind_of_message_passes_once_a_while() -> None:
    now = 0.0
    calm = Calm(lambda: now, seconds=5.0)

    def passes(text: str) -> bool:
        return calm.filter(logging.LogRecord("x", logging.ERROR, "x", 1, "%s", (text,), None))

    assert passes("refused")
    assert not passes("refused")
    assert passes("another")
    now = 5.0
    assert passes("refused")
