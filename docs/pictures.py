"""Draws the pictures of the README and the first page from committed results (docs/shown): needs playwright and Chromium.

python docs/pictures.py            draws docs/pictures/*.png
python docs/pictures.py --again    asks the questions again first, and replaces docs/shown
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import overparam as op
from overparam.core.sections import Figure, Surface
from overparam.report import save_figure, write_page

HERE = Path(__file__).parent
SHOWN, PICTURES = HERE / "shown", HERE / "pictures"
QUESTIONS = {
    "analysis": ["analyze", "breast-cancer"],
    "landscape": ["landscape", "fully-connected", "breast-cancer", "--width", "64"],
}
"""Asked on the command line; the comparison is that of docs/comparisons."""
MOST_BYTES = 300_000


def ask() -> None:
    """Every question again; the folders hold what a page is made of, without the page."""
    for name, words in QUESTIONS.items():
        with tempfile.TemporaryDirectory() as place:
            subprocess.run([sys.executable, "-m", "overparam", *words, "--out", place], check=True)
            (SHOWN / name).mkdir(parents=True, exist_ok=True)
            for file in ("result.json", "arrays.npz"):
                shutil.copy(Path(place) / file, SHOWN / name / file)


def first_screen(folder: Path, target: Path, height: int = 860) -> None:
    """The page of a result as it opens on a desk."""
    from playwright.sync_api import sync_playwright

    binary = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as place:
        for file in ("result.json", "arrays.npz"):
            shutil.copy(folder / file, place)
        page = write_page(place)
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=binary, args=["--no-sandbox"])
            tab = browser.new_page(viewport={"width": 1200, "height": height}, color_scheme="light")
            tab.goto(page.as_uri())
            tab.wait_for_timeout(3_000)
            tab.screenshot(path=target)
            browser.close()


def drawn(folder: Path, kind: type, title: str, target: Path) -> None:
    """One figure of a result."""
    blocks = [block for section in op.read(folder).sections() for block in section.blocks if isinstance(block, kind)]
    save_figure(next(block for block in blocks if title in block.title), target)


def main() -> None:
    if "--again" in sys.argv[1:]:
        ask()
    PICTURES.mkdir(exist_ok=True)
    first_screen(SHOWN / "analysis", PICTURES / "report.png")
    drawn(SHOWN / "landscape", Surface, "", PICTURES / "landscape.png")
    drawn(HERE / "comparisons" / "parity", Figure, "The best kernel and the best network", PICTURES / "network.png")
    for picture in PICTURES.glob("*.png"):
        size = picture.stat().st_size
        assert size < MOST_BYTES, f"{picture.name} has {size:,} bytes; the README takes {MOST_BYTES:,}"


if __name__ == "__main__":
    main()
