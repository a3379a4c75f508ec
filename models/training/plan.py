"""Training plan: what a pipeline declares about the training of its model; importable without torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from features.errors import Misdeclared

Progress = Callable[[str, int, int], object]
"""Told what goes on, how much of it is done, and of how much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """Spans of event time, and a small network: embeddings of categories and standardised numbers.

    Rows before ``train_until`` fit the weights; rows from then until ``choose_until`` choose the epoch and the
    dropout and calibrate; rows from then on are the test, read once.

    Args:
        train_until: Exclusive, in UTC.
        choose_until: Exclusive, in UTC.
        output: Name of the published probability.
        hidden: Width of each hidden layer.
        embedding: Most numbers that stand for a category.
        dropouts: Shares of hidden units left out; each is tried.
        epochs: Passes over the training span, at most.
        batch_rows: Rows of one step.
        learning_rate: At its peak, a tenth of the way.
        weight_decay: Of AdamW.
        seed: Of every random choice.
        baseline_columns: What the same model gets without streaming features; by default the columns of the
            feature sets that have no key.
    """

    train_until: datetime
    choose_until: datetime
    output: str = "probability"
    hidden: Sequence[int] = (64, 32)
    embedding: int = 8
    dropouts: Sequence[float] = (0.0, 0.1)
    epochs: int = 8
    batch_rows: int = 1024
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    seed: int = 0
    baseline_columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("hidden", "dropouts", "baseline_columns"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("train_until", "choose_until"):
            if getattr(self, name).utcoffset() != timedelta(0):
                raise Misdeclared(f"TrainingPlan {name} {getattr(self, name)} is not in UTC; give tzinfo=UTC")
        if self.choose_until <= self.train_until:
            raise Misdeclared(
                f"TrainingPlan choose_until {self.choose_until} is not after train_until {self.train_until}"
            )
        for name in ("embedding", "epochs", "batch_rows"):
            if getattr(self, name) < 1:
                raise Misdeclared(f"TrainingPlan {name} is {getattr(self, name)}; at least 1")
        if not all(width >= 1 for width in self.hidden):
            raise Misdeclared(f"TrainingPlan hidden is {self.hidden}; each layer has at least one unit")
        if not self.dropouts or not all(0 <= share < 1 for share in self.dropouts):
            raise Misdeclared(
                f"TrainingPlan dropouts is {self.dropouts}; shares from 0 to below 1, at least one"
            )
        if self.learning_rate <= 0 or self.weight_decay < 0:
            raise Misdeclared("TrainingPlan learning_rate is positive, and weight_decay not negative")

    @property
    def bounds(self) -> tuple[int, int]:
        """``train_until`` and ``choose_until`` in ms since the epoch."""
        start = datetime(1970, 1, 1, tzinfo=UTC)
        train, choose = (
            (each - start) // timedelta(milliseconds=1) for each in (self.train_until, self.choose_until)
        )
        return train, choose

    def hyperparameters(self) -> dict[str, Any]:
        """As a manifest lists them."""
        return {
            "hidden": list(self.hidden),
            "embedding": self.embedding,
            "dropouts": list(self.dropouts),
            "epochs": self.epochs,
            "batch_rows": self.batch_rows,
            "learning_rate": self.learning_rate,
            "weight_decay": self.weight_decay,
        }
