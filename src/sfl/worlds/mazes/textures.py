"""How walls look: two disjoint sets of Freedoom's textures, and a random choice for each wall.

An encoder learns from walls of the kind `train` and is judged on walls of the kind `test`. Both sets were picked by eye
among the opaque, full-height wall textures of Freedoom, which comes with ViZDoom (no switches, doors, skies or
animations), whole families of similar pictures to one side. The `train` set also keeps clear of every texture that the
paper's test mazes show.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from sfl.config import require
from sfl.errors import SflError
from sfl.seeding import spawn
from sfl.worlds.mazes.wad import lump_name, read_wad

Kind = Literal["train", "test"]
Density = Literal["dense", "sparse"]

ACCENT_SHARE = 0.08
"""Walls of a sparse maze that differ from the rest: 63 of 798 in MAP01 of the paper's test mazes."""
ACCENT_COUNT = 4
"""Different textures among those walls, as there."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WALLS: dict[Kind, tuple[str, ...]] = {
    "train": _names(
        """
        A-BRICK1 A-BROCK2 A-BROWN2 A-DBRI1 A-DROCK2 A-MARBLE A-MOSBRI A-ROCK AQCONC03 AQCONC07 AQCONC10 AQCONC11
        AQCONC12 AQCONC14 AQCONC18 AQMETL03 AQMETL05 AQMETL12 AQMETL14 AQSUPP09 ASHWALL ASHWALL6 ASPHALT BASE2
        BIGBRIK1 BIGBRIK2 BRICK1 BRICK3 BRICK4 BRICK6 BRICK8 BRICK9 BRICK10 BRICK11 BRICK12 BRICKLIT BRNPOIS
        BRONZE1 BRONZE4 BROVINE BROVINE2 BROWN1 BROWN144 BROWNGRN BROWNPIP BRWINDOW BSTONE1 BSTONE2 BSTONE3
        CAVERN1 CAVERN6 CEMENT1 CEMENT2 CEMENT6 CEMENT7 CEMENT8 CEMENT9 CEMPOIS COMPBLUE COMPSTA1 COMPSTA2
        COMPTALL COMPTILE COMPUTE1 COMPUTE3 COMPUTE4 CR64HGB CR64SLGB CRACKLE2 CRACKLE4 CRATE1 CRATE3 CRATWIDE
        CRLWDL12 CRLWDL6 CRWDH64 CRWDT32 GRAY1 GRAY4 GRAY7 GRAY10 GRAYRED GRAYTALL GRAYTAN1 GRAYTAN5 GRAYTAN8
        GRAYVINE GRAYWARN GSTGARG GSTONE1 GSTVINE1 GSTVINE2 ICKWALL2 ICKWALL4 ICKWALL5 MARBFAC2 MARBFAC3
        MARBFACE MARBGRAY MARBLE1 MARBLE3 MC11 METAL1 METAL3 METAL4 METAL6 MODWALL1 MODWALL3 MODWALL4 NUKEDGE1
        NUKESLAD PANBLUE PANBOOK PANCASE1 PANEL1 PANEL2 PANEL5 PANEL6 PANRED PIPE2 PIPE4 PIPE6 PIPES PIPEWAL1
        PIPEWAL2 REDWALL REDWALL1 ROCK1 ROCK4 ROCK5 SHAWN01 SHAWN1 SHAWN2 SILVER2 SILVER3 SKIN2 SKINBORD SKINCUT
        SKINMET1 SKINSYMB SKINTEK1 SKSNAKE1 SKSNAKE3 SKSNAKE4 SKSPINE1 SKULWAL3 SKULWALL SLADPOIS SLADSKUL
        SLADWALL SLOPPY1 SPACEW2 SPACEW3 SPACEW4 SP_DUDE1 SP_DUDE4 SP_DUDE7 SP_FACE2 SP_HOT1 SP_ROCK1 STARBR2
        STARG1 STARG3 STARGR2 STARTAN2 STARTAN3 STONE STONE2 STONE3 STONE4 STONE5 STONE6 STONE7 STONGARG STUCCO1
        STUCCO2 SUPPORT2 SUPPORT3
        """
    ),
    "test": _names(
        """
        A-CAMO1 A-CAMO2 A-CONCTE A-MYWOOD A-REDROK A-TILE A-VINES AQBRIK01 AQBRIK02 AQBRIK03 AQPANL02
        AQPIPE03 AQPIPE07 AQRUST06 AQSECT02 AQTILE02 AQTILE03 AQTRIM07 BIGMURAL BIGWALL CARLLF2
        COMPOHSO CRTINYB DEXAL DOGRMSC DOKODO2B ESPIBR1 ESPIG2 ESPIGR2 ESPITAN3 MOD1 MOD3 MURAL2 SLIME1 SMSTONE6
        STONEW1 STONEW5 STWALL TANROCK8 TEKBRON1 TEKGREN3 TEKWALL2 TEKWALL4 WOOD4 WOOD10 WOODMET2 ZIMMER7
        ZZWOLF1 ZZWOLF3 ZZWOLF6 ZZWOLF9 ZZWOLF11 ZZWOLF12 ZZZFACE6
        """
    ),
}

FLATS: dict[Kind, tuple[str, ...]] = {
    "train": _names("CEIL3_1 CEIL5_3 FLAT1_1 FLAT8 FLOOR0_1 FLOOR4_8 FLOOR5_2 FLOOR7_2 MFLR8_1 RROCK12 RROCK09"),
    "test": _names("AQF023 AQF046 AQF047 AQF051 AQF058 DEM1_5 FLAT5_1 MFLR8_3 RROCK16 SLIME16"),
}


@dataclass(frozen=True)
class Textures:
    """Which textures the walls of a maze wear; the default is how the paper's mazes look."""

    kind: Kind = "test"
    """The set to draw from: train (encoders learn from it) or test."""
    density: Density = "dense"
    """dense: every wall its own random texture. sparse: one texture, and now and then another."""
    seed: int = 5
    """Equal seeds give equal walls."""

    def __post_init__(self) -> None:
        require(self.kind in ("train", "test"), f"The kind of textures must be 'train' or 'test', got {self.kind!r}.")
        require(
            self.density in ("dense", "sparse"),
            f"The density of textures must be 'dense' or 'sparse', got {self.density!r}.",
        )
        require(self.seed >= 0, f"The seed of textures must be 0 or more, got {self.seed}.")

    def walls(self, count: int, names: Sequence[str] = ()) -> list[str]:
        """One texture for each of `count` walls, drawn from `names` or, without, from our own set."""
        names = names or WALLS[self.kind]
        rng = spawn(self.seed, ["walls"])["walls"]
        if self.density == "dense":
            return [names[index] for index in rng.integers(len(names), size=count)]
        base, *accents = rng.choice(len(names), size=min(1 + ACCENT_COUNT, len(names)), replace=False)
        differs = rng.random(count) < ACCENT_SHARE
        chosen = rng.choice(accents or [base], size=count)
        return [names[accent if other else base] for accent, other in zip(chosen, differs, strict=True)]

    def flats(self) -> tuple[str, str]:
        """Floor and ceiling of a maze of our own."""
        floor, ceiling = spawn(self.seed, ["flats"])["flats"].choice(FLATS[self.kind], size=2, replace=False)
        return str(floor), str(ceiling)


PAPER_TEXTURES = Textures()
"""How the paper's mazes look."""


@cache
def wall_textures() -> frozenset[str]:
    """The names in the TEXTURE1 lump of the game's own WAD."""
    spec = find_spec("vizdoom")
    folder = Path(next(iter(spec.submodule_search_locations or ())) if spec else "")
    path = folder / "freedoom2.wad"
    if not path.is_file():
        raise SflError("Freedoom's WAD is missing; `pip install vizdoom` brings freedoom2.wad.")
    lumps = {lump.name: lump.body for lump in read_wad(path.read_bytes(), path.name)}
    body = lumps["TEXTURE1"]
    (count,) = struct.unpack_from("<i", body)
    places = struct.unpack_from(f"<{count}i", body, 4)
    return frozenset(lump_name(body[place : place + 8]) for place in places)
