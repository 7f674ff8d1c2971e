"""What a solver is learned by: each a pure function of what it made of a batch, one number an image.

Any of them goes with any learned solver and any backbone. Those with a `teacher` compare with the samples of
a solver of many steps from the same noise; classification of the given class needs none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, huber_loss

from .checks import number
from .sample import defects
from .table import Table


class Whole(NamedTuple):
    """The step that a batch is part of: what `embed` says of all its samples, and which of them these are."""

    rows: Tensor  # (total, K)
    at: Tensor  # (B,)


class Outcome(NamedTuple):
    """What a solver made of a batch.

    table: that of the solver; states: (M + 1, B, ...), every point that the network looked at and the sample,
    so that it means the same for every solver; condition: what the backbone was given; decode: latents to
    images in [0, 1], unclamped; items: the classes or prompts that were asked for; whole: if the batch is
    only a part, for objectives that need all.
    """

    table: Table
    states: Tensor
    condition: Any
    decode: Callable[[Tensor], Tensor]
    items: Sequence[Any] = ()
    whole: Whole | None = None

    def images(self) -> Tensor:
        return self.decode(self.states[-1])


class Objective(ABC):
    """One loss an image, (B,), of an outcome and what the teacher made of the same noise."""

    teacher: ClassVar[bool] = False  # whether it needs one
    logarithm: bool = False  # the loss of a batch is the mean, or its logarithm
    whole: bool = False  # whether a sample's loss depends on all others of its step

    def embed(self, made: Outcome) -> Tensor:
        """What the losses of others depend on, if they do: (B, K)."""
        raise NotImplementedError

    @abstractmethod
    def __call__(self, made: Outcome, taught: Outcome | None) -> Tensor: ...


class HardLabel(Objective):
    """Cross-entropy of a classifier under the class that was asked for: the method."""

    def __init__(self, classifier: Callable[[Tensor], Tensor]) -> None:
        self.classifier = classifier

    def __call__(self, made: Outcome, taught: Outcome | None) -> Tensor:
        if not torch.is_tensor(made.condition):
            raise ValueError("the hard label needs a backbone with classes: this one takes other conditions")
        return cross_entropy(self.classifier(made.images()).float(), made.condition, reduction="none")


class SoftLabel(Objective):
    """Cross-entropy under the classifier's probabilities for the teacher's image."""

    teacher = True

    def __init__(self, classifier: Callable[[Tensor], Tensor]) -> None:
        self.classifier = classifier

    def __call__(self, made: Outcome, taught: Outcome | None) -> Tensor:
        with torch.no_grad():
            wanted = self.classifier(needed(taught).images()).float().softmax(1)
        return cross_entropy(self.classifier(made.images()).float(), wanted, reduction="none")


class SampleRegression(Objective):
    """Mean squared error to the teacher's latent; the logarithm of the batch's mean, as BNS has it."""

    teacher, logarithm = True, True

    def __call__(self, made: Outcome, taught: Outcome | None) -> Tensor:
        return (made.states[-1] - needed(taught).states[-1]).square().flatten(1).mean(1)


class TrajectoryRegression(Objective):
    """Mean squared error to the teacher's trajectory at the student's times, and a sharp loss on its end.

    The teacher is interpolated linearly in t, so the times see how the target moves. The weight of the end
    and its Huber threshold are those of DS-Solver.
    """

    teacher = True

    def __init__(self, end: float = 1000.0, threshold: float = 1e-3) -> None:
        self.end, self.threshold = number("end", end), number("threshold", threshold)

    def __call__(self, made: Outcome, taught: Outcome | None) -> Tensor:
        wanted = at_times(needed(taught), made.table.t)
        path = (made.states - wanted).square().transpose(0, 1).flatten(1).mean(1)
        last = huber_loss(made.states[-1], wanted[-1], reduction="none", delta=self.threshold)
        return path + self.end * last.flatten(1).mean(1)


class FeatureRegression(Objective):
    """A distance between images, such as LPIPS, to the teacher's image."""

    teacher = True

    def __init__(self, distance: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.distance = distance

    def __call__(self, made: Outcome, taught: Outcome | None) -> Tensor:
        with torch.no_grad():
            wanted = needed(taught).images()
        return self.distance(made.images(), wanted)


class Mixed(Objective):
    """A weighted sum of objectives; a logarithm among them counts without it."""

    def __init__(self, parts: Sequence[tuple[float, Objective]]) -> None:
        self.parts = [(number("a weight", weight), objective) for weight, objective in parts]
        self.teacher = any(objective.teacher for _, objective in parts)  # type: ignore[misc]
        self._whole = [objective for _, objective in parts if objective.whole]
        self.whole = bool(self._whole)
        if len(self._whole) > 1:
            raise ValueError("only one objective can compare the images of a batch with each other")

    def embed(self, made: Outcome) -> Tensor:
        return self._whole[0].embed(made)

    def __call__(self, made: Outcome, taught: Outcome | None) -> Tensor:
        return torch.stack([weight * objective(made, taught) for weight, objective in self.parts]).sum(0)


class Defects(Objective):
    """Squared gains on data and noise that a consistent method does not have: a penalty beside others."""

    def __call__(self, made: Outcome, taught: Outcome | None) -> Tensor:
        return defects(made.table).square().sum().to(made.states).expand(made.states.shape[1])


def needed(taught: Outcome | None) -> Outcome:
    """Insist on a teacher."""
    if taught is None:
        raise ValueError("this objective compares with a teacher: give the task one")
    return taught


def at_times(taught: Outcome, t: Tensor) -> Tensor:
    """Interpolate the teacher's states linearly to times t, held at its ends: (len(t), B, ...)."""
    times = taught.table.t.to(t)
    right = torch.searchsorted(-times, -t.detach()).clamp(1, len(times) - 1)
    share = ((times[right - 1] - t) / (times[right - 1] - times[right])).clamp(0, 1)
    share = share.to(taught.states).view(-1, *[1] * (taught.states.ndim - 1))
    return torch.lerp(taught.states[right - 1], taught.states[right], share)
