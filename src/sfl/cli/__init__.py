"""The command line: words become a configuration and one call. Heavy imports wait until a command needs them."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Sequence

from sfl.cli.commands import COMMANDS, train
from sfl.cli.parsing import parse
from sfl.errors import SflError, UsageError, is_out_of_memory, unknown_name
from sfl.files import NO_ROOM
from sfl.run import log as streams
from sfl.run.stopping import at_work
from sfl.worlds.doom.workers import sweep_folders as sweep

HELP = """\
sfl: Successor Feature Landmarks, goal-reaching without rewards.

usage: sfl COMMAND [OPTIONS]

  list                   the places and agents there are
  train PLACE            train an agent there (--agent NAME, else SFL), into a new run folder
  resume RUN             go on where a run stopped
  eval RUN               evaluate a run, on its own tasks or on a goal of yours
  report RUN...          a table of success over runs
  reproduce TABLE        make the runs of a table of the paper, and its report
  plot RUN...            figures of a run, with --paper for a manuscript
  video RUN [RUN]        a video of an evaluation episode, of two runs side by side
  studio RUN...          the page in the browser: maps, graphs, fields, live episodes
  maze COMMAND           build, import and show mazes for ViZDoom
  encoder COMMAND        train and evaluate encoders of frames
  network COMMAND        train and evaluate the networks that controller, SPTM, SGM and EC start from
  export RUN             a slim copy to move or publish
  demo                   train, compare with the random policy, draw
  doctor                 check this installation

`sfl COMMAND --help` shows the options of a command, `sfl train PLACE --agent NAME --help` every setting.
RUN is a run folder such as runs/fourroom-sfl/seed-0000.
"""

FAMILIES = ("maze", "encoder", "network")
"""Commands that have commands of their own, in `tools`, which is imported for them alone."""


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 wrong use, 130 stopped by the user."""
    streams.open_missing_streams()
    streams.escape_unprintable()
    os.environ["MPLBACKEND"] = "agg"  # commands draw into files; what else is asked for may need a screen, or not exist
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns where it cannot keep its list of fonts
    sweep()
    words = list(sys.argv[1:] if args is None else args)
    try:
        with at_work:
            try:
                code = dispatch(words)
            except SystemExit:  # after help
                sys.stdout.flush()
                raise
            sys.stdout.flush()  # a command counts as done when what it prints has left this process
            return code
    except BrokenPipeError as error:
        if streams.reader_has_left():
            return 141  # as the shell says of a program that SIGPIPE ended; `head` has seen enough, that is no error
        _complain(str(error))
        return 1
    except (SflError, OSError, MemoryError, RuntimeError, ValueError, KeyboardInterrupt) as error:
        message, code = _in_words(error)
        _complain(message)
        return code
    finally:
        streams.drop_broken_output()
        at_work.end()


def dispatch(words: list[str]) -> int:
    """Find the command and do it."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0 if words else 2
    name, args = words[0], words[1:]
    if name == "--version":
        from sfl.run.machine import sfl_version

        print(f"sfl {sfl_version()}")
        return 0
    if name == "train":
        return train(args)
    if name == "bench":
        raise UsageError("sfl bench has moved: `make bench` in a checkout, or `python -m benchmarks.bench` there.")
    if name in FAMILIES:
        from sfl.cli import tools

        return tools.dispatch(name, args)
    if name not in COMMANDS:
        raise unknown_name("command", name, [*COMMANDS, "train", *FAMILIES], "`sfl --help` shows all.")
    return parse(COMMANDS[name], args, f"sfl {name}").execute()


REMEDIES = {
    errno.ENOENT: "make that folder first, or choose another path",
    errno.EEXIST: "a file is in the place of a folder; move it away or choose another path",
    errno.EISDIR: "a folder is in the place of a file; move it away or choose another path",
    errno.ENOTDIR: "a part of that path is a file; choose another path",
    errno.EACCES: "choose a path that you may use",
    errno.EPERM: "choose a path that you may use",
    errno.EROFS: "choose a path that can be written to",
    errno.ENAMETOOLONG: "choose a shorter path",
    **dict.fromkeys(NO_ROOM, "make room; what was saved before is whole"),
    errno.ENOMEM: "ask for less, or end other programs",
    errno.EAGAIN: "ask for fewer environments or workers, or end other programs",
    errno.EMFILE: "ask for fewer environments or workers",
}
"""What to do where the operating system refuses."""


TOO_LARGE = (
    "This does not fit into memory ({}); ask for less: fewer environments, episodes, frames or steps, smaller "
    "batches, networks or replays."
)


def _in_words(error: BaseException) -> tuple[str, int]:
    """A line and the exit code, for what the user, the system or the size of the machine has caused."""
    if isinstance(error, SflError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "stopped.", 130
    if isinstance(error, OSError):
        return _of_system(error), 1
    if is_out_of_memory(error):
        return TOO_LARGE.format(str(error).partition("\n")[0] or "no room is left"), 1
    raise error  # one of our own


def _of_system(error: OSError) -> str:
    named = error.filename2 or error.filename  # of two that were at work the one that was written
    place = f": {named}" if named else ""
    remedy = REMEDIES.get(error.errno or 0)
    return str(error) if remedy is None else f"{error.strerror}{place}; {remedy}."


LONGEST = 1_000
"""Letters of a complaint: what was given may be a word of megabytes."""


def _complain(message: str) -> None:
    line = " ".join(message.split())
    streams.note(f"sfl: {line if len(line) <= LONGEST else f'{line[:LONGEST]}...'}")
