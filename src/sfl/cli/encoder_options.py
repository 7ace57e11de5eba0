"""The words of `sfl encoder` and `sfl network`; a module of its own, because these settings bring torch along."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from sfl.cli.options import MachineOptions
from sfl.nn import Kind
from sfl.pretrain.config import EncoderJudgement, EncoderRecipe, NetworkJudgement, NetworkRecipe


@dataclass(frozen=True, kw_only=True)
class TrainOptions(MachineOptions, EncoderRecipe):
    """Learn an encoder of frames from random walks, without labels and poses, and evaluate it."""

    out: Path
    """The .safetensors file to write; its loss curve (.csv) and model card (.md) go beside it."""
    force: bool = False
    """Replace files that exist."""
    evaluate: bool = True
    """Evaluate at the end."""
    eval: EncoderJudgement = EncoderJudgement()

    @property
    def recipe(self) -> EncoderRecipe:
        """The part that is about learning."""
        return EncoderRecipe(**{field.name: getattr(self, field.name) for field in fields(EncoderRecipe)})


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(MachineOptions, NetworkRecipe):
    """Learn a network from random walks, or both from the same, without labels and poses."""

    network: Positional[Literal["retrieval", "locomotion", "both"]]
    """Which; both: one after the other, each for half of the time that collecting leaves."""
    out: Path
    """The .safetensors file to write; loss curves (.csv) and a model card (.md) go beside it."""
    force: bool = False
    """Replace files that exist."""

    @property
    def recipe(self) -> NetworkRecipe:
        """The part that is about learning."""
        return NetworkRecipe(**{field.name: getattr(self, field.name) for field in fields(NetworkRecipe)})


@dataclass(frozen=True, kw_only=True)
class ExtractOptions:
    """Write the encoder of a retrieval network as an encoder of its own."""

    networks: Positional[str]
    """A file of `sfl network train`, or networks.safetensors of a checkpoint."""
    out: Path
    """The .safetensors file to write."""
    kind: Kind = "resnet18"
    """What kind of encoder the network has."""
    force: bool = False
    """Replace a file that exists."""


@dataclass(frozen=True, kw_only=True)
class EvalOptions(MachineOptions, EncoderJudgement):
    """See how well an encoder knows places again, in test textures."""

    encoder: Positional[str]
    """A shipped encoder (place, compact) or a .safetensors file."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclass(frozen=True, kw_only=True)
class NetworkEvalOptions(MachineOptions, NetworkJudgement):
    """See how often networks are right, in textures and mazes that they have not seen, with chance beside it."""

    file: Positional[str]
    """A file of `sfl network train`, or networks.safetensors of a checkpoint."""
    networks: tuple[Literal["retrieval", "locomotion"], ...] = ()
    """Which; by default those that the file holds."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclass(frozen=True, kw_only=True)
class JoinOptions:
    """Write networks of several files into one, which is what agents read."""

    files: Positional[tuple[str, ...]]
    """Files of `sfl network train`, each with another network."""
    out: Path
    """The .safetensors file to write."""
    force: bool = False
    """Replace a file that exists."""


@dataclass(frozen=True, kw_only=True)
class NetworkPlotOptions:
    """Draw how networks learned."""

    curves: Positional[tuple[Path, ...]]
    """Loss curves (.csv), as `sfl network train` and `sfl encoder train` write them; each is drawn under its name."""
    out: Path
    """The .png file to write."""
    force: bool = False
    """Replace a file that exists."""
