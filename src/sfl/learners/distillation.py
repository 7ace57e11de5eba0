"""Features that are alike where those of another encoder are: a small encoder learns from a large one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfl.learners.moments import MomentPairs
from sfl.learners.place_contrast import standardised
from sfl.nn.frame_encoders import FrameEncoder


def similarity_loss(features: Tensor, taught: Tensor, temperature: float) -> tuple[Tensor, dict[str, Tensor]]:
    """KL of the taught distribution of similarity over the other rows from the learned one, mean over rows.

    Row i's distribution is the softmax over j != i of cosines / temperature. Shapes: features [N, F], taught [N, G].
    """
    learned = _log_similarities(features, temperature)
    target = _log_similarities(taught, temperature)
    loss = functional.kl_div(learned, target, reduction="sum", log_target=True) / len(features)
    agree = (learned.detach().argmax(1) == target.argmax(1)).float().mean()
    return loss, {"loss": loss.detach(), "accuracy": agree}


def _log_similarities(features: Tensor, temperature: float) -> Tensor:
    """[N, N - 1] log softmax over the other rows."""
    unit = functional.normalize(features, dim=1)
    count = len(unit)
    others = ~torch.eye(count, dtype=torch.bool, device=unit.device)
    return functional.log_softmax((unit @ unit.T / temperature)[others].view(count, count - 1), dim=1)


class Distillation(nn.Module):
    """The objective as the trainer sees it; the teacher stays as it is."""

    def __init__(self, teacher: FrameEncoder, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature
        self._teacher = [teacher]  # in a list, so that its weights are none of ours

    def forward(self, encoder: FrameEncoder, frames: Tensor, pairs: MomentPairs) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and metrics of frames [2, B, H, W, 3]."""
        both = frames.flatten(0, 1)
        with torch.no_grad():
            taught = self._teacher[0](both)
        features = standardised(encoder.raw(both))
        with torch.autocast(features.device.type, enabled=False):
            return similarity_loss(features, taught.float(), self.temperature)
