"""What a worker process of these tests shall do; passed to it as JSON."""

from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run of ``copy_worker.py``."""

    bootstrap: str
    group: str
    routes: dict[str, str]  # source topic -> topic of its copies
    events: str  # the file that takes what happened, a JSON object a line
    transactional_id: str | None = None
    agents: int = 1
    slice_records: int = 100
    open_slices: int = 16
    seconds_a_slice: float = 0.0
    loading_seconds: float = 0.0
    note: str = ""
    raise_at: tuple[int, int] | None = None  # partition, offset
    hang_at: tuple[int, int] | None = None
    block_at: tuple[int, int] | None = None
    bloat_at: tuple[int, int] | None = None
    drain_seconds: float = 3.0
    stuck_seconds: float = 60.0
    crash_seconds: float = 5.0
    kafka: dict[str, str | int | float | bool] = field(default_factory=dict)

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> "Plan":
        return msgspec.json.decode(text, type=cls)
