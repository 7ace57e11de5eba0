"""Frozen dataclasses to plain JSON and back, with exact keys."""

from __future__ import annotations

import dataclasses
import math
import numbers
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from sfl.errors import UsageError

T = TypeVar("T")


def to_json(config: Any) -> Any:
    """A dataclass (or a tuple, or a plain value) as JSON; each dataclass carries its class name as `kind`."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        body = {field.name: to_json(getattr(config, field.name)) for field in dataclasses.fields(config)}
        return {"kind": type(config).__name__, **body}
    if isinstance(config, tuple | list):
        return [to_json(item) for item in config]
    if isinstance(config, dict):
        return {key: to_json(value) for key, value in config.items()}
    return config


def later(default: T) -> T:
    """The default of a setting that came after runs had been made: their config.json is read without it."""
    return dataclasses.field(default=default, metadata={"later": True})


FORMER_KINDS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""By the class that a config.json names: makes of its JSON that of a class there is, where older runs had another one
or called its settings otherwise."""


def from_json(annotation: Any, value: Any, where: str = "config") -> Any:
    """Rebuild a value of the annotated type; missing or foreign keys are an error that lists them, and a value of
    another type is one that names both. A whole number will do for a float, but not the other way round."""
    former = FORMER_KINDS.get(str(value.get("kind"))) if isinstance(value, dict) else None
    value = value if former is None else former(value)
    origin = typing.get_origin(annotation)
    if origin is typing.Union or origin is types.UnionType:
        return _from_union(typing.get_args(annotation), value, where)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _from_mapping(annotation, value, where)
    if origin is tuple:
        inner = typing.get_args(annotation)[0]
        require(isinstance(value, list), f"{where} must be a list, got {_shown(value)}.")
        return tuple(from_json(inner, item, f"{where}[{number}]") for number, item in enumerate(value))
    if origin is typing.Literal:
        known = typing.get_args(annotation)
        words = ", ".join(map(repr, known))
        require(isinstance(value, str) and value in known, f"{where} must be one of {words}, got {_shown(value)}.")
        return value
    what, fits = _PLAIN[annotation]
    require(fits(value), f"{where} must be {what}, got {_shown(value)}.")
    return float(value) if annotation is float else value


def _from_union(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in choices:
        return None
    kinds = [choice for choice in choices if dataclasses.is_dataclass(choice)]
    if not kinds:
        (plain,) = (choice for choice in choices if choice is not type(None))
        return from_json(plain, value, where)
    kind = value.get("kind") if isinstance(value, dict) else None
    for choice in kinds:
        if choice.__name__ == kind:  # type: ignore[union-attr]
            return from_json(choice, value, where)
    raise UsageError(f"{where} is of unknown kind {_shown(kind)}; this version of sfl cannot read it.")


def _from_mapping(cls: type[T], value: Any, where: str) -> T:
    require(isinstance(value, dict), f"{where} must be a JSON object, got {_shown(value)}.")
    hints = typing.get_type_hints(cls)
    known = dataclasses.fields(cls)  # type: ignore[arg-type]
    value = {field.name: to_json(field.default) for field in known if field.metadata.get("later")} | value
    names, given = {field.name for field in known}, set(value) - {"kind"}
    if given != names:
        raise UsageError(
            f"{where} does not fit {cls.__name__}: missing {sorted(names - given)}, unknown {sorted(given - names)}."
        )
    return cls(**{name: from_json(hints[name], value[name], f"{where}.{name}") for name in hints if name in names})


MOST = 2**63
"""Numbers of this size and more do not fit where torch and NumPy count."""


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is_text(value: Any) -> bool:
    """What the system takes as the name of a file, whatever its bytes."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: (f"a whole number below {MOST:.0e}", _is_whole),
    float: ("a finite number", _is_number),
    str: ("a text", _is_text),
}


def _shown(value: Any) -> str:
    return f"{value!r:.60}"


def check_numbers(config: Any, prefix: str = "--") -> None:
    """Refuse options that are no finite numbers, or larger than anything here can be; nested ones have dots."""
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), f"{prefix}{field.name.replace('_', '-')}"
        if dataclasses.is_dataclass(value):
            check_numbers(value, f"{name}.")
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float) and not isinstance(number, bool) and not _is_number(number):
                raise UsageError(f"{name} must be a finite number below {MOST:.0e}, got {_shown(number)}.")


def check_types(config: Any) -> None:
    """Refuse plain settings of another type than they are declared with; Python itself would take any."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)  # NumPy's, too
        from_json(hints[field.name], int(value) if whole else to_json(value), field.name)


def require(condition: bool, message: str) -> None:
    """Check a configuration value; `message` says what was expected and what was given."""
    if not condition:
        raise UsageError(message)
