"""Writes pairs of answers whose equality is known, by rules that keep or break it. One JSON object per line:

    {"gold": "(x+1)^2 + 7", "answer": "7 + (x^2+2x+1)", "equal": true, "kind": "polynomial", "rule": "shift"}

    python3 generate.py --pairs 1000000 --seed 1 > pairs.jsonl        # SymPy 1.14

1. Base pairs: two texts of which SymPy says within a second whether they are equal (the kinds of ../grade/sympy/make.py, and those
   below that need SymPy: inequalities with their solutions, steps, branches of roots, determinants, sums).
2. Rules make others of a base pair: the same is done to both sides (shift, scale, rename the variables, put into a tuple, set,
   list, matrix, interval), so equality is kept; or something is done to one side only, so that equal sides become different.
3. Written pairs need no algebra: units, times of day, dates, bases, numerals, vectors. Python's fractions decide.

Pairs that only a convention decides are not made.
"""

import argparse
import json
import pathlib
import random
import re
import signal
import sys
from fractions import Fraction

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "grade" / "sympy"))
import make  # noqa: E402
from sympy import (  # noqa: E402
    Abs, Integer, Interval, Matrix, Rational, S, Symbol, Union, ceiling, expand, floor, oo, solve_univariate_inequality, sqrt,
)

rng = random.Random()
x = Symbol("x", real=True)


# --- base pairs that SymPy decides ----------------------------------------------------------------------------------


def steps(same):
    """Floors and ceilings of linear terms, decided exactly over a whole period."""
    def term():
        return rng.choice([floor, ceiling])((rng.randint(1, 5) * x + rng.randint(-6, 6)) / Integer(rng.randint(2, 6)))

    gold = rng.randint(1, 4) * term() + rng.randint(-5, 5)
    inner = next(iter(gold.atoms(floor, ceiling)))
    function, argument = type(inner), inner.args[0]
    whole = rng.randint(1, 4)
    forms = [
        gold.xreplace({inner: make.Add(function(argument + whole, evaluate=False), -whole, evaluate=False)}),
        gold.xreplace({inner: -{floor: ceiling, ceiling: floor}[function](-argument, evaluate=False)}),
    ]
    other = rng.choice(forms) if same else rng.choice([gold + 1, gold.xreplace({inner: term()}), gold.xreplace({inner: argument})])
    points = [Rational(number, 120) for number in range(-720, 721, 7)]
    verdict = all(gold.subs(x, point) == other.subs(x, point) for point in points)
    return make.write(gold), make.write(other), verdict


def branches(same):
    """Roots of squares against absolute values and against one of their branches."""
    root, scale = rng.randint(-40, 40), rng.randint(1, 5)
    inside = scale * x - root
    gold = f"\\sqrt{{{make.write(expand(inside**2))}}}"
    right = make.write(Abs(inside, evaluate=False))
    if same:
        return gold, right, True
    # Where the corner lies among positive values, each branch is wrong for some of them.
    if root <= 0:
        return None
    return gold, rng.choice([make.write(inside), make.write(-inside), make.write(Abs(inside + 1, evaluate=False))]), False


def solved_inequality(same):
    """A linear or quadratic inequality and its solution."""
    name = rng.choice("xtyu")
    symbol = Symbol(name, real=True)
    first, second = make.small(-6, 6, ()), make.small(-6, 6, ())
    left = rng.choice([
        lambda: make.small() * symbol + make.small(),
        lambda: make.small(-4, 4) * (symbol - first) * (symbol - second),
        lambda: expand(make.small(-3, 3) * (symbol - first) * (symbol - second)),
        lambda: symbol**2 - make.small(1, 12),
        lambda: Abs(make.small(1, 3) * symbol - first),
    ])()
    right = make.small(1, 9) if left.has(Abs) else rng.choice([Integer(0), make.small()])
    sign, relation = rng.choice([("<", left < right), ("\\le ", left <= right), (">", left > right), ("\\ge ", left >= right)])
    solution = solve_univariate_inequality(relation, symbol, relational=False)
    if isinstance(solution, Interval):
        parts = [solution]
    elif isinstance(solution, Union) and all(isinstance(part, Interval) for part in solution.args):
        parts = list(solution.args)
    else:
        return None
    shown = list(parts)
    if not same:
        where = rng.randrange(len(shown))
        shown[where] = make.near_interval(shown[where])
        if Union(*shown) == Union(*parts):
            return None
    answer = " \\cup ".join(make.interval_text(part) for part in shown)
    conditions = [make.inequality(part, name) for part in shown]
    if None not in conditions and rng.random() < 0.5:
        answer = " \\text{ or } ".join(conditions)
    return f"{make.write(left)} {sign}{make.write(right)}", answer, same


