"""A chart of lines as one SVG file, for the figures in docs: no library, the same bytes for the same numbers."""
import math
from html import escape

COLORS = ["#2f6fb0", "#c2571a", "#3c8d40", "#8a4fa3", "#6b6b6b"]
WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 72, 24, 56, 84


def ticks(top):
    """Round numbers from 0 to just beyond a value."""
    step = 10 ** (len(str(max(1, int(top)))) - 1)
    for divisor in (5, 4, 2, 1):
        if top / (step / divisor) <= 8:
            step = step / divisor
            break
    values = [0]
    while values[-1] < top:
        values.append(values[-1] + step)
    return values


def decades(low, high):
    """Powers of ten from below a value to beyond another."""
    values = [10 ** math.floor(math.log10(low))]
    while values[-1] < high:
        values.append(values[-1] * 10)
    return values


def number(value):
    return f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}"


def text(x, y, words, anchor="middle", size=12, color="#333", turn=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}"{turn}>{escape(words)}</text>'


def panel(title, x_label, y_label, series, marks=(), limit=None, doubling=False, left_edge=0):
    """A chart's elements, `left_edge` from the left. With `doubling`, x has a place for each of its values, evenly, and y is logarithmic."""
    points = [point for line in series.values() for point in line]
    highest = max([y for _, y in points] + ([limit[0]] if limit else []))
    if doubling:
        xs, ys = sorted({x for x, _ in points}), decades(min(y for _, y in points), highest)
    else:
        xs, ys = ticks(max(x for x, _ in points)), ticks(highest)
    left, right = left_edge + LEFT, left_edge + WIDTH - RIGHT

    def across(x):
        return left + (right - left) * (xs.index(x) / max(1, len(xs) - 1) if doubling else x / xs[-1])

    def down(y):
        share = math.log(y / ys[0]) / math.log(ys[-1] / ys[0]) if doubling else y / ys[-1]
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    out = [text(left, 24, title, "start", 15, "#111")]
    for y in ys:
        out.append(f'<path d="M{left} {down(y):.1f}H{right}" stroke="#e3e3e3"/>')
        out.append(text(left - 8, down(y) + 4, number(y), "end"))
    for x in xs:
        out.append(text(across(x), HEIGHT - BOTTOM + 18, number(x)))
    out.append(text((left + right) / 2, HEIGHT - BOTTOM + 38, x_label))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(text(left_edge + 18, middle, y_label, turn=f' transform="rotate(-90 {left_edge + 18} {middle:.1f})"'))
    for x, name in marks:
        out.append(f'<path d="M{across(x):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#999" stroke-dasharray="2 3"/>')
        out.append(text(across(x) + 4, TOP - 6, name, "start", 11, "#666"))
    if limit:
        out.append(f'<path d="M{left} {down(limit[0]):.1f}H{right}" stroke="#b00020" stroke-dasharray="6 4"/>')
        out.append(text(right, down(limit[0]) + 14, limit[1], "end", 11, "#b00020"))
    at = left
    for color, (name, line) in zip(COLORS, series.items()):
        path_of = "M" + "L".join(f"{across(x):.1f} {down(y):.1f}" for x, y in line)
        out.append(f'<path d="{path_of}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        if doubling:
            out.extend(f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r="2.6" fill="{color}"/>' for x, y in line)
        out.append(f'<rect x="{at}" y="{HEIGHT - 24}" width="14" height="4" fill="{color}"/>')
        out.append(text(at + 20, HEIGHT - 18, name, "start"))
        at += 36 + 7 * len(name)
    return out


def write(path, title, elements, panels=1):
    width = WIDTH * panels
    with open(path, "w") as file:
        file.write("\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" font-family="sans-serif" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
            *elements,
            "</svg>",
        ]) + "\n")


def lines(path, title, x_label, y_label, series, marks=(), limit=None):
    """Draws `series` ({name: [(x, y), …]}), with named instants `marks` and a dashed `limit` (value, name)."""
    write(path, title, panel(title, x_label, y_label, series, marks, limit))


def growth(path, title, x_label, panels):
    """Draws what grows with x, doubling by doubling: `panels` ({title: (y_label, series)}) side by side."""
    drawn = [
        panel(name, x_label, y_label, series, doubling=True, left_edge=at * WIDTH)
        for at, (name, (y_label, series)) in enumerate(panels.items())
    ]
    write(path, title, [element for one in drawn for element in one], len(panels))
