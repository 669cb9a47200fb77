"""A page as plain data: a verdict, and sections of text, tables, figures, surfaces, pictures and controls, which `report` renders.

A result lists its sections, they are stored in result.json, and a page is drawn from
them later without computing anything. Everything here is JSON: strings, numbers, lists.
"""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from overparam.core.records import require_kinds

Scale = Literal["linear", "log"]
Mark = Literal["line", "points", "bars"]
Role = Literal["true", "random", "worst", "observed", "accent", "muted"]
Tone = Literal["good", "warning", "bad"]
THUMBNAIL = 64
"""Most pixels a side of a picture."""


@dataclass(frozen=True)
class Verdict:
    """What was found in plain words; the first sentence answers what was asked."""

    tone: Tone
    sentences: tuple[str, ...]

    @property
    def section(self) -> Section:
        """The first section of a page: its first sentence has the tone."""
        first, others = self.sentences[:1], self.sentences[1:]
        return Section("Verdict", (*(Text(line, self.tone) for line in first), *map(Text, others)))


@dataclass(frozen=True)
class Text:
    """One paragraph, plain words; `tone` colours it as a remark that is good, doubtful or bad."""

    body: str
    tone: Tone | Literal["plain"] = "plain"


@dataclass(frozen=True)
class Picture:
    """A small image: a PNG file in base64, and in `alt` the words for those who do not see it. `picture` makes one."""

    png: str
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under column heads; cells are strings, numbers or pictures, shown as given (numbers to 4 digits)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int | Picture | None, ...], ...]
    caption: str = ""
    has_samples: bool = False
    """True where cells show the user's own rows or labels, which `--no-samples` leaves out."""
    sortable: bool = False
    """Whether a click on a head sorts the rows by it."""
    file: str = ""
    """A name ending in .csv under which the page offers the rows it shows, with all digits; "" offers nothing."""


@dataclass(frozen=True)
class Pictures:
    """Thumbnails side by side, each with its caption."""

    items: tuple[Picture, ...]
    caption: str = ""
    has_samples: bool = True
    """True where they show the user's own rows, which `--no-samples` leaves out."""


@dataclass(frozen=True)
class Series:
    """One curve, point set or bar set; `lower` and `upper` draw a band (an interval at each x)."""

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    lower: tuple[float | None, ...] | None = None
    upper: tuple[float | None, ...] | None = None
    mark: Mark = "line"
    role: Role = "accent"
    dashed: bool = False


@dataclass(frozen=True)
class Line:
    """A reference line across a figure: vertical at `x` or horizontal at `y`, with its label."""

    label: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True)
class Figure:
    """Axes, series and reference lines, and the sentence that says what the figure shows.

    `small` figures that follow one another stand side by side where the page is wide enough.
    """

    title: str
    caption: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    lines: tuple[Line, ...] = ()
    small: bool = False


@dataclass(frozen=True)
class Surface:
    """A function of two variables on a grid, z[i][j] at (x[j], y[i]), shown in space and as contours.

    `marked` is a point (x, y, z) with a stick through it; `path` are points (x, y) that a line joins.
    """

    title: str
    caption: str
    x_label: str
    y_label: str
    z_label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    z: tuple[tuple[float | None, ...], ...]
    z_scale: Scale = "linear"
    marked: tuple[float, float, float] | None = None
    path: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Measure:
    """Σ weight·f(node) is a quadratic form rᵀf(H)r, whatever f is: what is left of a sweep when its curves are drawn anew."""

    nodes: tuple[float, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Dial:
    """A number the reader sets: where it starts, and the ends of its slider."""

    start: float
    least: float
    most: float


@dataclass(frozen=True)
class Controls:
    """Rate, steps, width, initial scale and noise to set; the page computes loss, steps, movement and laziness from two measures.

    A page without scripts, and a card in a notebook, show `still` instead.
    """

    title: str
    caption: str
    labels: Measure
    """Of the labels, all outputs together."""
    random: Measure
    """Of random labels, of the same total weight."""
    loss: str
    """Whose rate it is: "mean loss"."""
    scale: float
    """A rate of that loss acts on the summed loss like this many times itself."""
    largest_rate: tuple[float, float, float]
    """The largest stable rate of that loss and its certified sides."""
    perturbation: float
    """How far rounding may have moved the nodes: it ends what late steps mean."""
    alignment: float
    """The cosine between a neuron's movement and a row, from which the share of flipped signs follows."""
    rate: Dial
    steps: Dial
    width: Dial
    kappa: Dial
    noise: Dial | None
    """The share of labels drawn anew; None where labels are no classes."""
    still: Table


Block = Text | Table | Figure | Surface | Pictures | Controls
BLOCKS: dict[str, Callable[..., Block]] = {
    kind.__name__.lower(): kind for kind in (Text, Table, Figure, Surface, Pictures, Controls)
}


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in order; a `folded` one shows its heading alone until it is opened."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


def series(
    name: str,
    x: Any,
    y: Any,
    *,
    lower: Any = None,
    upper: Any = None,
    spread: Any = None,
    mark: Mark = "line",
    role: Role = "accent",
    dashed: bool = False,
) -> Series:
    """A `Series` from arrays; values that are not finite become gaps, since JSON has no NaN; `spread` draws the band y ± spread.

    >>> series("loss", [0, 1], [1.0, float("nan")]).y, series("loss", [0], [1.0], spread=[0.25]).lower
    ((1.0, None), (0.75,))
    """
    if spread is not None:
        y, spread = np.asarray(y, float), np.asarray(spread, float)
        lower, upper = y - spread, y + spread
    return Series(name, _x(x), _y(y), _y(lower), _y(upper), mark, role, dashed)


def table(
    columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]], caption: str = "", *, missing: str | None = None
) -> Table:
    """A `Table` of what every row holds under the names of `columns`, each under its head; `missing` stands for None.

    >>> table({"m": "width", "error": "test error"}, [{"m": 8, "error": None}], missing="—").rows
    ((8, '—'),)
    """
    cells = (tuple(missing if row[name] is None else row[name] for name in columns) for row in rows)
    return Table(tuple(columns.values()), tuple(cells), caption)