def determinants(same):
    size = rng.choice([2, 2, 3])
    cells = [[make.small(-6, 6, ()) for _ in range(size)] for _ in range(size)]
    value = Matrix(cells).det()
    body = "\\\\".join("&".join(map(str, row)) for row in cells)
    gold = rng.choice([f"\\begin{{vmatrix}}{body}\\end{{vmatrix}}", f"\\det\\begin{{pmatrix}}{body}\\end{{pmatrix}}"])
    return gold, str(value if same else value + rng.choice([1, -1, 2])), same


def sums(same):
    name = rng.choice("kjnim")
    symbol = Symbol(name)
    low, high = rng.randint(0, 3), rng.randint(4, 9)
    body = rng.choice([symbol, symbol**2, 2 * symbol + 1, symbol**3 - symbol, 2**symbol, 1 / (symbol + 1), symbol * (symbol + 1)])
    is_sum = rng.random() < 0.75
    values = [body.subs(symbol, index) for index in range(low, high + 1)]
    value = sum(values) if is_sum else make.Mul(*values)
    other = value if same else value + 1
    text = make.Writer(True).group(make.write(body))
    return f"\\{'sum' if is_sum else 'prod'}_{{{name}={low}}}^{{{high}}} {text}", make.write(S(other)), same


def piecewise(same):
    """A function in two pieces: reordered, its strictness moved where it is continuous, or changed."""
    border, slope, offset = rng.randint(-5, 5), make.small(-4, 4), make.small(-6, 6)
    left, right = slope * x + offset, (slope + make.small(-3, 3)) * (x - border) + slope * border + offset
    strict = rng.random() < 0.5
    signs = ("<", "\\ge ") if strict else ("\\le ", ">")
    other_signs = signs if rng.random() < 0.5 else (("\\le ", ">") if strict else ("<", "\\ge "))
    if not same:
        change = rng.randrange(3)
        if change == 0:
            new_left, new_right, new_border = left + 1, right, border
        elif change == 1:
            new_left, new_right, new_border = left, right, border + 1
        else:
            new_left, new_right, new_border = right, left, border
    else:
        new_left, new_right, new_border = left, right, border
    write = make.write
    gold = f"\\begin{{cases}} {write(left)} & x{signs[0]}{border} \\\\ {write(right)} & x{signs[1]}{border} \\end{{cases}}"
    rows = [f"{write(new_right)} & x{other_signs[1]}{new_border}", f"{write(new_left)} & x{other_signs[0]}{new_border}"]
    rng.shuffle(rows)
    body = " \\\\ ".join(rows)
    return gold, f"\\begin{{cases}} {body} \\end{{cases}}", same


SYMPY_KINDS = {
    "steps": steps, "branches": branches, "solved inequality": solved_inequality, "determinant": determinants, "sum": sums,
    "piecewise": piecewise,
}


# --- pairs that arithmetic decides ----------------------------------------------------------------------------------

LENGTH = [("mm", 1), ("cm", 10), ("m", 1000), ("km", 1_000_000)]
UNITS = [
    [("mm", 1), ("cm", 10), ("meters", 1000), ("km", 1_000_000)],
    [("inches", 1), ("ft", 12), ("yards", 36), ("miles", 63_360)],
    [("mg", 1), ("grams", 1000), ("kg", 1_000_000)],
    [("ounces", 1), ("pounds", 16)],
    [("seconds", 1), ("minutes", 60), ("hours", 3600), ("days", 86_400), ("weeks", 604_800)],
    [("months", 1), ("years", 12), ("decades", 120)],
    [("cents", 1), ("dollars", 100)],
    [("mL", 1), ("liters", 1000)],
    [("cups", 1), ("pints", 2), ("quarts", 4), ("gallons", 16)],
    [("square inches", 1), ("square feet", 144), ("square yards", 1296)],
    [("cm^2", 1), ("square meters", 10_000)],
    [("bits", 1), ("bytes", 8)],
    [("km/h", 5), ("m/s", 18)],
]


