"""Line charts as SVG, drawn by matplotlib, for reports, comparisons and documents.

Every line is labelled beside its end, in its own colour: no legend lies on the data, and none has
to be looked up. What is drawn twice, in one figure or in several, has one colour. The same numbers
give the same file, so committed figures change only when they should.
"""

from __future__ import annotations

import io
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from cscodec.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours that can be told apart and be read on white and on black.
PALETTE = (
    "#d1202f", "#1f77b4", "#2a9153", "#d97a06", "#8a5cc4", "#77808c",
    "#c2528b", "#12939f", "#94761c", "#9c6a5e", "#4f6df0", "#6f9e12",
)  # fmt: skip

#: Codecs look the same in every figure.
COLORS = dict(
    zip(("cscodec", "JPEG", "WebP", "AVIF", "JPEG XL", "JPEG 2000"), PALETTE, strict=False)
)

INK, PAPER, GRID = "#333333", "#ffffff", "#e4e4e4"
_SIZE = (6.4, 3.8)  # inches, of 72 points
_MOST_MARKED = 40  # points; more are a line without dots
_LABEL_GAP = 0.055  # of the height, between the labels of two lines

Better = Literal["up", "up and left"]


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    Attributes
    ----------
    label : str
    points : sequence of (x, y)
        From left to right.
    color : str, optional
        ``#rrggbb``; by default that of `palette`.
    """

    label: str
    points: Sequence[tuple[float, float]]
    color: str | None = None


def palette(names: Iterable[str]) -> dict[str, str]:
    """One colour for each name: those of `COLORS` keep theirs, others take what is left."""
    names = list(dict.fromkeys(names))
    taken = {COLORS[name] for name in names if name in COLORS}
    free = itertools.cycle([color for color in PALETTE if color not in taken] or PALETTE)
    return {name: COLORS.get(name) or next(free) for name in names}


def require_matplotlib() -> None:
    """Say what to install if charts cannot be drawn: to be asked before any work begins.

    Raises
    ------
    InvalidInputError
        If matplotlib is missing.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InvalidInputError(
            "charts are drawn by matplotlib, which is not installed: pip install 'cscodec[report]'"
        ) from None


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_range: tuple[float, float] | None = None,
    better: Better | None = None,
) -> str:
    """Draw lines as one SVG; the first is drawn bold, on top.

    Parameters
    ----------
    x_range : (float, float), optional
        What is shown; points beyond decide only where lines leave.
    better : {"up", "up and left"}, optional
        Draw an arrow to where results are better.

    Raises
    ------
    ValueError
        If no point is finite and within ``x_range``.
    InvalidInputError
        If matplotlib is missing.
    """
    lines = [
        Series(line.label, [point for point in line.points if all(map(math.isfinite, point))])
        for line in series
    ]
    shown = [point for line in lines for point in _within(line.points, x_range)]
    if not shown:
        raise ValueError("nothing to draw: no finite point within the range")
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    colors = palette(line.label for line in series) | {
        line.label: line.color for line in series if line.color
    }
    # Text stays text: smaller files, found by searching, read aloud.
    style = {"svg.fonttype": "none", "svg.hashsalt": title, "font.size": 9.5}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=_SIZE, facecolor=PAPER)
        axes = figure.add_subplot()
        _prepare(axes, shown, x_range)
        axes.set_title(title, loc="left", fontsize=10.5, color=INK, fontweight="bold")
        axes.set_xlabel(x_label, color=INK)
        axes.set_ylabel(y_label, color=INK)
        for rank, line in reversed(list(enumerate(lines))):
            _draw(axes, line, colors[line.label], bold=rank == 0)
        _label_ends(axes, lines, colors)
        if better:
            _point_to(axes, better)
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", bbox_inches="tight", pad_inches=0.1, metadata=nothing)
    return _tidy(buffer.getvalue(), title)


def themed(svg: str) -> str:
    """Let a chart that stands in a page take the page's colours, by day and by night."""
    svg = svg.replace(INK, "currentColor").replace(PAPER, "transparent")
    return svg.replace(GRID, "var(--grid)")


