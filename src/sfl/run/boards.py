"""The same numbers for the eye: TensorBoard, and Weights & Biases where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfl.core.errors import SflError


class Boards:
    """TensorBoard always, Weights & Biases when asked for."""

    def __init__(self, folder: Path, config: dict[str, Any], name: str, wandb: bool, env_steps: int) -> None:
        from tensorboardX import SummaryWriter

        self._tensorboard = SummaryWriter(str(folder), purge_step=env_steps or None, write_to_disk=True)
        self._wandb = _start_wandb(config, name) if wandb else None

    def write(self, metrics: Mapping[str, float], env_steps: int) -> None:
        """Show the metrics of one row."""
        for name, value in metrics.items():
            self._tensorboard.add_scalar(name, value, env_steps)
        if self._wandb is not None:
            self._wandb.log(dict(metrics), step=env_steps)

    def close(self) -> None:
        """Flush what is not yet on disk."""
        self._tensorboard.close()
        if self._wandb is not None:
            self._wandb.finish()


def _start_wandb(config: dict[str, Any], name: str) -> Any:
    try:
        import wandb
    except ImportError as error:
        raise SflError("--wandb needs the package wandb; install it with `pip install wandb`.") from error
    return wandb.init(project="sfl", name=name, config=config)