def number(value):
    """A fraction as a decimal where it is a short one, else as a fraction."""
    value = Fraction(value)
    if value.denominator == 1:
        return str(value.numerator)
    for places in range(1, 5):
        if (value * 10**places).denominator == 1:
            return f"{float(value):.{places}f}"
    return f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def units(same):
    family = rng.choice(UNITS)
    (name, size), (other_name, other_size) = rng.choice(family), rng.choice(family)
    value = Fraction(rng.randint(1, 400), rng.choice([1, 1, 2, 4]))
    converted = value * size / other_size
    if not same:
        converted = rng.choice([converted + 1, converted * 2, value * other_size / size])
        if converted * other_size == value * size:
            return None
    mark = lambda name: rng.choice([f" {name}", f"\\text{{ {name}}}"])
    return number(value) + mark(name), number(converted) + mark(other_name), same


def other_dimension(same):
    if same:
        return None
    first, second = rng.sample(UNITS[:4] + UNITS[4:5] + UNITS[6:7], 2)
    value = rng.randint(1, 99)
    return f"{value} {rng.choice(first)[0]}", f"{value} {rng.choice(second)[0]}", False


def compound(same):
    large, small, ratio = rng.choice([("ft", "in", 12), ("feet", "inches", 12), ("hours", "minutes", 60), ("lb", "oz", 16), ("minutes", "seconds", 60), ("m", "cm", 100)])
    first, second = rng.randint(1, 12), rng.randint(1, ratio - 1)
    total = first * ratio + second + (0 if same else rng.choice([1, -1, ratio]))
    joint = rng.choice([" ", " ", " and ", ", "]) if large != "m" else " "
    return f"{first} {large}{joint}{second} {small}", f"{total} {small}", same


