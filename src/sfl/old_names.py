"""Names of experiments before they were a place and an agent: rows, folders and commands of then are read by them.

An experiment is called PLACE-AGENT, such as `fourroom-sfl` or `sgm-random-spawn-paper`; variants of one have a word
behind that, as `fourroom-sfl-clustered`. They were `sfl-fourroom`, `paper-doom-sgm-random`, `sfl-fourroom-clustered`.
"""

from __future__ import annotations

import re

_METHODS = {
    **{name: (name, "") for name in ("sfl", "paper", "tabular", "random", "controller", "mss", "ec")},
    **{name: (name, "") for name in ("sptm", "sgm", "ec-sptm", "ec-sgm")},
    "reachability": ("paper", "-reachability"),
    "mss-oracle": ("mss", "-oracle"),
    "sptm-rs": ("sptm", "-random-spawn-walks"),
    "sgm-rs": ("sgm", "-random-spawn-walks"),
}
"""First words of old names: the agent, and what stands behind it now."""

_MAZES = ("corridors", "large", "office", "open", "rooms", "small", "star", "sgm", r"test-\d+")

_OLD = re.compile(
    rf"(?P<method>{'|'.join(sorted(_METHODS, key=len, reverse=True))})-"
    rf"(?:(?P<grid>fourroom|multiroom-n\d+)|(?P<gym>gym)"
    rf"|doom-(?:(?P<maze>{'|'.join(_MAZES)})-)?(?P<spawn>random|fixed)|(?P<laptop>doom-small))(?P<rest>-.+)?"
)


def new_name(name: str) -> str:
    """What an experiment, or a row or folder of its runs, is called now; every other name stays as it is."""
    found = _OLD.fullmatch(name)
    if found is None:
        return name
    agent, variant = _METHODS[found["method"]]
    return f"{_place(found)}-{agent}{variant}{found['rest'] or ''}"


def _place(found: re.Match[str]) -> str:
    if found["spawn"]:
        return f"{found['maze'] or 'maze'}-{found['spawn']}-spawn"
    if found["laptop"]:
        return "laptop-maze"
    return found["grid"] or "world"


_OPTIONS = {"--agent.strangers": "--agent.extra-negatives"}


def new_option(word: str) -> str:
    """What an option of a command, with its value or without, is called now; every other word stays as it is."""
    name, equals, value = word.partition("=")
    return f"{_OPTIONS.get(name, name)}{equals}{value}"
