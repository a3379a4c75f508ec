"""The network: raw columns in, a probability out; everything that was learned is inside it."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from models.training.plan import TrainingPlan

LARGEST_SCORE = 5.0
"""Standardised numbers are cut here, so that one wild value can't drown the others."""


class Network(nn.Module):  # type: ignore[misc]
    """Standardises, embeds, and gives a logit; `probability` calibrates it.

    A missing number stands for the mean, beside an indicator for each column in which training saw missing
    ones; a NaN elsewhere is the mean alone, since no weight was ever fitted for it.

    Args:
        block: ``(n, floats) float32`` rows of the training span, for scales.
        codes: How many codes each category column has.
        plan: Widths.
        dropout: Share of hidden units left out while training.
    """

    def __init__(
        self, block: NDArray[np.float32], codes: Sequence[int], plan: TrainingPlan, dropout: float
    ) -> None:
        super().__init__()
        mean, scale, missing = _scales(block)
        self.register_buffer("mean", torch.from_numpy(mean))
        self.register_buffer("scale", torch.from_numpy(scale))
        self.register_buffer("can_miss", torch.from_numpy(missing))
        self.register_buffer("slope", torch.ones(()))
        self.register_buffer("intercept", torch.zeros(()))
        widths = [min(plan.embedding, size) for size in codes]
        self.embeddings = nn.ModuleList(
            nn.Embedding(size, width) for size, width in zip(codes, widths, strict=True)
        )
        for embedding in self.embeddings:
            nn.init.normal_(embedding.weight, std=0.1)
        self.layers = _layers(len(mean) + len(missing) + sum(widths), plan.hidden, dropout)

    def logit(self, block: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """``(n,) float32``, not calibrated."""
        missing = torch.isnan(block)
        scores = ((block - self.mean) * self.scale).clamp(-LARGEST_SCORE, LARGEST_SCORE)
        known = torch.where(missing, torch.zeros(()), scores)
        parts = [known, missing.index_select(1, self.can_miss).float()]
        parts += [embedding(codes[:, i]) for i, embedding in enumerate(self.embeddings)]
        return self.layers(torch.cat(parts, dim=1))[:, 0]

    def forward(self, block: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """``(n,) float32`` calibrated probabilities of raw rows and vocabulary codes."""
        return torch.sigmoid(self.logit(block, codes) * self.slope + self.intercept)


def _layers(width: int, hidden: Sequence[int], dropout: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [nn.Linear(width, units), nn.ReLU(), nn.Dropout(dropout)]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, 1))


def _scales(
    block: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """Mean and 1 / standard deviation of each column, and the columns with missing values."""
    missing = np.isnan(block)
    count = np.maximum(1, (~missing).sum(axis=0))
    mean = np.where(missing, 0, block).sum(axis=0, dtype=np.float64) / count
    variance = np.where(missing, 0, (block - mean) ** 2).sum(axis=0) / count
    scale = 1 / np.sqrt(np.where(variance > 0, variance, 1))
    return mean.astype(np.float32), scale.astype(np.float32), np.flatnonzero(missing.any(axis=0))
