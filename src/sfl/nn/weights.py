"""Networks as plain arrays, and back."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from sfl.api import Array
from sfl.errors import CheckpointError, UsageError, unknown_name
from sfl.files import write_bytes
from sfl.nn.frame_encoders import KINDS, FrameEncoder


def module_state(module: nn.Module, prefix: str) -> dict[str, Array]:
    """Parameters and buffers by name."""
    return {f"{prefix}.{name}": value.detach().cpu().numpy().copy() for name, value in module.state_dict().items()}


def load_module(module: nn.Module, prefix: str, arrays: dict[str, Array]) -> None:
    """Set a module from arrays; missing names or other shapes are an error that lists them."""
    expected = module.state_dict()
    given = {name: arrays.get(f"{prefix}.{name}") for name in expected}
    wrong = [name for name, value in given.items() if value is None or value.shape != tuple(expected[name].shape)]
    if wrong:
        raise CheckpointError(f"The checkpoint does not fit the network {prefix!r}: missing or misshapen {wrong}.")
    module.load_state_dict({name: torch.from_numpy(value).to(expected[name].dtype) for name, value in given.items()})


def make_adam(network: nn.Module, learning_rate: float, epsilon: float, weight_decay: float = 0.0) -> torch.optim.Adam:
    """torch's Adam, all parameters in one call, and on a GPU fit for a CUDA graph; weights decay apart from it."""
    parameters = list(network.parameters())
    on_gpu = parameters[0].is_cuda
    return torch.optim.AdamW(
        parameters, learning_rate, eps=epsilon, weight_decay=weight_decay, fused=True, capturable=on_gpu
    )


def adam_state(optimiser: torch.optim.Adam, prefix: str) -> dict[str, Array]:
    """Adam's two moments, each of all parameters in one array, and the number of steps."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    known = [optimiser.state.get(parameter, {}) for parameter in parameters]  # empty before the first step
    state = {}
    for name, moment in (("first", "exp_avg"), ("second", "exp_avg_sq")):
        parts = [kept.get(moment, torch.zeros_like(of)).flatten() for kept, of in zip(known, parameters, strict=True)]
        state[f"{prefix}.{name}"] = torch.cat(parts).detach().cpu().numpy().copy()
    steps = max(float(kept.get("step", 0.0)) for kept in known)
    return state | {f"{prefix}.steps": np.array([steps], np.float32)}


def load_adam(optimiser: torch.optim.Adam, prefix: str, arrays: Mapping[str, Array]) -> None:
    """Set Adam's moments and its number of steps from arrays made by `adam_state`."""
    # Moments lie in memory as their parameters do, kernels with channels last: the fused step goes through both alike.
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    sizes = [parameter.numel() for parameter in parameters]
    first, second = (torch.from_numpy(arrays[f"{prefix}.{name}"].copy()).split(sizes) for name in ("first", "second"))
    for parameter, mean, square in zip(parameters, first, second, strict=True):
        optimiser.state[parameter] = {
            "step": torch.tensor(float(arrays[f"{prefix}.steps"][0]), device=parameter.device),
            "exp_avg": torch.empty_like(parameter).copy_(mean.view_as(parameter)),
            "exp_avg_sq": torch.empty_like(parameter).copy_(square.view_as(parameter)),
        }


# ---- Networks in files: safetensors, half precision, and in the header what they are and how they came about.
#
# An encoder is kept folded (`FrameEncoder.folded`). Matrices and kernels are stored in half precision, vectors in full:
# they are few, and the statistics among them may be large. Networks that go on learning are kept as they learn, under
# the names that a checkpoint has for them.

FORMAT = "1"
SHIPPED = ("place", "compact")
FOLDER = Path(__file__).with_name("weights")
SUFFIX = ".safetensors"

STORED = ("F16", "F32", "F64", "I64", "I32", "U8", "BOOL")
"""Kinds of numbers in files of ours, as the format calls them."""


def load_encoder(name_or_path: str, device: torch.device | str = "cpu") -> FrameEncoder:
    """An encoder to be used: a shipped one by name, or one of a file."""
    return _read(find_weights(name_or_path), device)


def find_weights(name_or_path: str) -> Path:
    """The file of a shipped encoder or the one that was named."""
    if name_or_path in SHIPPED:
        path = FOLDER / f"{name_or_path}{SUFFIX}"
        if not path.is_file():
            raise UsageError(
                f"This installation of sfl holds no weights of the encoder {name_or_path!r}; "
                f"make some: sfl encoder train --kind {name_or_path} --out FILE{SUFFIX}."
            )
        return path
    if not name_or_path.endswith(SUFFIX):
        raise unknown_name("encoder", name_or_path, SHIPPED, f"There are {', '.join(SHIPPED)}; or a {SUFFIX} file.")
    return Path(name_or_path)


def read_card(path: Path) -> dict[str, str]:
    """What the header of a file says of the encoder in it."""
    try:
        with safe_open(path, framework="pt") as file:
            card: dict[str, str] = file.metadata() or {}
    except OSError as error:
        make = f"make one: sfl encoder train --out {path} (the paper's: --kind resnet18 --objective reachability)"
        raise UsageError(f"Cannot read an encoder from {path}: {error.strerror or error}; {make}.") from error
    except SafetensorError as error:
        raise CheckpointError(f"{path} is no whole {SUFFIX} file ({error}); make it or fetch it again.") from error
    _check_card(path, card)
    return card


