"""`sfl studio`: the page over runs in the browser."""

from __future__ import annotations

import dataclasses
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from sfl.errors import UsageError

NEEDED = ("starlette", "uvicorn")


@dataclass(frozen=True)
class StudioOptions:
    """Look at runs in the browser, during training as well as after it; or write the page into one file."""

    runs: Positional[tuple[Path, ...]] = dataclasses.field(default=())
    """Run folders, or folders of runs."""
    port: int = 8765
    """Where the server listens; 0: any port that is free."""
    host: str = "127.0.0.1"
    """The address it listens on: this machine alone, unless another is given. Another one always has a token."""
    token: str | None = None
    """What whoever opens the page has to know: letters and digits, 8 or more. It is part of the address printed."""
    open: bool = True
    """Open the page in the browser."""
    export: Path | None = None
    """Write the recorded parts into this HTML file, which needs no server, and end."""
    demo: bool = False
    """Show a small trained agent that comes with sfl, before the runs given."""
    device: str = "cpu"
    """Where agents compute: cpu, cuda or auto."""


def studio(options: StudioOptions) -> int:
    """Serve the page until Ctrl-C, or export it."""
    if not options.runs and not options.demo:
        raise UsageError("Name a run: sfl studio RUN..., or `sfl studio --demo` to see one that comes with sfl.")
    require_extra()
    if options.export is not None:
        from sfl.studio.export import export

        print(export(options.runs, options.export, options.device, options.demo))
        return 0
    from sfl.studio.serve import serve
    from sfl.studio.shared import Studio

    behind = Studio(options.runs, options.device, options.demo)
    serve(behind, options.host, options.port, options.token, options.open)
    return 0


def require_extra() -> None:
    """What the server needs beside sfl itself must be installed."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise UsageError(
            f"sfl studio needs {' and '.join(missing)}; install them with: pip install {' '.join(missing)}"
        )
