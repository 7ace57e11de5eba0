"""What an environment shows, by dtype, bounds and layout of its space; what is unsure is not guessed.

The table, in the order in which it is read (docs/guides/your-world.md has it in words):

    Dict            one entry that can be read, or MiniGrid's `image`, or the one of `observation_key`; else refused
    Discrete        one-hot                                                                          vector
    MultiDiscrete   one-hots side by side                                                            vector
    MultiBinary     its numbers                                                                      vector
    Box [], [N]     numbers as they are                                                              vector
    Box [H, W]      bytes over 40 a side: a grey picture; bytes of less: unsure; else numbers        picture, vector
    Box 3 axes      bytes over 40 a side: a picture, or a stack of them; bytes of less: unsure       picture
                    MiniGrid's symbols, or numbers up to 63: a grid of 7 to 40 cells a side          grid
                    but fractions with 1 or 3 channels: a small picture or symbols, unsure           none
                    a grid with a side of less than 7: numbers                                       vector
                    numbers of any other size, or over 40 cells a side: unsure                       none
    Box 4 axes      a stack of what its last three axes are, joined along the channels               as these
    any other Box   unsure                                                                           none
    anything else   refused

Channels first are put last. `unsure` stands for agents that look through an encoder: the random policy and the tabular
agent, which ask no more than whether two observations are equal, take any array.

From above: `describe_observation`, entries of a Dict, arrays by their axes, how kinds are put into words, and how what
an environment gives is read and checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from minigrid.core.mission import MissionSpace

from sfl.api import GRID_SIDES, Array, EncoderKind, Observation, encoder_kind
from sfl.config import require
from sfl.errors import UsageError

Read = Callable[[Any], Observation]
Values = Literal["bytes", "small", "wide"]

THIN = 4
"""Channels of one picture at most: grey 1, RGB 3, with a mask 4."""

SMALL = 63
"""Numbers up to this size are symbols, or measured in units; pixels go up to 255."""

KEY_HINT = "name it by observation_key (--env.observation-key)"
AS_BYTES = "give pictures as bytes from 0 to 255 (gymnasium.wrappers.TransformObservation)"
AS_SYMBOLS = f"give symbols a space whose bounds say so, up to {SMALL}"
AS_WHOLE = "give symbols as whole numbers or truths (a dtype such as int8 or bool)"
LARGER = f"enlarge pictures to more than {GRID_SIDES[1]} a side (gymnasium.wrappers.ResizeObservation)"


@dataclass(frozen=True)
class ObservationKind:
    """What the observations of an environment were taken for."""

    what: str
    """In words, with the layout that they came in."""
    space: spaces.Box
    """What the agent gets."""
    read: Read
    """From the environment's own observation to the agent's."""
    turned: str = ""
    """What was done to the layout; empty: nothing."""
    left_out: tuple[str, ...] = ()
    """Entries of a Dict that nothing is learned from."""
    unsure: str = ""
    """Why no encoder is given them, and what to do; empty where it is sure."""

    @property
    def encoder(self) -> EncoderKind | None:
        """The encoder that looks at them; None where it is unsure what they are."""
        return None if self.unsure else encoder_kind(self.space.shape)

    @property
    def doubt(self) -> str:
        """Why no encoder is given them, in a line."""
        space = self.space
        return f"The observations are {self.what} ({space.dtype}, {_bounds(space)}): {self.unsure}."

    @property
    def words(self) -> str:
        """What was taken for what, in part of a line."""
        left = f"; left out: {', '.join(self.left_out)}" if self.left_out else ""
        return self.what + (f", {self.turned}" if self.turned else "") + left


def describe_observation(space: spaces.Space[Any], key: str | None = None, symbols: bool = False) -> ObservationKind:
    """What a space holds. `key`: the entry of a Dict; `symbols`: they are MiniGrid's, whatever the bounds say."""
    if isinstance(space, spaces.Dict):
        return _entry(space, key, symbols)
    require(key is None, f"observation_key {key!r} needs Dict observations, these are {space}.")
    if isinstance(space, spaces.Box):
        require(0 not in space.shape, f"Observations of shape {space.shape} hold nothing to learn from.")
        return _box(space, symbols)
    if isinstance(space, spaces.Discrete):
        count, first = int(space.n), int(space.start)
        return _vector(f"a number out of {count}, one-hot", count, lambda raw: _one_hot(_whole(raw) - first, count))
    if isinstance(space, spaces.MultiBinary):
        count = int(np.prod(space.shape))
        return _vector(f"{count} yes-or-no values as numbers", count, lambda raw: _flat(raw, count))
    if isinstance(space, spaces.MultiDiscrete):
        counts, firsts = space.nvec.ravel(), space.start.ravel()
        what = f"{_count(len(counts), 'choice')}, one-hot each"
        return _vector(what, int(counts.sum()), lambda raw: _hots(raw, counts, firsts))
    raise UsageError(
        f"Observations must be arrays (Box), numbers (Discrete, MultiDiscrete, MultiBinary) or a Dict that holds one, "
        f"got {_brief(space)}; turn them into one with a wrapper (gymnasium.wrappers.TransformObservation)."
    )