def picture(pixels: Any, alt: str, caption: str = "") -> Picture:
    """A `Picture` of an image (height, width), or (height, width, 3) in colour: bytes as they are, else least black to most white.

    Images of more than `THUMBNAIL` pixels a side are made smaller.

    >>> picture([[0.0, 1.0]], "two pixels").alt
    'two pixels'
    """
    image = np.asarray(pixels)
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[:, :, 0]
    if image.ndim not in (2, 3) or image.shape[2:] not in ((), (3,)) or image.size == 0:
        raise ValueError(f"`pixels` has shape {image.shape}; expected (height, width) or (height, width, 3)")
    if image.dtype != np.uint8:
        image = np.nan_to_num(image.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        least, reach = image.min(), np.ptp(image)
        image = 255 * (image - least) / (reach or 1.0)
    every = -(-max(image.shape[:2]) // THUMBNAIL)
    if every > 1:
        height, width = (max(1, side // every) for side in image.shape[:2])
        rows, columns = min(every, image.shape[0]), min(every, image.shape[1])
        parts = image[: height * rows, : width * columns].reshape(height, rows, width, columns, *image.shape[2:])
        image = parts.mean(axis=(1, 3))
    return Picture(b64encode(png_bytes(np.round(image).astype(np.uint8))).decode("ascii"), alt, caption)


def png_bytes(image: np.ndarray) -> bytes:
    """A PNG file of bytes (height, width), grey, or (height, width, 3), colour: the same bytes each time."""

    def part(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    height, width = image.shape[:2]
    kind = 2 if image.ndim == 3 else 0
    rows = np.hstack([np.zeros((height, 1), np.uint8), image.reshape(height, -1)])  # a row starts with its filter, none
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", body) + part(b"IEND", b"")


def surface(
    title: str,
    caption: str,
    x: Any,
    y: Any,
    z: Any,
    *,
    x_label: str,
    y_label: str,
    z_label: str,
    z_scale: Scale = "linear",
    marked: tuple[float, float, float] | None = None,
    path: Any = (),
) -> Surface:
    """A `Surface` from arrays x (p,), y (q,) and z (q, p); heights that are not finite become gaps.

    >>> surface("", "", [0, 1], [0, 1], [[1, 2], [3, float("inf")]], x_label="", y_label="", z_label="").z
    ((1.0, 2.0), (3.0, None))
    """
    heights = np.asarray(z, dtype=np.float64)
    if heights.shape != (len(y), len(x)) or min(heights.shape) < 2:
        raise ValueError(f"`z` has shape {heights.shape}; expected ({len(y)}, {len(x)}), each at least 2")
    return Surface(
        title, caption, x_label, y_label, z_label, _numbers(x), _numbers(y), tuple(_y(row) for row in heights), z_scale,
        None if marked is None else (float(marked[0]), float(marked[1]), float(marked[2])),
        tuple((float(a), float(b)) for a, b in path),
    )  # fmt: skip


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _x(values: Any) -> tuple[float | str, ...]:
    return tuple(v if isinstance(v, str) else float(v) for v in np.asarray(values).tolist())


def _y(values: Any) -> Any:
    if values is None:
        return None
    return tuple(float(v) if v is not None and math.isfinite(v) else None for v in np.asarray(values).tolist())


def to_json(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """Sections as nested dicts; each block says its kind. A page without folds and sorted tables is written as ever."""
    return [
        {
            "title": section.title,
            **({"folded": True} if section.folded else {}),
            "blocks": [_block_to_json(block) for block in section.blocks],
        }
        for section in sections
    ]


def _block_to_json(block: Block) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(block).items() if value or name not in ("sortable", "file")}
    return {"kind": type(block).__name__.lower(), **fields}


def from_json(sections: Sequence[dict[str, Any]]) -> tuple[Section, ...]:
    """The inverse of `to_json`, through JSON or not; what an older version did not write has its default."""
    made = tuple(
        Section(s["title"], tuple(_block_from_json(**b) for b in s["blocks"]), s.get("folded", False)) for s in sections
    )
    for section in made:
        require_kinds(section, "sections")
    return made


def _block_from_json(kind: str, **fields: Any) -> Block:
    if kind not in BLOCKS:
        raise ValueError(f"a section has a block of unknown kind {kind!r}; this result was written by a newer version")
    fields = _with_tuples(fields)
    if kind == "figure":
        fields["series"] = tuple(Series(**series) for series in fields["series"])
        fields["lines"] = tuple(Line(**line) for line in fields["lines"])
    elif kind == "pictures":
        fields["items"] = tuple(Picture(**item) for item in fields["items"])
    elif kind == "table":
        return _table_from_json(fields)
    elif kind == "controls":
        fields |= {name: Measure(**fields[name]) for name in ("labels", "random")}
        dials = ("rate", "steps", "width", "kappa", "noise")
        fields |= {name: None if fields[name] is None else Dial(**fields[name]) for name in dials}
        fields["still"] = _table_from_json(fields["still"])
    return BLOCKS[kind](**fields)


def _table_from_json(fields: dict[str, Any]) -> Table:
    rows = (tuple(Picture(**cell) if isinstance(cell, dict) else cell for cell in row) for row in fields["rows"])
    fields["rows"] = tuple(rows)
    return Table(**fields)


def _with_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_tuples(item) for name, item in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list | tuple) else value