def _check_card(path: Path, card: Mapping[str, str]) -> None:
    if "kind" not in card or "format" not in card:
        raise CheckpointError(f"{path} holds other weights than an encoder of sfl; make one with `sfl encoder train`.")
    if card["format"] != FORMAT:
        raise CheckpointError(f"{path} has format {card['format']}, this version of sfl reads format {FORMAT}.")
    if card["kind"] not in KINDS:
        raise CheckpointError(f"{path} holds an encoder of unknown kind {card['kind']!r}; sfl has {', '.join(KINDS)}.")


def _read(path: Path, device: torch.device | str) -> FrameEncoder:
    kind = read_card(path)["kind"]
    encoder = FrameEncoder(next(known for known in KINDS if known == kind))
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise CheckpointError(f"{path} is damaged ({error}); make it or fetch it again.") from error
    _check_tensors(path, encoder, tensors)
    _check_finite(path, {name: bool(value.isfinite().all()) for name, value in tensors.items()})
    encoder.load_state_dict(tensors)
    # It is fixed: batch normalization goes by the statistics of its training, and no gradient is kept.
    return encoder.to(device).eval().requires_grad_(False)


def _check_tensors(path: Path, encoder: FrameEncoder, tensors: Mapping[str, Tensor]) -> None:
    expected = encoder.state_dict()
    missing, foreign = sorted(set(expected) - set(tensors)), sorted(set(tensors) - set(expected))
    if missing or foreign:
        raise CheckpointError(
            f"{path} is no encoder {encoder.name!r}: missing {_some(missing)}, unknown {_some(foreign)}."
        )
    other = [name for name, value in expected.items() if value.shape != tensors[name].shape]
    if other:
        raise CheckpointError(f"{path} is no encoder {encoder.name!r}: other shapes of {_some(other)}.")


def _check_finite(path: Path, finite: Mapping[str, bool]) -> None:
    """A network whose training went wrong, or whose file was written by something else, answers nothing."""
    if bad := [name for name, fine in finite.items() if not fine]:
        raise CheckpointError(
            f"{path} holds numbers that are none (NaN or infinite) in {_some(bad)}; make it or fetch it again."
        )


def _some(names: Sequence[str]) -> str:
    """As many as one line can hold."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "nothing"


def save_encoder(encoder: FrameEncoder, path: Path, card: Mapping[str, str]) -> None:
    """Write an encoder and its card."""
    _write(encoder.folded().state_dict(), path, {**card, "kind": encoder.name, "dim": str(encoder.dim)})


MAKE_BOTH = f"make one: sfl network train both --out FILE{SUFFIX}"
"""What to do without networks: agents read R and L from one file."""


def load_networks(path: str, names: Sequence[str]) -> dict[str, Array]:
    """The arrays of all networks in a file, among them those of these names."""
    with _opened(Path(path)) as file:
        _check_kinds(path, file)
        try:
            arrays: dict[str, Array] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise CheckpointError(f"{path} is damaged ({error}); make it or fetch it again.") from error
    _require(path, names, arrays)
    _check_finite(Path(path), {name: bool(np.isfinite(value).all()) for name, value in arrays.items()})
    return arrays


def _check_kinds(path: str, file: Any) -> None:
    """NumPy does not have all kinds of numbers that such a file can hold."""
    kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    if other := [name for name, kind in kinds.items() if kind not in STORED]:
        raise CheckpointError(f"{path} holds {_some(other)} as {kinds[other[0]]}; sfl stores {', '.join(STORED)}.")


def require_networks(path: str, names: Sequence[str]) -> None:
    """The same without reading the arrays: a file that lacks one of the networks is refused."""
    with _opened(Path(path)) as file:
        _require(path, names, file.keys())


def _require(path: str, names: Sequence[str], keys: Collection[str]) -> None:
    missing = [name for name in names if not any(key.startswith(f"{name}.") for key in keys)]
    if missing:
        raise CheckpointError(f"{path} holds no {missing[0]} network; {MAKE_BOTH}.")


def read_header(path: Path) -> dict[str, str]:
    """What the header of any file of networks says; nothing in a checkpoint's."""
    with _opened(path) as file:
        header: dict[str, str] = file.metadata() or {}
    return header


def tensor_sizes(path: Path) -> dict[str, int]:
    """How many numbers each array of a file has."""
    with _opened(path) as file:
        return {name: math.prod(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="numpy")
    except OSError as error:
        reason = (error.strerror or str(error)) if path.is_file() else "No such file"
        raise UsageError(
            f"Cannot read networks from {path}: {reason}; train the run that it is of, or {MAKE_BOTH}."
        ) from error
    except SafetensorError as error:
        raise CheckpointError(f"{path} is no whole {SUFFIX} file ({error}); make it or fetch it again.") from error


def save_networks(networks: Mapping[str, Tensor], path: Path, card: Mapping[str, str]) -> None:
    """Write networks, each under names that begin with its own, and their card."""
    _write(networks, path, card)


def _write(tensors: Mapping[str, Tensor], path: Path, card: Mapping[str, str]) -> None:
    """What the file held stays whole until the new content is."""
    header, stored = {**card, "format": FORMAT}, {name: _stored(value) for name, value in tensors.items()}
    write_bytes(path, save(stored, header))


def _stored(value: Tensor) -> Tensor:
    plain = value.cpu().contiguous()
    return plain.half() if plain.ndim > 1 else plain