_READABLE = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict)


def _entry(space: spaces.Dict, key: str | None, symbols: bool) -> ObservationKind:
    chosen = _chosen_key(space, symbols) if key is None else key
    require(chosen in space.spaces, f"No observation_key {chosen!r}; the observations have {list(space)}.")
    kind = describe_observation(space[chosen], None, symbols)
    left = () if key is not None else tuple(name for name in space if name != chosen)
    inner = kind.read
    return replace(kind, read=lambda raw: inner(_picked(raw, chosen)), left_out=left + kind.left_out)


def _chosen_key(space: spaces.Dict, symbols: bool) -> str:
    readable = [name for name, entry in space.items() if isinstance(entry, _READABLE)]
    of_minigrid = symbols or any(isinstance(entry, MissionSpace) for entry in space.values())
    if of_minigrid and "image" in readable:
        return "image"
    if len(readable) == 1:
        return readable[0]
    named = ", ".join(f"{name} ({_brief(entry)})" for name, entry in space.items())
    what = "several entries" if readable else "no entry that is an array"
    raise UsageError(
        f"The observations have {what}, {named}: sfl learns from one array; {KEY_HINT}, or join them with a wrapper "
        f"(vectors: gymnasium.wrappers.FlattenObservation)."
    )


def _picked(raw: Any, key: str) -> Any:
    if not isinstance(raw, dict) or key not in raw:
        raise UsageError(f"The environment's space promises an entry {key!r}, and it gave {raw!s:.60}.")
    return raw[key]


def _box(space: spaces.Box, symbols: bool) -> ObservationKind:
    kind = _kind_of_box(space, symbols)
    # Whatever the environment gives is held against the space that it promised.
    turn = kind.read
    return replace(kind, read=lambda raw: turn(_array(raw, space)))


def _kind_of_box(space: spaces.Box, symbols: bool) -> ObservationKind:
    shape, values = space.shape, "small" if symbols else _values(space)
    if len(shape) < 2:
        return _plain(f"{'a number' if not shape else _count(shape[0], 'number')}", space)
    if len(shape) == 2:
        return _two_axes(space, values)
    if len(shape) == 3:
        return _three_axes(space, values, symbols)
    if len(shape) == 4:
        return _stack(space, symbols)
    why = f"nobody knows what {len(shape)} axes are; {AS_BYTES}"
    return replace(_plain(f"{_by(shape)} numbers", space), unsure=why)


def _two_axes(space: spaces.Box, values: Values) -> ObservationKind:
    large = min(space.shape) > GRID_SIDES[1]
    if values == "bytes" and large:
        return _turned(f"grey picture {_by(space.shape)}", space, lambda array: array[:, :, None], "given one channel")
    plain = _plain(f"table of {_by(space.shape)} numbers", space)
    if values == "bytes":
        return replace(plain, unsure=f"they may be a small grey picture or symbols; {LARGER}, or {AS_SYMBOLS}")
    if large and _shares(space):
        return replace(plain, unsure=f"they may be a grey picture with pixels from {_bounds(space)}; {AS_BYTES}")
    return plain


