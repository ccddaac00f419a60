"""What the tables of `make bench` have in common: whether goals are met, and columns of even width."""

# How a goal is written: our rate, how often that is the peer's, its share of the limit, or seconds at most.
WRITTEN = {"rate": "{:,.0f}", "ratio": "{:.3g} ×", "share": "{:.0%}", "seconds": "{:.3g} s"}


def verdict(kind, goal, reached):
    """Whether a figure of a kind reaches its goal; nothing without a goal."""
    if kind is None:
        return ""
    if reached is None:
        return "not measured"
    return "met" if (reached <= goal if kind == "seconds" else reached >= goal) else "missed"


def show(columns, rows, left):
    """Prints rows below their columns, of which those in `left` are flush left."""
    rows = [columns, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(columns))]
    for row in rows:
        cells = [cell.ljust(width) if name in left else cell.rjust(width) for name, cell, width in zip(columns, row, widths)]
        print("  ".join(cells).rstrip())
