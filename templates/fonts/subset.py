"""Makes `DroidSansFallback-Subset.ttf` of Debian's `DroidSansFallbackFull.ttf` (fonts-droid-fallback 6.0.1r16).

python3 subset.py DroidSansFallbackFull.ttf DroidSansFallback-Subset.ttf     # fontTools 4.68.0

Kept are the East Asian characters of GB 2312, of level 1 of Big5, and of JIS X 0208. Hangul is left out: the face has
a part of it only.
"""

import sys
from itertools import chain

from fontTools import subset
from fontTools.ttLib import TTFont

ALL = range(0xA1, 0xFF)


def coded(encoding: str, leads: range, trails: chain[int] | range) -> set[str]:
    """The characters of a code with two bytes a character."""
    trails = list(trails)
    decoded = (bytes([lead, trail]).decode(encoding, "ignore") for lead in leads for trail in trails)
    return {character for text in decoded for character in text if ord(character) >= 0x2E80}


# Where the ink of punctuation begins, as in the simplified script; the face centres it.
INK = {"，": 20, "；": 28, "：": 28, "！": 28, "？": 20, "（": 150, "）": 16}


def shift(font: TTFont) -> None:
    """Moves punctuation within its em square."""
    for character, left in INK.items():
        name = font.getBestCmap()[ord(character)]
        glyph = font["glyf"][name]
        glyph.coordinates.translate((left - glyph.xMin, 0))
        glyph.recalcBounds(font["glyf"])
        font["hmtx"][name] = (font["hmtx"][name][0], glyph.xMin)


characters = (
    coded("gb2312", ALL, ALL)
    | coded("big5", range(0xA1, 0xC7), chain(range(0x40, 0x7F), ALL))
    | coded("euc_jp", ALL, ALL)
)
options = subset.Options(hinting=False, layout_features=[], notdef_outline=True, glyph_names=False)
options.drop_tables += ["GSUB", "GPOS", "vhea", "vmtx", "VORG"]
font = subset.load_font(sys.argv[1], options)
subsetter = subset.Subsetter(options)
subsetter.populate(unicodes=[ord(character) for character in characters])
subsetter.subset(font)
shift(font)
subset.save_font(font, sys.argv[2], options)
