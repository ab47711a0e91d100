"""Makes `../html/fonts.css`, the faces of HTML reports, of IBM Plex Sans.

python3 web.py     # fontTools 4.68.0 and brotli, in this folder

Kept are the characters of Western European languages and the signs of our texts. The subsets have no name, because
"Plex" is reserved for the complete faces; the style sheet gives them one.
"""

import base64
import io
import pathlib

from fontTools import subset

SIGNS = "–—‘’“”…→←↑↓−≈≤≥µΔΣ◆"
LICENSE = "/* Made by ../fonts/web.py. Copyright 2017 IBM Corp., SIL Open Font License 1.1: ../fonts/OFL.txt. */"
FACES = [("Regular", 400), ("SemiBold", 600)]

rules = []
for face, weight in FACES:
    options = subset.Options(flavor="woff2", hinting=False, layout_features=["kern"], name_IDs=[0, 13, 14])
    font = subset.load_font(f"IBMPlexSans-{face}.ttf", options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[*range(0x20, 0x7F), *range(0xA0, 0x100), *map(ord, SIGNS), 0x2009, 0x202F])
    subsetter.subset(font)
    file = io.BytesIO()
    subset.save_font(font, file, options)
    data = base64.b64encode(file.getvalue()).decode()
    rules.append(
        f'@font-face {{ font-family: "IBM Plex Sans"; font-weight: {weight}; '
        f'src: url("data:font/woff2;base64,{data}") format("woff2"); }}\n'
    )
pathlib.Path("../html/fonts.css").write_text(f"\n{LICENSE}\n" + "".join(rules))