def _within(
    points: Sequence[tuple[float, float]], x_range: tuple[float, float] | None
) -> list[tuple[float, float]]:
    return [point for point in points if x_range is None or x_range[0] <= point[0] <= x_range[1]]


def _prepare(
    axes: Axes, shown: Sequence[tuple[float, float]], x_range: tuple[float, float] | None
) -> None:
    """Set limits, ticks, grid and colours."""
    from matplotlib.ticker import MaxNLocator

    low, high = x_range or (min(x for x, _ in shown), max(x for x, _ in shown))
    if high <= low:
        low, high = low - 1, high + 1
    axes.set_xlim(low, high)
    bottom, top = min(y for _, y in shown), max(y for _, y in shown)
    slack = 0.06 * (top - bottom) or 0.05 * abs(top) or 1.0
    axes.set_ylim(bottom - slack, top + slack)
    counted = all(float(x).is_integer() for x, _ in shown)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=counted, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.tick_params(colors=INK, length=0)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_facecolor(PAPER)
    for side in axes.spines.values():
        side.set_visible(False)


def _draw(axes: Axes, line: Series, color: str, *, bold: bool) -> None:
    if line.points:
        axes.plot(
            [x for x, _ in line.points],
            [y for _, y in line.points],
            color=color,
            linewidth=2.4 if bold else 1.4,
            marker="o" if len(line.points) <= _MOST_MARKED else None,
            markersize=4.5 if bold else 3.2,
        )


def _label_ends(axes: Axes, lines: Sequence[Series], colors: Mapping[str, str]) -> None:
    """Write each line's label at the right margin, as near to its end as the others allow."""
    x_low, x_high = axes.get_xlim()
    y_low, y_high = axes.get_ylim()
    ends = []
    for line in lines:
        if within := _within(line.points, (x_low, x_high)):
            x, y = _end(line.points, within, x_high)
            ends.append(((y - y_low) / (y_high - y_low), (x, y), line.label))
    heights = _spread([height for height, _, _ in ends])
    for height, (own_height, (x, y), label) in zip(heights, ends, strict=True):
        away = (x_high - x) / (x_high - x_low) > 0.01 or abs(height - own_height) > 0.01
        color = colors[label]
        leader: dict[str, Any] = {"arrowstyle": "-", "color": color, "linewidth": 0.7, "alpha": 0.6}
        axes.annotate(
            label,
            (x, y),
            (1.03, height),
            textcoords="axes fraction",
            va="center",
            color=color,
            fontweight="bold" if label == lines[0].label else "normal",
            arrowprops=leader if away else None,
            annotation_clip=False,
        )


def _end(
    points: Sequence[tuple[float, float]], within: Sequence[tuple[float, float]], x_high: float
) -> tuple[float, float]:
    """Where a line ends, or leaves what is shown."""
    x, y = within[-1]
    beyond = points[points.index(within[-1]) + 1 :]
    if not beyond:
        return x, y
    next_x, next_y = beyond[0]
    return x_high, y + (next_y - y) * (x_high - x) / (next_x - x)


def _spread(heights: Sequence[float]) -> list[float]:
    """Move labels apart until each has its room, the lower ones down and the upper ones up."""
    placed = list(heights)
    order = sorted(range(len(placed)), key=placed.__getitem__)
    for _ in range(100):
        for below, above in itertools.pairwise(order):
            if (missing := _LABEL_GAP - (placed[above] - placed[below])) > 1e-6:
                placed[below] -= missing / 2
                placed[above] += missing / 2
    return placed


def _point_to(axes: Axes, better: Better) -> None:
    tail = (0.15, 0.84) if better == "up and left" else (0.04, 0.82)
    axes.annotate(
        "better",
        (0.04, 0.97),
        tail,
        xycoords="axes fraction",
        textcoords="axes fraction",
        color=INK,
        ha="left" if better == "up and left" else "center",
        va="top",
        arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 1.2},
    )


def _tidy(svg: str, title: str) -> str:
    """The element alone, to stand in a page or in a file; without names that nothing refers to."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