def clock(same):
    hour, minute = rng.randint(0, 23), rng.randint(0, 59)
    total = (hour * 60 + minute + (0 if same else rng.choice([1, 60, 720, 10, 719]))) % 1440
    half = lambda h: rng.choice(["AM", "a.m.", "am"] if h < 12 else ["PM", "p.m.", "pm"])
    twelve = lambda h, m: f"{(h + 11) % 12 + 1}:{m:02d} {half(h)}"
    forms = [twelve, lambda h, m: f"{h}:{m:02d}" if h == 0 or h > 12 else twelve(h, m)]
    return twelve(hour, minute), rng.choice(forms)(total // 60, total % 60), same


MONTHS = "January February March April May June July August September October November December".split()


def dates(same):
    year, month, day = rng.randint(1900, 2040), rng.randint(1, 12), rng.randint(1, 28)
    other = (year, month, day) if same else rng.choice([(year, month, day % 28 + 1), (year, month % 12 + 1, day), (year + 1, month, day)])
    forms = [
        lambda y, m, d: f"{MONTHS[m - 1]} {d}, {y}", lambda y, m, d: f"{d} {MONTHS[m - 1]} {y}", lambda y, m, d: f"{y}-{m:02d}-{d:02d}",
        lambda y, m, d: f"{MONTHS[m - 1][:3]} {d}, {y}",
    ]
    return rng.choice(forms)(year, month, day), rng.choice(forms)(*other), same


def digits(value, base):
    text = ""
    while value:
        text, value = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[value % base] + text, value // base
    return text


def letters_in_bases(same):
    value = rng.randint(16, 70_000)
    base, other_base = rng.choice([12, 16, 16, 20]), rng.choice([2, 8, 10, 16, 36])
    other = value if same else value + rng.choice([1, -1, 16])
    second = digits(other, other_base)
    if len(second) < 2:
        return None
    answer = str(other) if other_base == 10 else f"{second}_{{{other_base}}}"
    return f"{digits(value, base)}_{{{base}}}", answer, same


def numerals(same):
    value = rng.randint(2, 3999)
    text, rest = "", value
    for size, symbol in [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
        while rest >= size:
            text, rest = text + symbol, rest - size
    if len(text) < 2:
        return None
    return text, str(value if same else value + rng.choice([1, -1, 10])), same


def vectors(same):
    parts = [rng.randint(-9, 9) for _ in range(3)]
    if not parts[1] and not parts[2]:
        return None
    style = rng.choice(["\\mathbf{%s}", "\\hat{%s}", "%s", "\\vec{%s}"])
    text = ""
    for value, axis in zip(parts, "ijk"):
        if value:
            text += f"{'+' if value > 0 and text else '-' if value < 0 else ''}{abs(value) if abs(value) > 1 else ''}{style % axis}"
    other = list(parts)
    if not same:
        where = rng.randrange(3)
        other[where] += rng.choice([1, -1, 2])
    return text, f"({', '.join(map(str, other))})", same


def prices(same):
    cents = rng.randint(1, 99_999)
    other = cents if same else cents + rng.choice([1, 10, 100, cents])
    forms = [lambda c: f"${c // 100}.{c % 100:02d}", lambda c: f"\\${c // 100}.{c % 100:02d}", lambda c: f"{c}¢", lambda c: f"{c} cents", lambda c: f"{c // 100}.{c % 100:02d} dollars"]
    return rng.choice(forms)(cents), rng.choice(forms[2:])(other), same


def currencies(same):
    if same:
        return None
    value = rng.randint(1, 999)
    first, second = rng.sample([f"${value}", f"€{value}", f"£{value}", f"₹{value}", f"{value} yen"], 2)
    return first, second, False


WRITTEN_KINDS = {
    "unit": units, "other dimension": other_dimension, "compound quantity": compound, "time of day": clock, "date": dates,
    "base with letters": letters_in_bases, "numeral": numerals, "vector": vectors, "price": prices, "currency": currencies,
}


# --- rules ----------------------------------------------------------------------------------------------------------

# What these write is one value, and arithmetic may be done to it.
SCALAR = {
    "integer", "fraction", "decimal", "surd", "nested surd", "pi and e", "logarithm", "trigonometry", "inverse trigonometry", "complex", "polynomial",
    "rational function", "exponential", "factorial and binomial", "absolute value", "floor and ceiling", "radical", "identity", "steps", "branches",
    "determinant", "sum",
}
# These have no variables and are real, so they may be the end of an interval.
REAL = {"integer", "fraction", "decimal", "surd", "nested surd", "pi and e", "logarithm", "determinant", "sum"}
# The letters of these are not names of integers.
RENAMED = {"polynomial", "rational function", "absolute value", "identity", "branches", "steps"}
WORDS = {"sin", "cos", "tan", "sqrt", "ln", "log", "abs", "floor", "ceil", "arcsin", "arccos", "arctan", "exp", "pi", "e", "i", "and", "or"}


def renamed(text, names):
    def change(found):
        word = found.group()
        if word.startswith("\\") or word in WORDS:
            return word
        return "".join(names.get(letter, letter) for letter in word)

    return re.sub(r"\\[a-zA-Z]+|[a-zA-Z]+", change, text)


def keeping(kind, left, right):
    """(rule, left, right) where both sides had the same done to them."""
    c, k = rng.randint(1, 40), rng.randint(2, 9)
    yield "dollars", f"${left}$", right
    yield "boxed", left, f"\\boxed{{{right}}}"
    if kind in SCALAR:
        yield "shift", f"({left}) + {c}", f"{c} + ({right})"
        yield "negate", f"-({left})", f"-({right})"
        yield "scale", f"{k}({left})", f"({right}) \\cdot {k}"
        yield "divide", f"\\frac{{{left}}}{{{k}}}", f"({right})/{k}"
        yield "tuple", f"({left}, {c})", f"({right}, {c})"
        yield "list", f"{c}, {left}", f"{right}, {c}"
        yield "set", f"\\{{{left}, {c}, -{k}\\}}", f"\\{{-{k}, {right}, {c}\\}}"
        yield "matrix", f"\\begin{{pmatrix}}{left}\\\\{c}\\end{{pmatrix}}", f"\\begin{{bmatrix}} {right} \\\\ {c} \\end{{bmatrix}}"
        yield "named", f"w = {left}", right
        yield "move", f"({left}) - {k}", f"({right}) + {c} - {c + k}"
    if kind in REAL:
        yield "interval", f"({left}, \\infty)", f"w > {right}"
        yield "ray", f"(-\\infty, {left}]", f"w \\le {right}"
    if kind in RENAMED:
        names = dict(zip("xyztabpq", rng.sample("uvwrsghcd", 8)))
        yield "rename", renamed(left, names), renamed(right, names)


def breaking(kind, left, right):
    """(rule, left, right) for equal sides of which one was changed."""
    c = rng.randint(1, 40)
    if kind in SCALAR:
        yield "one shifted", f"({left}) + {c}", right
        yield "sign of a term", f"({left}) + {c}", f"({right}) - {c}"
        yield "order", f"({left}, ({left}) + {c})", f"(({right}) + {c}, {right})"
        yield "element", f"\\{{{left}, 123457\\}}", f"\\{{{right}\\}}"
        yield "length", f"({left}, {c})", f"({right}, {c}, {c})"
        yield "row and column", f"\\begin{{pmatrix}}{left} & {c}\\end{{pmatrix}}", f"\\begin{{pmatrix}}{right}\\\\{c}\\end{{pmatrix}}"
    if kind in REAL:
        yield "bracket", f"[{left}, \\infty)", f"({right}, \\infty)"
        yield "direction", f"w > {left}", f"w < {right}"
        yield "name", f"w > {left}", f"v > {right}"
        yield "unit", f"({left} + 1000) \\text{{ kg}}", f"({right} + 1000) \\text{{ cm}}"


# --- writing --------------------------------------------------------------------------------------------------------


class TooSlow(Exception):
    pass


def give_up(*_):
    raise TooSlow


def draw(function, same):
    """A pair, or None when SymPy does not decide it in a second."""
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        pair = function(same)
    except (TooSlow, ValueError, NotImplementedError, TypeError, AttributeError, ZeroDivisionError, RecursionError):
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if pair is None or pair[2] is not same or len(pair[0]) + len(pair[1]) > 150 or pair[0] == pair[1]:
        return None
    return pair[:2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=1_000_000, help="pairs to write")
    parser.add_argument("--bases", type=int, default=120, help="pairs of each kind that SymPy decides")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng.seed(arguments.seed)
    make.rng.seed(arguments.seed)
    signal.signal(signal.SIGALRM, give_up)

    bases = []
    for kind, function in {**make.KINDS, **SYMPY_KINDS}.items():
        found = set()
        for attempt in range(12 * arguments.bases):
            pair = draw(function, len(found) % 2 == 0)
            if pair and pair not in found:
                bases.append((kind, *pair, len(found) % 2 == 0))
                found.add(pair)
            if len(found) == arguments.bases:
                break
        print(f"{kind}: {len(found)} base pairs", file=sys.stderr, flush=True)

    written = 0

    def write(kind, rule, gold, answer, equal):
        nonlocal written
        if written < arguments.pairs:
            written += 1
            print(json.dumps({"gold": gold, "answer": answer, "equal": equal, "kind": kind, "rule": rule}, ensure_ascii=False))

    for kind, gold, answer, equal in bases:
        write(kind, "base", gold, answer, equal)
    kinds = list(WRITTEN_KINDS.items())
    while written < arguments.pairs:
        for kind, gold, answer, equal in bases:
            if rng.random() < 0.5:
                gold, answer = answer, gold
            rules = list(keeping(kind, gold, answer))
            if equal:
                rules += [(rule, left, right, False) for rule, left, right in breaking(kind, gold, answer)]
            chosen = rng.choice(rules)
            # A second rule on top of the first.
            rule, left, right, *changed = chosen
            verdict = equal and not changed
            if kind in SCALAR and rule in ("shift", "scale", "negate", "divide", "move", "rename") and rng.random() < 0.4:
                second, left, right = rng.choice(list(keeping(kind, left, right)))
                rule = f"{rule}, {second}"
            write(kind, rule, left, right, verdict)
        for _ in range(len(bases)):
            kind, function = rng.choice(kinds)
            pair = draw(function, same := rng.random() < 0.5)
            if pair:
                write(kind, "written", *pair, same)


if __name__ == "__main__":
    main()
