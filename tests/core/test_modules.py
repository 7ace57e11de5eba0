"""Modules of the user's: where they are looked for, and what is said where they cannot be had."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfl import user_modules as modules
from sfl.errors import UsageError
from sfl.user_modules import folder_of, import_named, import_user_module, note_folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, in which Python does not look by itself."""
    path, loaded = list(sys.path), set(sys.modules)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.path[:] = path
    modules._noted.clear()
    for name in set(sys.modules) - loaded:
        del sys.modules[name]


def test_a_module_in_this_folder_is_found_with_its_neighbours(here: Path) -> None:
    (here / "kit").mkdir()
    (here / "kit" / "__init__.py").write_text(
        "import beside\n\n\ndef later():\n    import at_work\n    return at_work.A\n"
    )
    (here / "beside.py").write_text("B = 2\n")
    (here / "at_work.py").write_text("A = 1\n")
    assert import_named("kit:later", "--env.goals")() == 1
    assert folder_of("kit") == folder_of("beside") == str(here)
    (here / "kit" / "inner.py").write_text("C = 3\n")
    assert import_named("kit.inner:C", "--env.goals") == 3
    assert folder_of("kit.inner") == str(here)


def test_nothing_in_this_folder_hides_an_installed_package(here: Path) -> None:
    (here / "tabnanny.py").write_text("raise RuntimeError('the wrong one')\n")  # nobody has imported that before
    assert hasattr(import_user_module("tabnanny", "env.id"), "check")
    assert folder_of("tabnanny") is None
    assert folder_of("not_loaded") is None


def test_where_a_run_found_it_comes_before_this_folder(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    for place, number in ((here, 1), (other, 2)):
        (place / "twice.py").write_text(f"N = {number}\n")
    note_folder("twice", str(other))
    assert import_named("twice:N", "env.id") == 2


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "none",
            r"env.id: no module 'none' in .* or among the installed packages; call sfl in the folder that holds it",
        ),
        ("none.inner", "no module 'none.inner' in "),
        ("raises", r"'raises' cannot be imported: ValueError: of my own \(.*raises.py, line 2\); `python -c"),
        ("lacks", r"'lacks' cannot be imported: ModuleNotFoundError: No module named 'nobody' \(.*lacks.py, line 1\)"),
        ("torn", r"'torn' cannot be imported: SyntaxError: .* \(.*torn.py, line 1\)"),
        ("leaves", r"'leaves' cannot be imported: SystemExit: 3 \(.*leaves.py, line 1\)"),
        ("raises.py", "names the module 'raises.py'; .* Did you mean 'raises'"),
        ("a/b", "names the module 'a/b'; a module's name is made of words with dots between"),
    ],
)
def test_what_cannot_be_imported_is_one_line(here: Path, name: str, line: str) -> None:
    (here / "raises.py").write_text("A = 1\nraise ValueError('of my\\nown')\n")
    (here / "lacks.py").write_text("import nobody\n")
    (here / "torn.py").write_text("def (:\n")
    (here / "leaves.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(UsageError, match=line) as caught:
        import_user_module(name, "env.id")
    assert "\n" not in str(caught.value)


def test_a_name_that_is_not_there_is_one_line(here: Path) -> None:
    (here / "empty.py").write_text("")
    with pytest.raises(UsageError, match=r"--env.goals: the module 'empty' \(.*empty.py\) has no 'draw'; define it"):
        import_named("empty:draw", "--env.goals")
    for text in ("empty", "empty:", "empty:a b"):
        with pytest.raises(UsageError, match="must look like module:name, got"):
            import_named(text, "--env.goals")


def test_an_error_of_our_own_is_not_laid_at_the_users_door(here: Path) -> None:
    (here / "calls.py").write_text(
        "from sfl.config import to_json\n\nto_json(type('A', (), {'__dataclass_fields__': 3})())\n"
    )
    with pytest.raises(AttributeError):
        import_user_module("calls", "env.id")
    (here / "refused.py").write_text("from sfl.worlds import MiniGridConfig\n\nMiniGridConfig('x')\n")
    with pytest.raises(UsageError, match="No grid world 'x'"):
        import_user_module("refused", "env.id")