def _three_axes(space: spaces.Box, values: Values, symbols: bool) -> ObservationKind:
    axis = 2 if symbols else _channel_axis(space.shape)
    if axis is None:
        why = "nobody knows which axis has the channels; put them last (gymnasium.wrappers.TransformObservation)"
        return replace(_plain(f"{_by(space.shape)} numbers", space), unsure=why)
    sides = space.shape[:2] if axis == 2 else space.shape[1:]
    if doubt := _doubt(sides, space.shape[axis], space, values):
        return replace(_plain(f"{_by(space.shape)} numbers", space), unsure=doubt)
    picture = values == "bytes"
    what = _picture(sides, space.shape[axis]) if picture else _cells(sides, space.shape[axis], space, symbols)
    kind = _plain(f"{what}, channels last" if picture else what, space)
    if axis == 0:
        first = f"{what}, channels first"
        kind = _turned(first, space, lambda array: np.ascontiguousarray(array.transpose(1, 2, 0)), "put last")
    return kind


def _channel_axis(shape: tuple[int, ...]) -> int | None:
    """The first or the last axis: it is thin, or of another size than the two others; None: nobody knows."""
    thin = [axis for axis in (0, 2) if shape[axis] <= THIN]
    if thin:
        return thin[0] if len(thin) == 1 else None
    few = [axis for axis in (0, 2) if shape[axis] <= GRID_SIDES[1] < min(shape[1], shape[2 - axis])]
    odd = [axis for axis in (0, 2) if shape[axis] != shape[1] == shape[2 - axis]]
    return next(iter(few or odd), None)


def _doubt(sides: tuple[int, ...], channels: int, space: spaces.Box, values: Values) -> str:
    large = min(sides) > GRID_SIDES[1]
    if values == "bytes":
        return "" if large else f"they may be a small picture or a grid of symbols; {LARGER}, or {AS_SYMBOLS}"
    if values == "small" and max(sides) <= GRID_SIDES[1]:
        small_picture = min(sides) >= GRID_SIDES[0] and channels in (1, 3) and _shares(space)
        why = f"they may be a small picture with pixels from {_bounds(space)} or a grid of symbols"
        return f"{why}; {LARGER}, as bytes, or {AS_WHOLE}" if small_picture else ""
    if large and _shares(space):
        return f"they may be a picture with pixels from {_bounds(space)}; {AS_BYTES}"
    if values == "small":
        return f"the encoder of grids takes up to {GRID_SIDES[1]} cells a side; show a part of it with a wrapper"
    return f"its bounds, {_bounds(space)}, say neither pixels nor symbols; {AS_BYTES}, or {AS_SYMBOLS}"


def _stack(space: spaces.Box, symbols: bool) -> ObservationKind:
    """[K, ...]: each of the K is turned as it would be alone; their channels stand side by side."""
    if max(space.shape[2:]) <= THIN:
        why = "nobody knows which axis is the stack; put it first (gymnasium.wrappers.TransformObservation)"
        return replace(_plain(f"{_by(space.shape)} numbers", space), unsure=why)
    one = spaces.Box(space.low[0], space.high[0], dtype=space.dtype.type)
    kind, count = _kind_of_box(one, symbols), space.shape[0]
    what = f"stack of {count}, each a {kind.what}"
    if kind.unsure:
        return replace(_plain(f"{_by(space.shape)} numbers", space), unsure=kind.unsure)
    turn = kind.read
    return _turned(
        what, space, lambda array: np.concatenate([turn(each) for each in array], axis=-1), "side by side as channels"
    )


def _plain(what: str, space: spaces.Box) -> ObservationKind:
    """As it is; one number is a list of one."""
    if space.shape:
        return ObservationKind(what, space, lambda array: array)
    single = spaces.Box(space.low.reshape(1), space.high.reshape(1), (1,), space.dtype.type)
    return ObservationKind(what, single, lambda array: array.reshape(1))


def _turned(what: str, space: spaces.Box, turn: Callable[[Array], Array], how: str) -> ObservationKind:
    """Bounds are turned as observations are."""
    return ObservationKind(what, spaces.Box(turn(space.low), turn(space.high), dtype=space.dtype.type), turn, how)


def _values(space: spaces.Box) -> Values:
    low, high = float(space.low.min()), float(space.high.max())
    if low >= -SMALL and high <= SMALL:
        return "small"
    return "bytes" if low == 0 and high == 255 else "wide"


