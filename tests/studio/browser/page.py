"""The page as a user has it before them: in a real browser, by mouse and keyboard."""

from __future__ import annotations

import os
import time
from base64 import b64decode, b64encode
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request

LAPTOP, SCREEN, OLD_PROJECTOR = (1366, 768), (1920, 1080), (1024, 768)
SCREENSHOTS = os.environ.get("SFL_SCREENSHOTS")
"""A folder: the tests leave pictures of the page there, as the docs show them."""

LARGEST = 140_000
"""Bytes of a picture for the docs."""

PATIENCE = 60.0
"""Seconds until something that should come is given up; it comes in one, unless the machine is busy."""


TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
"""What was changed before is laid out and drawn then."""

DROP = """([name, type, letters]) => {
  const carried = new DataTransfer();
  const bytes = Uint8Array.from(atob(letters), letter => letter.charCodeAt(0));
  carried.items.add(new File([bytes], name, { type }));
  for (const kind of ["dragover", "drop"])
    document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
}"""


COUNTED = """window.resized = 0;
window.ResizeObserver = class extends ResizeObserver {
  constructor(tell) { super((...all) => { window.resized += 1; tell(...all); }); }
};"""
"""Counts how often anything on the page that watches its own size was told of another one."""

STICKING_OUT = """() => [...document.querySelectorAll(".left *, .middle *, .right *, header *")].filter(node => {
  const column = node.closest(".left, .middle, .right, header");
  const [box, around] = [node, column].map(one => one.getBoundingClientRect());
  return node.checkVisibility() && !node.matches(".away") && box.width
    && (box.right > around.right + 1 || box.left < around.left - 1);
}).map(node => node.outerHTML.slice(0, 80))"""
"""What lies outside of its part of the page."""


