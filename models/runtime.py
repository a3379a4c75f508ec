"""Runtime: what runs a model file; the only seam between Headrace and an inference library."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from models.tensor import Array, Tensor


class Runtime(Protocol):
    """A loaded model."""

    @property
    def inputs(self) -> Sequence[Tensor]:
        """What it takes."""
        ...

    @property
    def outputs(self) -> Sequence[Tensor]:
        """What it gives."""
        ...

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, for C-contiguous inputs by name, whose memory they never share.

        Raises:
            Malformed: It can't compute these rows; without the one at fault it may.
            Unavailable: The device or its memory failed.
        """
        ...

    def close(self) -> None:
        """Release the device; it can't run any more."""
        ...
