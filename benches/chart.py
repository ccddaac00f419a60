"""A chart of lines as one SVG file, for the figures in docs: no library, the same bytes for the same numbers."""
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


def lines(path, title, x_label, y_label, series, marks=(), limit=None):
    """Draws `series` ({name: [(x, y), …]}), with named instants `marks` and a dashed `limit` (value, name)."""
    points = [point for line in series.values() for point in line]
    xs = ticks(max(x for x, _ in points))
    ys = ticks(max([y for _, y in points] + ([limit[0]] if limit else [])))

    def across(x):
        return LEFT + (WIDTH - LEFT - RIGHT) * x / xs[-1]

    def down(y):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / ys[-1]

    def text(x, y, words, anchor="middle", size=12, color="#333", turn=""):
        return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}"{turn}>'
                f"{escape(words)}</text>")

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(LEFT, 24, title, "start", 15, "#111"),
    ]
    for y in ys:
        out.append(f'<path d="M{LEFT} {down(y):.1f}H{WIDTH - RIGHT}" stroke="#e3e3e3"/>')
        out.append(text(LEFT - 8, down(y) + 4, f"{y:,.4g}" if y < 10_000 else f"{y:,.0f}", "end"))
    for x in xs:
        out.append(text(across(x), HEIGHT - BOTTOM + 18, f"{x:,.4g}" if x < 10_000 else f"{x:,.0f}"))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 38, x_label))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(text(18, middle, y_label, turn=f' transform="rotate(-90 18 {middle:.1f})"'))
    for x, name in marks:
        out.append(f'<path d="M{across(x):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#999" stroke-dasharray="2 3"/>')
        out.append(text(across(x) + 4, TOP - 6, name, "start", 11, "#666"))
    if limit:
        out.append(f'<path d="M{LEFT} {down(limit[0]):.1f}H{WIDTH - RIGHT}" stroke="#b00020" stroke-dasharray="6 4"/>')
        out.append(text(WIDTH - RIGHT, down(limit[0]) + 14, limit[1], "end", 11, "#b00020"))
    at = LEFT
    for color, (name, line) in zip(COLORS, series.items()):
        path_of = "M" + "L".join(f"{across(x):.1f} {down(y):.1f}" for x, y in line)
        out.append(f'<path d="{path_of}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        out.append(f'<rect x="{at}" y="{HEIGHT - 24}" width="14" height="4" fill="{color}"/>')
        out.append(text(at + 20, HEIGHT - 18, name, "start"))
        at += 36 + 7 * len(name)
    with open(path, "w") as file:
        file.write("\n".join([*out, "</svg>"]) + "\n")
