"""A browser, and real servers over real runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.bench.specimen import make_specimen
from benchmarks.bench.studio import running

from sfl.studio.shared import DEMO

pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")

from playwright.sync_api import Browser, sync_playwright

from .page import Sight

ROOT = Path(__file__).parents[3]
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
WORDS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")

Opener = Callable[..., Sight]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without a window. It ends with the module, and with it the event loop that it keeps in this thread."""
    found = os.environ.get("SFL_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        pytest.skip("there is no chromium on this machine; install one, or name it by SFL_CHROMIUM")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=list(WORDS))
        yield started
        started.close()


@pytest.fixture
def see(browser: Browser) -> Iterator[Opener]:
    """Opens pages; a test during which one of their consoles complains fails."""
    opened: list[Sight] = []

    def open_page(*words: object, **options: object) -> Sight:
        opened.append(Sight(browser, *words, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_page
    complaints = [complaint for sight in opened for complaint in sight.complaints]
    for sight in opened:
        sight.close()
    assert complaints == []


@pytest.fixture(scope="session")
def _sources() -> Iterator[None]:
    """Processes that a test starts run this code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT / "src"))
        yield


@pytest.fixture(scope="session")
def demo_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Copies of the demo's runs: r0 has learned FourRoom, r1 acts at random there."""
    place = tmp_path_factory.mktemp("demo")
    names = ("demo-fourroom", "random-fourroom")
    return [Path(shutil.copytree(DEMO / name, place / name)) for name in names]


@pytest.fixture(scope="session")
def demo(demo_runs: list[Path], _sources: None) -> Iterator[str]:
    """The address of a server over the demo's runs."""
    with running(*demo_runs) as server:
        server.ask("/api/runs/r0/fields", {"checkpoint": "last"})
        yield server.address


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory, _sources: None) -> Iterator[str]:
    """The address of a server over a run with 5,000 landmarks and 30,000 edges."""
    with running(make_specimen(tmp_path_factory.mktemp("large") / "specimen").path) as server:
        yield server.address
