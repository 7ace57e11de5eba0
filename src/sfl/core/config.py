"""Frozen dataclasses to plain JSON and back, with exact keys."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, TypeVar

from sfl.core.errors import UsageError

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


def from_json(annotation: Any, value: Any, where: str = "config") -> Any:
    """Rebuild a value of the annotated type; missing or foreign keys are an error that lists them."""
    origin = typing.get_origin(annotation)
    if origin is typing.Union or origin is types.UnionType:
        return _from_union(typing.get_args(annotation), value, where)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _from_mapping(annotation, value, where)
    if origin in (tuple, list):
        inner = typing.get_args(annotation)[0]
        return origin(from_json(inner, item, where) for item in value)
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _from_union(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    if isinstance(value, dict) and "kind" in value:
        for choice in choices:
            if isinstance(choice, type) and choice.__name__ == value["kind"]:
                return from_json(choice, value, where)
        raise UsageError(f"{where} is of unknown kind {value['kind']!r}; this version of sfl cannot read it.")
    if value is None:
        return None
    plain = [choice for choice in choices if choice is not type(None)]
    return from_json(plain[0], value, where) if len(plain) == 1 else value


def _from_mapping(cls: type[T], value: Any, where: str) -> T:
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a JSON object, got {value!r}.")
    hints = typing.get_type_hints(cls)
    known = dataclasses.fields(cls)  # type: ignore[arg-type]
    value = {field.name: to_json(field.default) for field in known if field.metadata.get("later")} | value
    names, given = {field.name for field in known}, set(value) - {"kind"}
    if given != names:
        raise UsageError(
            f"{where} does not fit {cls.__name__}: missing {sorted(names - given)}, unknown {sorted(given - names)}."
        )
    return cls(**{name: from_json(hints[name], value[name], f"{where}.{name}") for name in names})


def require(condition: bool, message: str) -> None:
    """Check a configuration value; `message` says what was expected and what was given."""
    if not condition:
        raise UsageError(message)
