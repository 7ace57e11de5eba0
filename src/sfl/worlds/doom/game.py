"""One ViZDoom game of a maze, in this process: start, begin an episode at a pose, act, look."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import vizdoom

from sfl.api import Array
from sfl.errors import SflError
from sfl.worlds.doom.protocol import ACTIONS, Limits
from sfl.worlds.doom.workers import last_words, read_engine
from sfl.worlds.tasks import Pose

ACTION_REPEAT = 4

ENGINE_ERRORS = (
    vizdoom.ViZDoomErrorException,
    vizdoom.ViZDoomUnexpectedExitException,
    vizdoom.ViZDoomIsNotRunningException,
    vizdoom.MessageQueueException,
    vizdoom.SharedMemoryException,
)
"""What ViZDoom raises when its engine is gone."""

_BUTTONS = [
    vizdoom.Button.MOVE_LEFT,
    vizdoom.Button.MOVE_RIGHT,
    vizdoom.Button.MOVE_FORWARD,
    vizdoom.Button.MOVE_BACKWARD,
    vizdoom.Button.TURN_LEFT,
    vizdoom.Button.TURN_RIGHT,
    vizdoom.Button.TURN_LEFT_RIGHT_DELTA,
]
_PRESSED = [[float(button == action) for button in range(6)] + [0.0] for action in range(len(ACTIONS))]
_NOTHING = _PRESSED[-1]

_ENGINE_SEED = 100  # the same for every episode: the engine's own chance must not tell episodes apart
_SETTLING_TICS = 8  # after the start of a map the engine may ignore actions for so long
_TURN_TICS = 2
_GREATEST_TURN = 120.0  # degrees a tic
_WARP_TICS = _TURN_TICS + 1
_GRACE = 1.0  # seconds between the end of an engine and ViZDoom's notice of it


class GameStartError(SflError):
    """A game that does not start."""


class _Watchdog:
    """Kills an engine that does not answer in time. ViZDoom itself would wait for ever; it then mostly raises."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._deadline = float("inf")
        self._stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Give what is done inside so many seconds."""
        self._deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = float("inf")

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            late = time.monotonic() - self._deadline
            if late > 0 and (engine := read_engine(self._folder)) is not None:
                engine.kill()
            if late > _GRACE:
                print("ViZDoom did not return after its engine was killed.", file=sys.stderr, flush=True)
                os._exit(1)  # seen at the start of an episode; the parent replaces this process

    def stop(self) -> None:
        self._stop.set()


class Game:
    """A game that can be started again when its engine has died. Only `close` ends it for good."""

    def __init__(self, wad: Path, map_name: str, folder: Path, visible: bool, limits: Limits) -> None:
        self._wad, self.map_name = wad, map_name
        self._folder, self._visible, self._limits = folder, visible, limits
        folder.mkdir(parents=True, exist_ok=True)
        self._watchdog = _Watchdog(folder)
        self._game = vizdoom.DoomGame()
        self.begun = False
        """An episode has begun and the engine has not ended it."""

    def start(self) -> None:
        """Start the engine, or start it again."""
        self.begun = False
        self._game.close()
        (self._folder / "engine.txt").unlink(missing_ok=True)
        self._game = self._configured()
        os.chdir(self._folder)  # the engine writes its settings and a folder to wherever it starts
        try:
            with self._watchdog.limit(self._limits.start):
                self._game.init()
        except (*ENGINE_ERRORS, vizdoom.FileDoesNotExistException) as error:
            reason = last_words(self._folder / "engine.log") or str(error).splitlines()[0]
            raise GameStartError(f"ViZDoom does not start with map {self.map_name}: {reason}") from error

    def begin(self, start: Pose, goal: Pose | None) -> Array | None:
        """Start an episode at a pose; returns what is seen at the goal.

        The map is loaded anew (some 3 ms): the same start and actions then give the same frames whatever went before.
        A warp alone would keep the player's speed, and the time of the map, on which the bobbing view depends.
        """
        picture = None
        with self._watchdog.limit(self._limits.call):
            self._game.set_seed(_ENGINE_SEED)
            self._game.new_episode()
            self._remove_decorations()
            self._game.make_action(_NOTHING, _SETTLING_TICS)
            if goal is None:
                self._game.make_action(_NOTHING, _WARP_TICS)  # the map is then as old as after a look at the goal
            else:
                self._warp(goal)
                picture = self.look()[0]
            self._warp(start)
        self.begun = True
        return picture

    def act(self, action: int) -> bool:
        """Repeat an action for four tics; False when the engine ended the episode."""
        with self._watchdog.limit(self._limits.call):
            self._game.make_action(_PRESSED[action], ACTION_REPEAT)
        self.begun = not self._game.is_episode_finished()
        return self.begun

    def look(self) -> tuple[Array, Array]:
        """The frame [120, 160, 3] and the pose [3]; only while an episode runs, as there is no frame after it."""
        state = self._game.get_state()
        if state is None or state.game_variables is None:
            raise vizdoom.ViZDoomErrorException("The engine ended the episode before it began.")
        return state.screen_buffer, state.game_variables

    def close(self) -> None:
        """End the game."""
        with self._watchdog.limit(self._limits.call):
            self._game.close()
        self._watchdog.stop()

    def _remove_decorations(self) -> None:
        state = self._game.get_state()
        names = {thing.name for thing in state.objects if thing.name != "DoomPlayer"} if state else set()
        for name in sorted(names):
            self._game.send_game_command(f"remove {name}")

    def _warp(self, pose: Pose) -> None:
        """Stand at a pose; the engine knows whole units and 65,536 headings."""
        x, y, degrees = pose
        self._game.send_game_command(f"warp {round(x)} {round(y)}")
        for _ in range(_TURN_TICS):
            heading = self._game.get_game_variable(vizdoom.GameVariable.ANGLE)
            turn = (heading - degrees + 180.0) % 360.0 - 180.0  # the button turns clockwise
            self._game.make_action([0.0] * 6 + [max(-_GREATEST_TURN, min(_GREATEST_TURN, turn))], 1)
        self._game.make_action(_NOTHING, 1)

    def _configured(self) -> vizdoom.DoomGame:
        game = vizdoom.DoomGame()
        game.set_vizdoom_path(str(self._write_launcher()))
        game.set_doom_scenario_path(str(self._wad))
        game.set_doom_map(self.map_name)
        game.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)
        game.set_screen_format(vizdoom.ScreenFormat.RGB24)
        for hidden in (
            *(game.set_render_hud, game.set_render_crosshair, game.set_render_weapon, game.set_render_decals),
            *(game.set_render_particles, game.set_render_effects_sprites, game.set_render_messages),
            *(game.set_render_corpses, game.set_render_screen_flashes, game.set_sound_enabled),
        ):
            hidden(False)
        game.set_window_visible(self._visible)
        game.set_mode(vizdoom.Mode.PLAYER)
        game.set_available_buttons(_BUTTONS)
        game.set_available_game_variables(
            [vizdoom.GameVariable.POSITION_X, vizdoom.GameVariable.POSITION_Y, vizdoom.GameVariable.ANGLE]
        )
        game.set_objects_info_enabled(True)
        game.add_game_args("+cl_run 1 +sv_cheats 1")
        game.set_episode_start_time(10)
        game.set_episode_timeout(0)  # steps are counted by whoever asks for them
        game.set_seed(_ENGINE_SEED)
        return game

    def _write_launcher(self) -> Path:
        """A script that ViZDoom takes for its engine; ViZDoom allows no word before the engine's name."""
        engine = Path(vizdoom.__file__).parent / "vizdoom"
        launcher = Path(__file__).with_name("launcher.py")
        words = [sys.executable, "-I", "-S", str(launcher), str(self._folder), str(os.getpid()), str(engine)]
        script = self._folder / "engine.sh"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        script.chmod(0o700)
        return script