class Sight:
    """One open page."""

    def __init__(
        self, browser: Browser, address: str, size: tuple[int, int] = LAPTOP, dark: bool = False, touch: bool = False
    ) -> None:
        width, height = size
        self._context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            has_touch=touch,
            is_mobile=touch,
        )
        self._context.add_init_script(COUNTED)
        self.page: Page = self._context.new_page()
        self.complaints: list[str] = []
        """What the browser's console says that is no mere remark."""
        self.asked: list[str] = []
        """Addresses that were asked for."""
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._note)
        self.page.goto(address)
        self.wait("Boolean(window.studio?.ready)")

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def _note(self, request: Request) -> None:
        self.asked.append(request.url)

    def close(self) -> None:
        """Leave the page."""
        self._context.close()

    def wait(self, condition: str, patience: float = PATIENCE) -> None:
        """Until a JavaScript expression holds. The page's own rules let nobody evaluate text in it, so it is asked."""
        end = time.monotonic() + patience
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, f"{condition} did not come true; the page says {self.state}"
            time.sleep(0.03)

    @property
    def state(self) -> dict[str, Any]:
        """What is shown."""
        found: dict[str, Any] = self.page.evaluate("window.studio.state")
        return found

    @property
    def live(self) -> dict[str, Any]:
        """The episode."""
        found: dict[str, Any] = self.page.evaluate("window.studio.live")
        return found

    def at_rest(self) -> dict[str, Any]:
        """The episode, once a word to the server has arrived: nothing is added any more."""
        before: dict[str, Any] = {}
        while before != self.live:
            before = self.live
            self.page.wait_for_timeout(500)
        return before

    def part(self, name: str) -> Locator:
        """An element by its test id."""
        return self.page.get_by_test_id(name)

    def text(self, name: str) -> str:
        """What an element says."""
        return self.part(name).inner_text()

    def document(self, address: str) -> Any:
        """An answer of the server."""
        return self.page.evaluate("address => fetch(address).then(answer => answer.json())", address)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a place of the world lies on the screen, once the map has the size that what is shown leaves it."""
        self.page.evaluate(TWO_FRAMES)
        left, top = self.page.evaluate("place => window.studio.screen(...place)", [x, y])
        return left, top

    def click(self, x: float, y: float) -> None:
        """On a place of the world."""
        self.page.mouse.click(*self.place(x, y))

    def tap(self, x: float, y: float) -> None:
        """With a finger on a place of the world."""
        self.page.touchscreen.tap(*self.place(x, y))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """From one point of the screen to another."""
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move(*end, steps=6)
        self.page.mouse.up()

    def send(self, start: tuple[float, float], goal: tuple[float, float]) -> None:
        """Drag from a place of the world to another, with Shift: the agent is to go there."""
        self.page.keyboard.down("Shift")
        self.drag(self.place(*start), self.place(*goal))
        self.page.keyboard.up("Shift")

    def look(self, x: float, y: float) -> None:
        """Click a place and wait for its field."""
        self.click(x, y)
        self.wait("window.studio.state.field")

    def picture(self, name: str) -> bytes:
        """The file that an image on the page shows, given as data in its address."""
        return b64decode((self.part(name).get_attribute("src") or "").partition("base64,")[2])

    def drop(self, name: str, kind: str, content: bytes) -> None:
        """Let a file fall onto the page."""
        self.page.evaluate(DROP, [name, kind, b64encode(content).decode()])

    def slide(self, name: str, value: float) -> None:
        """Move a slider."""
        self.part(name).fill(str(value))

    def colour(self, x: float, y: float) -> tuple[int, ...]:
        """Of the map at a place of the world."""
        # The picture is drawn anew when the view has settled; on the page's own clock, which stands when it is starved.
        self.page.evaluate("new Promise(done => setTimeout(() => done(), 300))")
        left, top = self.place(x, y)
        clip = {"x": round(left), "y": round(top), "width": 1, "height": 1}
        picture = Image.open(BytesIO(self.page.screenshot(clip=clip)))  # type: ignore[arg-type]
        return tuple(picture.convert("RGB").getpixel((0, 0)))  # type: ignore[arg-type]

    def shoot(self, name: str) -> None:
        """Leave a picture for the docs, where one is asked for; few colours keep it small."""
        if not SCREENSHOTS:
            return
        self.page.wait_for_timeout(400)
        folder = Path(SCREENSHOTS)
        folder.mkdir(parents=True, exist_ok=True)
        picture = Image.open(BytesIO(self.page.screenshot())).convert("RGB")
        picture.thumbnail(
            (LAPTOP[0], max(LAPTOP[1], picture.height if picture.width < 500 else 0)), Image.Resampling.LANCZOS
        )
        file = folder / f"{name}.png"
        for colours in (256, 64):
            few = picture.quantize(colours, Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE)
            few.save(file, optimize=True)
            if file.stat().st_size < LARGEST:
                break

    def film(self, name: str) -> Film:
        """Frames of what happens on this page, for an animated picture in the docs."""
        return Film(self, name)


class Film:
    """An animated picture in the making, where one is asked for."""

    def __init__(self, sight: Sight, name: str) -> None:
        self._sight, self._name = sight, name
        self._frames: list[bytes] = []
        self._lasting: list[int] = []

    def take(self, milliseconds: int, times: int = 1) -> None:
        """So many frames, each shown for so long."""
        for _ in range(times if SCREENSHOTS else 0):
            self._frames.append(self._sight.page.screenshot())
            self._lasting.append(milliseconds)

    def save(self) -> None:
        """All frames, again and again."""
        if SCREENSHOTS:
            first, *others = map(_drawn, self._frames)
            first.save(
                Path(SCREENSHOTS) / f"{self._name}.gif",
                save_all=True,
                append_images=others,
                duration=self._lasting,
                loop=0,
            )


def _drawn(screenshot: bytes) -> Image.Image:
    """A frame of a film: small, in few colours."""
    frame = Image.open(BytesIO(screenshot)).convert("RGB")
    frame.thumbnail((960, 600), Image.Resampling.LANCZOS)
    return frame.quantize(96, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
