"""What experiments are run on: a backbone, the networks that go with it, and how much is spent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path

from .. import named
from ..backbones import Backbone
from ..classifiers.views import VIEWS
from ..zoo.entries import ENTRIES
from ..zoo.registry import recorded
from .budget import Budget
from .suite import GUIDANCE, Suite, kind_of, stamped


@dataclass(frozen=True)
class Setting:
    """A backbone with its suite and a budget.

    prompts: the file that a text backbone draws from; batch: images a call when measuring; recompute: keep no
    activations when learning; planned: only costs are asked for, so no weights are needed.
    """

    backbone: str
    suite: Suite
    budget: Budget
    scale: float | None = None
    prompts: str | None = None
    dtype: str | None = None
    device: str = "cpu"
    batch: int = 100
    recompute: bool = False
    planned: bool = False

    @cached_property
    def kind(self) -> str:
        """dit, gmdit, pixart or sana."""
        return kind_of(self.backbone)

    @property
    def name(self) -> str:
        """The backbone's name: of a folder, its own alone."""
        return Path(self.backbone).name if Path(self.backbone).exists() else self.backbone

    @property
    def slug(self) -> str:
        """The name as that of a file."""
        return self.name.replace("/", "--")

    @property
    def flow(self) -> bool:
        """Whether it is a flow, whose baselines have their own published forms."""
        return self.kind in ("gmdit", "sana")

    @property
    def precision(self) -> str:
        """The network's dtype: the budget's if none was given, "" for the backbone's usual one."""
        return self.dtype or self.budget.dtype

    @cached_property
    def weights(self) -> str:
        """A hash of the backbone's weights."""
        if self.backbone in ENTRIES:
            return recorded(self.backbone)[:16]
        return "" if self.planned else self.load().fingerprint()

    @cached_property
    def asked(self) -> str:
        """A hash of the prompts that were given, if any were."""
        return sha256(Path(self.prompts).read_bytes()).hexdigest()[:16] if self.prompts else ""

    @property
    def guidance(self) -> float:
        """The guidance scale: the paper's if none was given."""
        return GUIDANCE[self.kind] if self.scale is None else self.scale

    @cached_property
    def items(self) -> list[str]:
        """The classes or prompts that are sampled, encoded at once."""
        backbone = self.load()
        found = named.items(backbone, self.prompts)
        if not backbone.classes:
            backbone.conditions(found)
        return found

    def spec(self, stamp: str) -> str:
        """What a stamped name was stamped from."""
        if " + " in stamp:
            return " + ".join(map(self.spec, stamp.split(" + ")))
        if stamp.startswith(VIEWS):
            return VIEWS + self.spec(stamp.removeprefix(VIEWS))
        suite = self.suite
        known = (*suite.classifiers, *suite.features.values(), suite.network, suite.chooser)
        return next(name for name in known if stamped(name) == stamp)

    def load(self) -> Backbone:
        """The backbone itself, loaded once."""
        return _loaded(self.backbone, self.precision, self.device)


@cache
def _loaded(name: str, dtype: str, device: str) -> Backbone:
    return named.backbone(name, dtype or None, None, device)
