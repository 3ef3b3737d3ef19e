"""Colours of policies, by their names: the same in the terminal, reports, plots and docs.

Arms and horizons have palettes of their own, so that none is taken for a policy.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from attrs import frozen

WHITE, CHART_DARK = "#ffffff", "#171b21"
"""The grounds charts stand on."""

TEXT_CONTRAST = 4.5
"""What text needs to be read (WCAG 2, level AA); lines need 3."""

# Okabe and Ito's palette: distinguishable without seeing all colours.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"

# Each colour of policies, for light and for dark grounds.
_PALETTE = (
    ("#2A12A0", "#6480FF"),  # ultramarine
    ("#9A5CF0", "#D2BDFF"),  # lilac
    (BLUE, "#4BA3DE"),
    ("#1B2A49", "#E4ECF7"),  # ink
    ("#6E0250", "#C4549A"),  # plum
    ("#CC4C93", "#F083BE"),  # pink
    ("#0D5A64", "#028F95"),  # teal
    ("#6F6F6F", "#ABABAB"),  # grey
    ("#8A0316", "#FEB0AA"),  # maroon
    ("#5F7F00", "#B5CE45"),  # olive
    ("#1A9FD0", "#86DCFA"),  # sky
    ("#987EB9", "#7F7993"),  # mauve
    (VERMILION, "#F0803C"),
    (GREEN, "#2BC394"),
    ("#7A4A21", "#BD8B5E"),  # brown
    ("#014B0A", "#5A9C57"),  # fir
    ("#5B3FA8", "#9D86EE"),  # violet
    ("#C8102E", "#FF5C66"),  # red
    ("#B07D00", "#E3B23C"),  # ochre
    ("#512000", "#937C05"),  # chocolate
)
_SALT = b"49930"
"""With it the policies of our own plugins have colours of their own."""

_PLUGIN_NAME = re.compile("[a-z0-9-]+")

N_COLOURS = len(_PALETTE)

_SOFT = "#9CC5E3 #F2C28B #A9D6A5 #D9B3D6 #EADB8A #8FD0CB #E5A9A0 #C9CDD3"
_DEEP = "#41698A #8F6331 #4A7A47 #7C5279 #857629 #347470 #8A4C42 #5B626C"
ARMS = {"light": tuple(_SOFT.split()), "dark": tuple(_DEEP.split())}
"""Soft fills for shares of arms, by theme; the last is for all other arms."""

HORIZONS = {
    "light": ("#9FB4C7", "#6F8CA8", "#4A6A8A", "#2F4D6D", "#1B3350", "#0B1C33"),
    "dark": ("#4F6A85", "#6F8CA8", "#90ABC4", "#B0C7DC", "#D0E1F0", "#EEF5FB"),
}
"""Shades of one slate, from short horizons to long, by theme."""


@frozen
class Colour:
    """A policy's colour: of lines on light and dark grounds, and of text there.

    ``turn`` counts how often all colours were used before: lines of later turns are dashed.
    """

    light: str
    dark: str
    turn: int = 0

    def line(self, theme: str) -> str:
        """Return the colour of lines and marks in a theme, ``"light"`` or ``"dark"``."""
        return self.dark if theme == "dark" else self.light

    def text(self, theme: str) -> str:
        """Return the colour of text beside a line: the line's, as far as it can be read."""
        ground = CHART_DARK if theme == "dark" else WHITE
        return readable(self.line(theme), ground)

    @property
    def terminal(self) -> str:
        """The colour of text in a terminal, which may be read on white and on black alike."""
        return readable(self.dark, WHITE)


GREY_AND_BLUE = (Colour(*_PALETTE[7]), Colour(*_PALETTE[2]))
"""What was observed, and what a model says of it."""


def colour_of(name: str) -> Colour:
    """Return the colour of one policy, by its name alone.

    >>> colour_of("posterior").light
    '#0072B2'
    """
    return Colour(*_PALETTE[_slot(name)])


def colours_of(names: Iterable[str]) -> dict[str, Colour]:
    """Return the colours of policies shown together, no two alike up to twenty.

    Each has its own colour; where two names want the same, one gets it and the other the next that
    nobody wants: names like those of plugins before labels such as "etc, tuned", then by alphabet.
    Beyond twenty the colours come round again.
    """
    given = list(dict.fromkeys(names))
    found: dict[str, Colour] = {}
    wanted = {_slot(name) for name in given}
    taken: set[int] = set()
    late: list[str] = []
    for name in sorted(given, key=lambda name: (not _PLUGIN_NAME.fullmatch(name), name)):
        if _slot(name) in taken:
            late.append(name)
        else:
            taken.add(_slot(name))
            found[name] = colour_of(name)
    free = [slot for slot in range(N_COLOURS) if slot not in wanted]
    for i, name in enumerate(late):
        turn, k = (0, free[i]) if i < len(free) else divmod(i - len(free) + N_COLOURS, N_COLOURS)
        found[name] = Colour(*_PALETTE[k], turn=turn)
    return {name: found[name] for name in given}


def readable(colour: str, ground: str) -> str:
    """Return a colour moved towards black or white until text in it can be read on a ground."""
    end = "#000000" if _luminance(ground) > 0.18 else "#ffffff"
    for percent in range(0, 101, 4):
        mixed = _mixed(colour, end, percent / 100)
        if contrast(mixed, ground) >= TEXT_CONTRAST:
            return mixed
    return end


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it: from 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _slot(name: str) -> int:
    digest = blake2b(_SALT + name.encode("utf-8", "surrogatepass"), digest_size=1).digest()
    return digest[0] % N_COLOURS


def _channels(colour: str) -> Sequence[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _mixed(colour: str, end: str, share: float) -> str:
    pairs = zip(_channels(colour), _channels(end), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


def _luminance(colour: str) -> float:
    parts = [c / 255 for c in _channels(colour)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    red, green, blue = linear
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
