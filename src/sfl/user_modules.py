"""Modules of the user's, by name: found in the folder of the call as by `python -m`, and again from anywhere else."""

from __future__ import annotations

import importlib
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from sfl.errors import UsageError

_OURS = Path(__file__).resolve().parent
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_noted: dict[str, str] = {}
"""Module -> the folder that a run found it in, for runs that are read from elsewhere."""


def note_folder(module: str, folder: str) -> None:
    """Where a run found a module; it is looked for there as well."""
    _noted[module] = folder


def folder_of(module: str) -> str | None:
    """The folder that a module which is loaded was found in; None for one that is installed, or none of files."""
    loaded = sys.modules.get(module)
    if loaded is None or (folder := _root(loaded)) is None or _is_installed(folder):
        return None
    return str(folder)


def import_user_module(name: str, what: str) -> ModuleType:
    """Import a module that a user named by `what` (an option); complaints are one line and name places."""
    if name.endswith(".py") or not _NAME.fullmatch(name):
        hint = f" Did you mean {name.removesuffix('.py')!r}?" if name.endswith(".py") else ""
        raise UsageError(f"{what} names the module {name!r}; a module's name is made of words with dots between.{hint}")
    _look_further(name)
    try:
        found = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _own_fault(name, what, error) from error
        raise UsageError(_not_found(name, what)) from error
    except (Exception, SystemExit) as error:  # a module of the user's may raise anything
        if is_ours(error):
            raise
        raise _own_fault(name, what, error) from error
    return found


def import_named(text: str, what: str) -> Any:
    """What `module:name` names; `what` is the option, for complaints."""
    module, colon, name = text.partition(":")
    if not colon or not name.isidentifier():
        raise UsageError(f"{what} must look like module:name, got {text!r}.")
    found = import_user_module(module, what)
    if not hasattr(found, name):
        raise UsageError(f"{what}: the module {module!r} ({_place(found)}) has no {name!r}; define it there.")
    return getattr(found, name)


def _look_further(name: str) -> None:
    """Behind all that Python knows, so that no file there hides an installed package: where runs found it, then here.

    The folders stay: what is imported may itself import its neighbours later.
    """
    for folder in (_noted.get(name), str(Path.cwd())):
        if folder and folder not in sys.path and Path(folder).is_dir():
            sys.path.append(folder)
    importlib.invalidate_caches()


def _not_found(name: str, what: str) -> str:
    noted = _noted.get(name)
    if noted is None or noted == str(Path.cwd()):
        return (
            f"{what}: no module {name!r} in {Path.cwd()} or among the installed packages; "
            f"call sfl in the folder that holds it, or name that folder by PYTHONPATH."
        )
    return (
        f"{what}: the module {name!r} is not in {noted} any more, where the run found it; "
        f"call sfl in the folder that holds it now, or name that folder by PYTHONPATH."
    )


def _own_fault(name: str, what: str, error: BaseException) -> UsageError:
    """An error in the user's own code: what it says, and in which line."""
    return UsageError(
        f"{what}: the module {name!r} cannot be imported: {fault(error)}; `python -c 'import {name}'` shows all of it."
    )


def fault(error: BaseException) -> str:
    """An error of code that is not ours: its kind, what it says, and in which line."""
    said = ": ".join(word for word in (type(error).__name__, " ".join(str(error).split())) if word)
    return f"{said} ({_line_of(error)})"


def _line_of(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    deciding = _deciding(error) or next(iter(reversed(traceback.extract_tb(error.__traceback__))), None)
    return "in no line of Python" if deciding is None else f"{deciding.filename}, line {deciding.lineno}"


def is_ours(error: BaseException) -> bool:
    """Raised by this package, which code that is not ours had called: it may be a bug of ours."""
    deciding = _deciding(error)
    return deciding is not None and _is_in(deciding, _OURS)


def _deciding(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost line of this package or of the user's own code, below the one where we called what failed."""
    below = [frame for frame in traceback.extract_tb(error.__traceback__)[1:] if Path(frame.filename).is_file()]
    own = (frame for frame in reversed(below) if not _is_installed(Path(frame.filename)) or _is_in(frame, _OURS))
    return next(own, None)


def _is_in(frame: traceback.FrameSummary, folder: Path) -> bool:
    return folder in Path(frame.filename).resolve().parents


def _root(module: ModuleType) -> Path | None:
    """The folder on Python's path from which a module was loaded."""
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    depth = module.__name__.count(".") + (Path(file).stem == "__init__")
    return Path(file).resolve().parents[depth]


def _is_installed(path: Path) -> bool:
    """In a folder of Python's own or of installed packages, or such a folder."""
    names: Iterable[str] = ("stdlib", "platstdlib", "purelib", "platlib")
    places = {Path(sysconfig.get_path(name)).resolve() for name in names}
    return not places.isdisjoint((path.resolve(), *path.resolve().parents))


def _place(module: ModuleType) -> str:
    return str(getattr(module, "__file__", None) or "no file")