def _shares(space: spaces.Box) -> bool:
    """Fractions from 0 to 1, or from -1 to 1, which is what pixels are often scaled to."""
    return space.dtype.kind == "f" and float(space.low.min()) >= -1 and float(space.high.max()) <= 1


def _picture(sides: tuple[int, ...], channels: int) -> str:
    single = {1: "grey picture", 3: "RGB picture", 4: "picture of 4 channels (RGB with a mask, or 4 grey)"}
    name = single.get(channels, f"stack of {channels} grey pictures" if channels % 3 else "")
    return f"{name or f'stack of {channels // 3} RGB pictures'} {_by(sides)}"


def _cells(sides: tuple[int, ...], depth: int, space: spaces.Box, symbols: bool) -> str:
    name = "symbol" if symbols or space.dtype.kind in "iu" else "number"
    return f"grid of {_by(sides)} cells with {_count(depth, name)} each{' (MiniGrid)' if symbols else ''}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def _by(sides: tuple[int, ...]) -> str:
    return "x".join(map(str, sides))


def _bounds(space: spaces.Box) -> str:
    return f"{space.low.min():g} to {space.high.max():g}"


def _brief(space: spaces.Space[Any]) -> str:
    """A space in few words: arrays and Dicts print all that is in them."""
    if isinstance(space, spaces.Box):
        return _kind_of_box(space, False).what
    return type(space).__name__ if isinstance(space, spaces.Dict | spaces.Tuple) else f"{space!s:.60}"


def _array(raw: Any, space: spaces.Box) -> Observation:
    """A copy of what was given: environments may write into it again."""
    array = _of_kind(raw, space.dtype)
    if array.shape != space.shape:
        raise UsageError(
            f"The environment gave an observation of shape {array.shape}, its observation space says {space.shape}; "
            f"correct one of them."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UsageError(
            f"The environment gave an observation that is not finite ({array[~np.isfinite(array)][0]}): nothing can be "
            f"learned from it; mend the environment, or clip it with a wrapper."
        )
    return array


def _of_kind(raw: Any, kind: np.dtype[Any]) -> Array:
    """An array of that kind of number: a conversion that would change the numbers is refused.

    NumPy makes 0 of a pixel of 0.5 and 255 of -1 without a word, and nothing would be learned from it.
    """
    try:
        given = np.array(raw)
        if given.dtype == kind:
            return given
        if given.dtype.kind not in "biufO":
            raise TypeError(f"it holds {given.dtype}")
        with np.errstate(over="ignore", invalid="ignore"):
            array = given.astype(kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"The environment gave no array of {kind}: {raw!s:.60} ({error!s:.80}).") from error
    if kind.kind != "f" and not np.array_equal(array, given):
        wrong = given[np.asarray(array != given)].ravel()[0]
        raise UsageError(
            f"The environment gave {wrong} in an array of {given.dtype}, its observation space says {kind}, which does "
            f"not hold this; correct one of them."
        )
    return array


def _vector(what: str, count: int, read: Read) -> ObservationKind:
    return ObservationKind(what, spaces.Box(0.0, 1.0, (count,), np.float32), read)


def _whole(raw: Any) -> int:
    number = _of_kind(raw, np.dtype(np.int64))
    if number.shape:
        raise UsageError(f"The environment promised a whole number and gave {raw!r:.60}.")
    return int(number)


def _one_hot(index: int, count: int) -> Observation:
    vector = np.zeros(count, np.float32)
    if not 0 <= index < count:
        raise UsageError(f"The environment gave observation number {index} of {count}, counted from 0.")
    vector[index] = 1.0
    return vector


def _flat(raw: Any, count: int) -> Observation:
    return _of_length(_of_kind(raw, np.dtype(np.float32)), count)


def _hots(raw: Any, counts: Array, firsts: Array) -> Observation:
    indices = (_of_length(_of_kind(raw, np.dtype(np.int64)), len(counts)) - firsts).tolist()
    return np.concatenate([_one_hot(int(index), int(count)) for index, count in zip(indices, counts, strict=True)])


def _of_length(array: Array, count: int) -> Array:
    """All its numbers in a row, as many as were promised."""
    if array.size != count:
        raise UsageError(
            f"The environment gave an observation of {_count(array.size, 'number')}, its observation space says "
            f"{count}; correct one of them."
        )
    return array.ravel()
