"""Fitting: weights on the train span; epoch, dropout and calibration on the choose span."""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from models.quality import log_loss
from models.training.examples import Examples
from models.training.network import Network
from models.training.plan import Progress, TrainingPlan
from models.vocabulary import Vocabulary

_ROWS_AT_A_TIME = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The best network.

    Args:
        network: Calibrated, in evaluation mode.
        vocabularies: By category column.
        dropout: Chosen.
        epoch: Chosen, from 1.
        log_loss: On the choose span, calibrated.
    """

    network: Network
    vocabularies: dict[str, Vocabulary]
    dropout: float
    epoch: int
    log_loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tensors:
    """Examples for torch."""

    block: torch.Tensor
    codes: torch.Tensor
    labels: torch.Tensor


def fit(train: Examples, choose: Examples, plan: TrainingPlan, progress: Progress) -> Fitted:
    """Fit a network for each declared dropout, and take the best epoch of all of them.

    One seed gives the same bits on one machine: one thread, deterministic kernels, a generator of its own.
    """
    vocabularies = {name: Vocabulary.learn(train.ids[:, i]) for i, name in enumerate(train.category_columns)}
    seen, unseen = _tensors(train, vocabularies), _tensors(choose, vocabularies)
    best: Fitted | None = None
    done, total = 0, plan.epochs * len(plan.dropouts)
    with _reproducible(plan.seed):
        for dropout in plan.dropouts:
            torch.manual_seed(plan.seed)
            network = Network(train.block, [len(each) for each in vocabularies.values()], plan, dropout)
            for epoch in _epochs(network, seen, plan):
                loss = _calibrate(network, unseen)
                if best is None or loss < best.log_loss:
                    best = Fitted(
                        network=copy.deepcopy(network),
                        vocabularies=vocabularies,
                        dropout=dropout,
                        epoch=epoch,
                        log_loss=loss,
                    )
                progress("fit", done := done + 1, total)
    assert best is not None
    return best


def probabilities(
    network: Network, examples: Examples, vocabularies: dict[str, Vocabulary]
) -> NDArray[np.float32]:
    """``(n,) float32`` as torch computes them."""
    tensors = _tensors(examples, vocabularies)
    with torch.no_grad():
        parts = [
            network(
                tensors.block[start : start + _ROWS_AT_A_TIME], tensors.codes[start : start + _ROWS_AT_A_TIME]
            )
            for start in range(0, len(examples), _ROWS_AT_A_TIME)
        ]
    return np.asarray(torch.cat(parts).numpy())


def _epochs(network: Network, tensors: _Tensors, plan: TrainingPlan) -> Iterator[int]:
    """Train, pausing after each epoch in evaluation mode; ``yield`` is its number."""
    rows = len(tensors.labels)
    steps = -(-rows // plan.batch_rows)
    optimizer = torch.optim.AdamW(network.parameters(), lr=plan.learning_rate, weight_decay=plan.weight_decay)
    total = plan.epochs * steps
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _share_of_peak(step, total))
    for epoch in range(1, plan.epochs + 1):
        network.train()
        for batch in torch.randperm(rows).split(plan.batch_rows):
            optimizer.zero_grad()
            logits = network.logit(tensors.block[batch], tensors.codes[batch])
            torch.nn.functional.binary_cross_entropy_with_logits(logits, tensors.labels[batch]).backward()
            optimizer.step()
            schedule.step()
        network.eval()
        yield epoch


def _share_of_peak(step: int, steps: int) -> float:
    """Of the learning rate: up over the first tenth, then down along half a cosine."""
    rise = max(1, steps // 10)
    if step < rise:
        return (step + 1) / rise
    return 0.5 + 0.5 * math.cos(math.pi * (step - rise) / max(1, steps - rise))


def _calibrate(network: Network, tensors: _Tensors) -> float:
    """Set slope and intercept by Newton's method; the log loss that they leave.

    With Platt's targets, a little off 0 and 1, so that a perfect order of the rows has a finite slope (Platt,
    Probabilistic outputs for support vector machines, 1999).
    """
    with torch.no_grad():
        logits = network.logit(tensors.block, tensors.codes).double().numpy()
    labels = tensors.labels.double().numpy()
    positives = labels.sum()
    targets = np.where(labels == 1, (positives + 1) / (positives + 2), 1 / (len(labels) - positives + 2))
    weights, inputs = np.array([1.0, 0.0]), np.stack([logits, np.ones_like(logits)])
    for _ in range(50):
        given = _sigmoid(weights @ inputs)
        curvature = (inputs * (given * (1 - given))) @ inputs.T + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, inputs @ (given - targets))
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    network.slope.fill_(weights[0])
    network.intercept.fill_(weights[1])
    return log_loss(labels, _sigmoid(weights @ inputs))


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(np.clip(-values, -700, 700)))


def _tensors(examples: Examples, vocabularies: dict[str, Vocabulary]) -> _Tensors:
    codes = np.empty(examples.ids.shape, np.int64)
    for i, name in enumerate(examples.category_columns):
        codes[:, i] = vocabularies[name].encode(examples.ids[:, i])
    return _Tensors(
        block=torch.tensor(examples.block),
        codes=torch.from_numpy(codes),
        labels=torch.tensor(examples.labels),
    )


@contextmanager
def _reproducible(seed: int) -> Iterator[None]:
    """One thread, deterministic kernels and a random state of its own; then as it was before."""
    threads, was = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(mode=True)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(mode=was)
