"""The page as one file: how its modules become one script, and what an export holds."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sfl.cli import main
from sfl.errors import SflError, UsageError
from sfl.studio.bundle import PAGE, bundled, one_file
from sfl.studio.export import documents, export, first_walk, packed, pictures, spread
from sfl.studio.fields import Table
from sfl.studio.server import KINDS
from sfl.studio.shared import Studio
from sfl.worlds import Task

MAX_LINES, MAX_WIDTH = 400, 120


def embedded(page: str) -> dict[str, Any]:
    """The documents of an exported page."""
    found = re.search(r"<script>window\.SFL_EXPORT=(.*);</script>", page)
    assert found is not None
    kept: dict[str, Any] = json.loads(found[1])["documents"]
    return kept


@pytest.mark.parametrize("path", sorted(PAGE.iterdir()), ids=lambda path: path.name)
def test_files_of_the_page_are_short_and_load_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    assert [line for line in text.splitlines() if len(line) > MAX_WIDTH] == []
    assert path.suffix in KINDS
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)\S+", text) == []


def test_every_module_is_reached_from_the_first() -> None:
    script = bundled()
    assert sorted(re.findall(r'^modules\["(.+?)"\] = ', script, re.MULTILINE)) == sorted(
        path.name for path in PAGE.glob("*.js")
    )


def test_modules_come_after_what_they_import_and_keep_their_scopes() -> None:
    script = bundled(
        {
            "main.js": 'import { one, two as other } from "./a.js";\nconst hidden = one + other();\n',
            "a.js": 'import { two } from "./b.js";\nconst hidden = 1;\nexport const one = hidden;\n'
            "export function both() {\n  return two();\n}\n",
            "b.js": "export async function two() {\n  return 2;\n}\n",
        }
    )
    assert script.index('modules["b.js"] =') < script.index('modules["a.js"] =') < script.index('modules["main.js"] =')
    assert 'const { one, two: other } = modules["a.js"];' in script
    assert "return { one, both };" in script
    assert "return { two };" in script
    assert "export " not in script


@pytest.mark.parametrize(
    ("sources", "complaint"),
    [
        ({"main.js": 'import { a } from "./a.js";\n', "a.js": 'import { m } from "./main.js";\n'}, "in a circle"),
        ({"main.js": 'import { a } from "./missing.js";\n'}, "do not all exist: main.js -> missing.js"),
        ({"main.js": 'import a from "./a.js";\n', "a.js": ""}, "named imports and exports only"),
        ({"main.js": "export default 1;\n"}, "named imports and exports only"),
        ({"main.js": 'const end = "</script>";\n'}, "would end the script"),
    ],
)
def test_what_cannot_be_bundled_is_refused(sources: dict[str, str], complaint: str) -> None:
    with pytest.raises(SflError, match=complaint):
        bundled(sources)


def test_a_page_holds_its_documents_whatever_they_say() -> None:
    kept = {"/api/runs": {"runs": [{"title": "</script><!-- \u2028 <b>"}]}, "number": 0.5}
    page = one_file(kept)
    assert embedded(page) == kept
    assert page.count("</script>") == 2
    assert '<link rel="stylesheet"' not in page
    assert "default-src 'none'" in page


def test_scores_become_bytes_by_reference() -> None:
    poses = np.array([[x, 0, heading] for x in (0.0, 1.0) for heading in (0, 90, 180, 270)])
    scores = np.linspace(-1, 1, 64).reshape(8, 8)
    scores[0, 3] = np.nan
    document = packed(Table(poses, 1.0, poses, scores.astype(np.float16), (-1.0, 1.0)))
    levels = np.frombuffer(base64.b64decode(document["values"]), np.uint8).reshape(8, 8)
    expected = np.where(np.isnan(scores), -1, scores)
    np.testing.assert_allclose(levels.T / 127.5 - 1, expected, atol=1 / 255 + 2e-3)
    assert document["references"]["degrees"] == [0, 90, 180, 270] * 2


def test_checkpoints_are_spread_and_the_ends_kept() -> None:
    lines = [{"name": str(number)} for number in range(21)]
    chosen = [line["name"] for line in spread(lines, 8)]
    assert (chosen[0], chosen[-1], len(chosen)) == ("0", "20", 8)
    assert spread(lines[:3], 8) == lines[:3]


def test_an_export_holds_what_the_page_asks_for(grid_run: Path) -> None:
    studio = Studio([grid_run])
    try:
        found = documents(studio)
    finally:
        studio.close()
    for line in found["/api/runs"]["runs"]:
        run = line["id"]
        assert found[f"/api/runs/{run}/map"]["kind"] == line["world"]
        for kept in line["checkpoints"]:
            graph = found[f"/api/runs/{run}/graph?checkpoint={kept['name']}"]
            assert graph["env_steps"] == kept["env_steps"]
        pictures = found["pictures"][run]["last"]
        assert len(pictures) == len(graph["landmarks"]["x"])
        assert all(picture.startswith("data:image/") for picture in pictures.values())
        field = found["fields"][run]["last"]
        views = len(field["places"]["x"]) * len(field["places"]["headings"])
        assert len(base64.b64decode(field["values"])) == views**2
    assert [episode["title"] for episode in found["episodes"]] == ["paper, task 1", "any, task 1"]
    for episode in found["episodes"]:
        kinds = [event["type"] for event in episode["events"]]
        assert (kinds[0], kinds[-1]) == ("begin", "end")
    assert set(found["/api/config"]["settings"]) == {"r0"}
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_views_of_a_maze_become_small_pictures(maze_run: Path) -> None:
    studio = Studio([maze_run])
    try:
        kept = pictures(studio, studio.shelf.run("r0"))["last"]
    finally:
        studio.close()
    assert list(kept) == [str(landmark) for landmark in range(40)]
    for address in kept.values():
        picture = Image.open(io.BytesIO(base64.b64decode(address.partition("base64,")[2])))
        assert picture.size == (120, 90)
    assert len(set(kept.values())) > 30  # landmarks see different things
    assert sum(map(len, kept.values())) < 40 * 6_000


def test_a_part_that_cannot_be_had_is_left_out_with_a_note(grid_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (grid_run / "checkpoints" / "last" / "graph.npz").write_bytes(b"broken")
    studio = Studio([grid_run])
    try:
        found = documents(studio)
    finally:
        studio.close()
    assert "/api/runs/r0/graph?checkpoint=last" not in found
    assert "/api/runs/r0/map" in found
    assert "left out: " in capsys.readouterr().err


def test_wrong_files_are_refused_and_nothing_is_left(grid_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"give a name that ends in \.html"):
        export([grid_run], tmp_path / "page.txt")
    with pytest.raises(UsageError, match="a file in a folder that exists"):
        export([grid_run], tmp_path / "no" / "page.html")
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "config.json").write_bytes((grid_run / "config.json").read_bytes())
    with pytest.raises(UsageError, match="None of these runs has a checkpoint yet"):
        export([empty], tmp_path / "page.html")
    assert list(tmp_path.glob("page*")) == []


def test_the_command_writes_one_file(grid_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.html"
    file.write_text("the one before")
    assert main(["studio", str(grid_run), "--export", str(file)]) == 0
    assert re.fullmatch(rf"{re.escape(str(file))} \(\d+\.\d MB\)\n", capsys.readouterr().out)
    assert embedded(file.read_text(encoding="utf-8"))["/api/runs"]["runs"][0]["title"] == "fourroom-sfl seed 0"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "runs"]


def test_an_episode_is_one_that_takes_a_walk() -> None:
    there, beside, far = (Task("any", pair, (0.0, 0.0, 0.0), (x, 0.0, 0.0), 9) for pair, x in enumerate((0, 60, 70)))
    assert first_walk([there, beside, far], 64.0) is far
    assert first_walk([there, beside], 64.0) is there  # none does
    unknown = Task("any", 3, None, (1.0, 1.0, 0.0), 9)  # wherever the environment starts
    assert first_walk([there, unknown, far], 64.0) is unknown
