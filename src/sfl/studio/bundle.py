"""The page as one file: style and modules inlined, documents embedded, nothing to fetch. Opens from disk."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfl.errors import SflError

PAGE = Path(__file__).parent / "page"
FIRST = "main.js"

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
FOREIGN = re.compile(r"^(?:import|export)\b.*$|\bawait import\(", re.MULTILINE)

SHEET = re.compile(r'<link rel="stylesheet" href="page/([\w.]+)">')

POLICY = "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The browser itself sees to it that an exported page asks nobody for anything."""


def one_file(documents: Mapping[str, Any]) -> str:
    """The whole page with its documents, as the text of one HTML file."""
    data = json.dumps({"documents": documents}, allow_nan=False, separators=(",", ":"))
    # Within a script element only "<" can end it or begin a comment.
    embedded = f"window.SFL_EXPORT={data.replace('<', chr(92) + 'u003c')};"
    page = SHEET.sub(lambda found: f"<style>\n{_read(found[1])}</style>", _read("index.html"))
    for old, new in (
        ("<head>", f'<head>\n    <meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        (f'    <script type="module" src="page/{FIRST}"></script>\n', ""),
        ("</body>", f"<script>{embedded}</script>\n<script>\n{bundled()}</script>\n</body>"),
    ):
        if page.count(old) != 1:
            raise SflError(f"index.html of the page must hold {old!r} once, it does {page.count(old)} times.")
        page = page.replace(old, new)
    return page


def bundled(sources: Mapping[str, str] | None = None) -> str:
    """All modules as one plain script: each is a function of its own scope, called in the order of their imports."""
    sources = sources if sources is not None else {path.name: _read(path.name) for path in sorted(PAGE.glob("*.js"))}
    parts = [_module(name, sources[name]) for name in _ordered(sources)]
    text = '"use strict";\nconst modules = {};\n' + "".join(parts)
    if "</script" in text or "<!--" in text:
        raise SflError("A module of the page holds '</script' or '<!--', which would end the script it is inlined in.")
    return text


def _read(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _module(name: str, source: str) -> str:
    exported = EXPORT.findall(source)
    body = IMPORT.sub(lambda found: f'const {{{_renamed(found[1])}}} = modules["{found[2]}"];', source)
    body = EXPORT.sub("", body)
    foreign = FOREIGN.search(body)
    if foreign is not None:
        raise SflError(f"{name} of the page says {foreign[0]!r}; the bundler knows named imports and exports only.")
    return f'modules["{name}"] = (() => {{\n{body}return {{ {", ".join(exported)} }};\n}})();\n'


def _renamed(names: str) -> str:
    return re.sub(r"\bas\b", ":", names).replace(" :", ":")


def _ordered(sources: Mapping[str, str]) -> list[str]:
    """Names of modules, each after those that it imports."""
    order: list[str] = []
    above: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        if name in above or name not in sources:
            fault = "import each other in a circle" if name in above else "do not all exist"
            raise SflError(f"Modules of the page {fault}: {' -> '.join([*above, name])}.")
        above.append(name)
        for _, other in IMPORT.findall(sources[name]):
            visit(other)
        order.append(above.pop())

    visit(FIRST)
    return order
