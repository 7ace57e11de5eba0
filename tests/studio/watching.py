"""What tests of live episodes share: asking for them, reading what is told, and looking for what is left."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from sfl.studio.players import Event

SHORT = {"start": [1, 1, 0], "goal": [7, 7, 0], "budget": 12, "seed": 3}


def of_kind(events: list[Event], kind: str, player: int = 0) -> list[Event]:
    return [event for event in events if event["type"] == kind and event["player"] == player]


def heard(response: Any) -> list[tuple[int, Event]]:
    """Numbers and events of a stream that has ended."""
    blocks = [block.split("\n") for block in response.text.split("\n\n") if block.startswith("id: ")]
    return [(int(number[4:]), json.loads(text[6:])) for number, text in blocks]


def begin(client: TestClient, *players: str, **task: Any) -> str:
    body = {"players": [{"run": name, "checkpoint": "last"} for name in players], **SHORT, **task}
    answer = client.post("/api/live", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def hasten(client: TestClient, name: str) -> None:
    assert client.post(f"/api/live/{name}", json={"do": "play", "speed": 60}).json() == {}


def children() -> set[int]:
    """Processes that this one has started and that are still there."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == os.getpid():
                found.add(int(entry))
    return found


def episodes() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("episode")]
