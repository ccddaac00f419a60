"""Makes pairs.jsonl: pairs of answers whose equality SymPy decides, for tests/grade/sympy.rs.

    python3 make.py > pairs.jsonl          # SymPy 1.14; about two minutes; the seed is fixed

{"gold": "\\frac{\\sqrt{3}}{3}", "answer": "1/sqrt(3)", "equal": true, "kind": "surd"}

Each kind draws a value, writes it once, rewrites it (expanded, factored, rationalised, commuted, other notation) or
changes it a little (a coefficient, a sign, an end, a bracket), and writes that. Whether the two are equal is decided
from the SymPy values at 50 digits, never from the text. Pairs that only a convention decides are not made: 50% against
50, a decimal of six or more places against the number that it rounds.
"""

import json
import random
import sys

from sympy import (
    Abs, Add, E, FiniteSet, I, Integer, Interval, Mul, N, Pow, Rational, S, Symbol, Union, acos, apart, asin, atan, binomial,
    cancel, ceiling, cos, exp, expand, expand_log, expand_trig, factor, factor_list, factorial, floor, fraction, log, nsimplify, oo, pi,
    powsimp, radsimp, sin, sqrt, sqrtdenest, symbols, tan, together,
)

PAIRS_PER_KIND = 100
rng = random.Random(20240607)
x, y, z, t, a, b = symbols("x y z t a b", real=True)
n, k = symbols("n k", integer=True, nonnegative=True)


# --- deciding -------------------------------------------------------------------------------------------------------


def points(names, natural):
    for round in range(5):
        if natural:
            yield {name: Integer(random.Random(f"{name}{round}").randint(2 * (str(name) == "n"), 3 + 6 * (str(name) == "n"))) for name in names}
        else:
            sign = (lambda r: 1 if round < 3 else r.choice([-1, 1]))
            yield {name: (lambda r: sign(r) * Rational(r.randint(30, 270), 97))(random.Random(f"{name}{round}")) for name in names}


def equal(first, second):
    """Whether two scalars are equal; None when SymPy's numbers do not say."""
    names = sorted((first.free_symbols | second.free_symbols), key=str)
    verdicts = []
    for point in points(names, n in names or k in names):
        left, right = (N(value.subs(point), 60) for value in (first, second))
        if left.has(oo, S.NaN, S.ComplexInfinity) or right.has(oo, S.NaN, S.ComplexInfinity):
            continue
        distance, size = abs(left - right), 1 + abs(left)
        if not (distance.is_number and size.is_number):
            return None
        verdicts.append(True if distance < size * Rational(1, 10**45) else False if distance > size * Rational(1, 10**30) else None)
    if not verdicts or None in verdicts:
        return None
    if all(verdicts):
        return True
    # A pair that agrees for positive values only is a matter of convention.
    return None if all(verdicts[:3]) and len(verdicts) > 3 and not all(verdicts[3:]) and first.free_symbols else False


# --- writing --------------------------------------------------------------------------------------------------------


class Writer:
    """Writes a value in one randomly chosen notation."""

    def __init__(self, latex=None):
        self.latex = rng.random() < 0.75 if latex is None else latex
        self.frac = rng.choice(["\\frac", "\\frac", "\\dfrac", "\\tfrac"])
        self.times = rng.choice(["", "", "\\cdot ", " \\times "]) if self.latex else rng.choice(["*", "*", " * ", "·"])
        self.sized = rng.random() < 0.4
        self.spaced = rng.random() < 0.5
        self.slash = rng.random() < 0.15
        self.power_roots = rng.random() < 0.1
        self.negative_powers = rng.random() < 0.15
        self.bare_calls = rng.random() < 0.5

    def group(self, text):
        return f"\\left({text}\\right)" if self.latex and self.sized else f"({text})"

    def quotient(self, top, bottom):
        """Of two values."""
        if self.latex and not self.slash:
            return f"{self.frac}{{{self.sum(top)}}}{{{self.sum(bottom)}}}"
        return f"{self.product(top)}/{self.atom(bottom)}"

    def power(self, base, exponent):
        """Of a base's text and an exponent's text."""
        if self.latex:
            return f"{base}^{exponent}" if len(exponent) == 1 and rng.random() < 0.5 else f"{base}^{{{exponent}}}"
        plain = exponent if exponent.isalnum() else f"({exponent})"
        return f"{base}{rng.choice(['^', '^', '**'])}{plain}"

    def __call__(self, value):
        return self.sum(value)

    def sum(self, value):
        """At the loosest binding."""
        if isinstance(value, Add):
            terms = list(value.args)
            if rng.random() < 0.6:
                rng.shuffle(terms)
            text = ""
            for term in terms:
                negative = term.could_extract_minus_sign() and not isinstance(term, Add)
                body = self.product(-term if negative else term)
                space = " " if self.spaced else ""
                text += (f"{space}-{space}" if text else "-") + body if negative else (f"{space}+{space}" if text else "") + body
            return text
        if value.could_extract_minus_sign() and value.is_Atom:
            return f"-{self.atom(-value)}"
        if isinstance(value, Mul) and value.could_extract_minus_sign():
            return f"-{self.product(-value)}"
        return self.product(value)

    def product(self, value):
        """A product or anything that binds as tightly."""
        if isinstance(value, Add) or (value.could_extract_minus_sign() and not isinstance(value, Pow)):
            return self.group(self.sum(value))
        top, bottom = fraction(value)
        if bottom != 1 and not (self.negative_powers and not bottom.is_Number and isinstance(value, Pow)):
            if rng.random() < 0.3 and self.latex and not self.slash and not bottom.is_Number and top.is_Mul and top.args[0].is_Integer:
                coefficient, rest = top.as_coeff_Mul()
                return self.join([self.quotient(coefficient, bottom), self.atom(rest)])
            return self.quotient(top, bottom)
        if isinstance(value, Mul):
            factors = list(value.args)
            numbers = [factor for factor in factors if factor.is_Number]
            others = [factor for factor in factors if not factor.is_Number]
            if rng.random() < 0.5:
                rng.shuffle(others)
            return self.join([self.atom(factor) for factor in numbers + others])
        return self.atom(value)

    def join(self, parts):
        text = parts[0]
        for part in parts[1:]:
            times = self.times
            # `2 3` and `3\frac{1}{2}` would not be products; `x\sin y` and `f(2)` would read otherwise.
            implicit_ok = not (part[0].isdigit() or part.startswith(("\\frac", "\\dfrac", "\\tfrac")) or text[-1].isalpha())
            text += (times if times or implicit_ok else "\\cdot " if self.latex else "*") + part
        return text

    def atom(self, value):
        """Something that an exponent or a product can take as it is."""
        if value.is_Integer and value >= 0:
            return str(value)
        if value is pi:
            return "\\pi" + " " * (rng.random() < 0.9) if self.latex else rng.choice(["pi", "π"])
        if value is E:
            return "e"
        if value is I:
            return "i"
        if isinstance(value, Symbol):
            return str(value)
        if isinstance(value, exp):
            return self.power("e", self.sum(value.args[0]))
        if isinstance(value, Pow):
            return self.raised(value)
        if isinstance(value, Abs):
            inner = self.sum(value.args[0])
            return f"\\left|{inner}\\right|" if self.latex and self.sized else f"|{inner}|" if self.latex else f"abs({inner})"
        if isinstance(value, factorial):
            return self.atom(value.args[0]) + "!"
        if isinstance(value, binomial):
            top, bottom = (self.sum(argument) for argument in value.args)
            return f"\\{rng.choice(['binom', 'dbinom'])}{{{top}}}{{{bottom}}}"
        if value.is_Function:
            return self.call(value)
        if value.is_Atom and not value.is_Rational:
            raise ValueError(f"{value} is no answer")
        return self.group(self.sum(value))

    def raised(self, value):
        base, exponent = value.args
        if exponent.is_Rational and exponent.q != 1 and exponent.q <= 4 and not self.power_roots:
            inner = self.sum(base)
            if exponent.q == 2:
                root = f"\\sqrt{{{inner}}}" if self.latex else f"sqrt({inner})"
            elif self.latex:
                root = f"\\sqrt[{exponent.q}]{{{inner}}}"
            else:
                return self.power(self.atom(base), str(exponent))
            return root if exponent.p == 1 else self.power(root, str(exponent.p))
        if base.is_Function and isinstance(base, (sin, cos, tan)) and exponent.is_Integer and exponent > 0 and self.latex:
            return self.call(base, f"^{{{exponent}}}")
        body = self.atom(base)
        if base.is_Function or isinstance(base, Pow):
            body = self.group(self.sum(base))
        return self.power(body, self.sum(exponent))

    def call(self, value, power=""):
        name = {"log": "ln", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "ceiling": "ceil"}.get(type(value).__name__, type(value).__name__)
        inner = self.sum(value.args[0])
        if name in ("floor", "ceil"):
            return f"\\l{name} {inner} \\r{name}" if self.latex else f"{name}({inner})"
        if not self.latex:
            return f"{name}({inner})"
        if self.bare_calls and isinstance(value.args[0], Symbol):
            return f"\\{name}{power} {inner}"
        if name.startswith("arc") and rng.random() < 0.3:
            name, power = name[3:], "^{-1}"
        return f"\\{name}{power}{self.group(inner)}"


def write(value):
    return Writer()(value)


# --- rewriting ------------------------------------------------------------------------------------------------------


def rewritten(value, ways):
    """The value in another form, if one of the ways changes it."""
    for way in rng.sample(ways, len(ways)):
        try:
            other = way(value)
        except Exception:
            continue
        if other != value:
            return other
    return value


def changed(value):
    """A value near by: one number, sign or variable changed."""
    numbers = sorted((atom for atom in value.atoms(Rational)), key=str)
    names = sorted(value.free_symbols, key=str)
    ways = [lambda: value + rng.choice([1, -1]), lambda: -value, lambda: value * 2]
    if numbers:
        ways += 3 * [lambda: value.xreplace({(old := rng.choice(numbers)): old + rng.choice([1, -1])})]
    if isinstance(value, Add):
        ways += 2 * [lambda: value - 2 * rng.choice(value.args)]
    if len(names) > 1:
        ways += [lambda: value.xreplace({names[0]: names[1], names[1]: names[0]})]
    return rng.choice(ways)()


def scalar(draw, ways=()):
    """A kind of scalars: a value, and it rewritten or changed."""

    def make(same):
        gold = draw()
        answer = rewritten(gold, [*ways, lambda v: v]) if same else changed(rewritten(gold, [*ways, lambda v: v]))
        return write(gold), write(answer), equal(gold, answer)

    return make


def small(low=-9, high=9, without=(0,)):
    return Integer(rng.choice([value for value in range(low, high + 1) if value not in without]))


def ratio(top=12, bottom=9):
    return Rational(small(-top, top), rng.randint(1, bottom))


# --- numbers --------------------------------------------------------------------------------------------------------


def grouped(value, mark):
    return f"{value:,}".replace(",", mark)


def integers(same):
    value = rng.choice([rng.randint(-99, 99), rng.randint(1000, 9_999_999), -rng.randint(1000, 99_999)])
    other = value if same else rng.choice([value + 1, -value, value * 10, value + 1000]) or 1
    forms = [str, lambda v: f"${v}$", lambda v: f"{v}.0", lambda v: grouped(v, ","), lambda v: grouped(v, "{,}"), lambda v: grouped(v, ",\\!"),
             lambda v: f"{v + 7} - 7", lambda v: f"{3 * v}/3", lambda v: f"\\frac{{{2 * v}}}{{2}}", lambda v: f"{v}.", lambda v: f"({v})", lambda v: f"{2 * v} \\div 2"]
    return rng.choice(forms)(value), rng.choice(forms)(other), value == other


def decimals(same):
    places = rng.randint(1, 5)
    value = Rational(rng.randint(-99_999, 99_999), 10**places)
    other = value if same else rng.choice([value + Rational(1, 10**places), -value, value * 10, value + 1])
    text = lambda v: f"{'-' if v < 0 else ''}{abs(v).p * (10**places // abs(v).q) // 10**places}.{abs(v).p * (10**places // abs(v).q) % 10**places:0{places}d}"
    forms = [text, lambda v: text(v) + "0", lambda v: text(v).replace("-", "−"), lambda v: write(v), lambda v: text(v).replace("0.", ".") if abs(v) < 1 else text(v),
             lambda v: f"{v.p}/{v.q}"]
    return rng.choice(forms[:2])(value), rng.choice(forms)(other), value == other


def fractions(same):
    value = Rational(small(-99, 99), rng.randint(2, 99))
    other = value if same else rng.choice([value + Rational(1, value.q), -value, Rational(value.q, value.p), value + 1])
    factor = rng.randint(2, 9)
    forms = [lambda v: f"\\frac{{{v.p}}}{{{v.q}}}", lambda v: f"{v.p}/{v.q}", lambda v: f"\\dfrac{{{v.p * factor}}}{{{v.q * factor}}}", lambda v: f"{v.p} \\cdot \\frac{{1}}{{{v.q}}}",
             lambda v: f"-\\frac{{{-v.p}}}{{{v.q}}}", lambda v: f"{v.p}\\cdot {v.q}^{{-1}}", lambda v: f"\\frac{{{-v.p}}}{{{-v.q}}}", lambda v: f"({v.p})/({v.q})"]
    if 0 < value.p < 10 and value.q < 10:
        forms.append(lambda v: f"\\frac{v.p}{v.q}" if 0 < v.p < 10 and v.q < 10 else f"{v.p}/{v.q}")
    return rng.choice(forms)(value), rng.choice(forms)(other), value == other


def mixed(same):
    bottom = rng.randint(2, 12)
    value = rng.choice([1, 1, -1]) * (rng.randint(1, 30) + Rational(rng.randint(1, bottom - 1), bottom))
    other = value if same else rng.choice([value + 1, -value, value + Rational(1, 7), value / 2])

    def text(v):
        sign, v = "-" if v < 0 else "", abs(v)
        whole, part = divmod(v, 1)
        if part == 0 or whole == 0:
            return sign + str(v)
        return sign + rng.choice([f"{whole}\\frac{{{part.p}}}{{{part.q}}}", f"{whole} {part.p}/{part.q}", f"{whole} \\dfrac{{{part.p}}}{{{part.q}}}", f"{whole}\\,\\tfrac{{{part.p}}}{{{part.q}}}"])

    return text(value), rng.choice([text, write, lambda v: f"{v.p}/{v.q}"])(other), value == other


def percents(same):
    value = Rational(rng.randint(1, 999), rng.choice([1, 2, 4, 5, 10, 3]))
    other = value if same else rng.choice([value + 1, value * 2, value + Rational(1, 2), -value])
    mark = lambda: rng.choice(["\\%", "%", " \\%", " percent", "\\text{ percent}"])
    inner = lambda v: write(v) if v.q in (1, 3) else rng.choice([str(float(v)), write(v)])
    first, second = inner(value), inner(other)
    wrap = lambda text: text if text.replace(".", "").replace("-", "").isdigit() or text.startswith("\\") else f"({text})"
    return wrap(first) + mark(), wrap(second) + mark() if rng.random() < 0.6 or not same else write(other / 100), value == other


def scientific(same):
    places, power = rng.randint(0, 3), rng.randint(-6, 9)
    digits = rng.randint(10**places, 10 ** (places + 1) - 1)
    other_digits, other_power = (digits, power) if same else rng.choice([(digits, power + 1), (digits + 1, power), (digits, -power or 2), (-digits, power)])

    def text(d, p):
        head = f"{d / 10**places:.{places}f}"
        return rng.choice([f"{head} \\times 10^{{{p}}}", f"{head}\\cdot 10^{{{p}}}", f"{head}e{p}", f"{head}E{p:+d}", f"{head}*10^{p}", f"{head} × 10^({p})"])

    value, other = (Rational(d, 10**places) * Integer(10) ** p for d, p in ((digits, power), (other_digits, other_power)))
    plain = lambda v: str(v) if v.is_Integer else f"\\frac{{{v.p}}}{{{v.q}}}"
    return text(digits, power), text(other_digits, other_power) if rng.random() < 0.5 else plain(other), value == other


def repeating(same):
    head, block = rng.choice(["", str(rng.randint(0, 99))]), str(rng.randint(1, 998))
    whole = rng.randint(0, 12)
    value = whole + (Rational(int(head or 0)) + Rational(int(block), 10 ** len(block) - 1)) / 10 ** len(head)
    other = value if same else rng.choice([value + Rational(1, 9), -value, value + Rational(1, 10 ** (len(head) + 1)), 1 / value])
    bar = rng.choice(["\\overline", "\\bar"])
    gold = f"{whole}.{head}{bar}{{{block}}}"
    answer = rng.choice([write(other), f"{other.p}/{other.q}", f"{whole}.{head}{block}\\overline{{{block}}}" if same else write(other)])
    return gold, answer, equal(value, other)


def bases(same):
    base, other_base = rng.sample([2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16], 2)
    value = rng.randint(base * 2, 3000)
    other = value if same else value + rng.choice([1, -1, base])

    def digits(v, radix):
        text = ""
        while v:
            text, v = "0123456789"[v % radix] + text if v % radix < 10 else chr(55 + v % radix) + text, v // radix
        return text

    mark = lambda radix: rng.choice([f"_{{{radix}}}", f"_{radix}" if radix < 10 else f"_{{{radix}}}", f"_{{\\text{{{radix}}}}}"])
    first = digits(value, base)
    second = digits(other, other_base)
    if not (first + second).isdigit():
        return None
    answer = rng.choice([second + mark(other_base), digits(other, base) + mark(base)]) if digits(other, base).isdigit() else second + mark(other_base)
    # Digits that agree though the base is left out are equal by convention.
    if rng.random() < 0.3 and str(other) not in (first,):
        answer = str(other)
    return first + mark(base), answer, value == other


# --- constants ------------------------------------------------------------------------------------------------------


def surd():
    root = lambda: sqrt(rng.randint(2, 60))
    return rng.choice([
        lambda: ratio() * root() + ratio(),
        lambda: (small() + small() * root()) / (small() + small() * root()),
        lambda: ratio() * root() * root(),
        lambda: root() + root() * small() - root(),
        lambda: small() / root() + ratio(),
        lambda: (small() + root()) ** rng.randint(2, 3),
        lambda: Integer(rng.randint(2, 30)) ** Rational(rng.randint(1, 5), rng.choice([3, 4])) * ratio(),
        lambda: (small(1, 9) + root()) * (small() - root()),
    ])()


def unexpanded_root(value):
    """c·√n as √(c²n), unevaluated."""
    for part in sorted(value.atoms(Pow), key=str):
        if part.exp == Rational(1, 2) and part.base.is_Integer:
            factor = rng.randint(2, 5)
            return value.xreplace({part: Mul(Rational(1, factor), Pow(part.base * factor**2, Rational(1, 2), evaluate=False), evaluate=False)})
    return value


def nested():
    first, second = rng.sample(range(2, 30), 2)
    total = sqrt(first) + rng.choice([1, -1]) * sqrt(second)
    return rng.choice([
        lambda: sqrt(expand(total**2)) * ratio(),
        lambda: sqrt(expand((small(1, 9) + sqrt(first)) ** 2)) + small(),
        lambda: sqrt(small(2, 9) + sqrt(first)) * sqrt(small(2, 9) + sqrt(first)),
        lambda: 1 / sqrt(first + sqrt(rng.choice([2, 3, 5, 7]))),
        lambda: expand((1 + sqrt(first)) ** 3) ** Rational(1, 3),
    ])()


def constant():
    return rng.choice([
        lambda: ratio() * pi + ratio(),
        lambda: ratio() * pi**2 - small() * E,
        lambda: (small() * pi + small()) / (small() * pi + small(1, 9)),
        lambda: E ** small() * ratio() + ratio(),
        lambda: pi * sqrt(rng.randint(2, 20)) / small() + small(),
        lambda: (E + small()) ** 2 - ratio() * E,
    ])()


def logarithm():
    whole = lambda: Integer(rng.randint(2, 40))
    return rng.choice([
        lambda: log(whole()) / log(rng.choice([2, 3, 5, 7, 10])),
        lambda: ratio() * log(whole()) + ratio(),
        lambda: log(whole() * whole()) - log(whole()),
        lambda: log(Rational(rng.randint(1, 30), rng.randint(31, 60))),
        lambda: log(whole() * E ** rng.randint(1, 4)) * small(),
        lambda: log(sqrt(whole()) + 1) + ratio(),
    ])()


def logarithms(same):
    gold = logarithm()
    answer = rewritten(gold, [lambda v: expand_log(v, force=True), lambda v: v.replace(log, split_log), together, expand, lambda v: v])
    if not same:
        answer = changed(answer)
    return write(gold), write(answer), equal(gold, answer)


def split_log(argument):
    if argument.is_Integer and argument > 1:
        factors = argument.factors() if hasattr(argument, "factors") else {}
        return Add(*[power * log(prime) for prime, power in factors.items()])
    return log(argument)


def logs_to_a_base(same):
    base, power = rng.choice([2, 3, 4, 5, 7, 8, 9, 10]), rng.randint(2, 200)
    value = log(power) / log(base)
    scale = rng.choice([1, 1, small(2, 5)])
    other_power = power if same else power + rng.choice([1, 2])
    other = scale * log(other_power) / log(base)
    head = "" if scale == 1 else str(scale)
    gold = rng.choice([f"{head}\\log_{{{base}}} {power}", f"{head}\\log_{{{base}}}({power})", f"{head}\\log_{base}{{{power}}}" if base < 10 else f"{head}\\log_{{10}}{power}"])
    answer = rng.choice([
        f"{head}\\frac{{\\ln {other_power}}}{{\\ln {base}}}", f"\\frac{{{scale}\\log {other_power}}}{{\\log {base}}}", f"\\log_{{{base}}}{{{other_power ** int(scale)}}}",
        f"{head}\\log_{{{base}}}{{{other_power * base}}} - {scale}", f"{scale}/\\log_{{{other_power}}} {base}", f"{head}ln({other_power})/ln({base})",
    ])
    return gold, answer, equal(scale * value, other)


def angle():
    return Rational(rng.randint(-24, 24), rng.choice([3, 4, 5, 6, 8, 10, 12, 7])) * pi


def trigonometry(same):
    """Functions at rational multiples of π, written unevaluated and in radians or degrees."""
    function, where = rng.choice([sin, cos, tan]), angle()
    value = function(where)
    if value.has(S.ComplexInfinity, oo):
        return None
    name = function.__name__
    degrees = Rational(where / pi) * 180
    scale = rng.choice([1, 1, small(2, 5)])
    head = "" if scale == 1 else str(scale)
    forms = [f"{head}\\{name}\\left({write(where)}\\right)", f"{head}\\{name}({write(where)})"]
    if degrees.is_Integer:
        forms += [f"{head}\\{name} {degrees}^\\circ" if degrees >= 0 else f"{head}\\{name}({degrees}^{{\\circ}})", f"{head}{name}({degrees}°)"]
    gold, value = rng.choice(forms), scale * value
    if same:
        turned = {sin: cos(pi / 2 - where, evaluate=False), cos: sin(pi / 2 - where, evaluate=False), tan: function(where + pi, evaluate=False)}[function]
        closed = value.rewrite(sqrt) if not value.has(sin, cos, tan) else value
        other, text = (scale * turned.doit(), head + Writer(True).call(turned)) if rng.random() < 0.4 else (closed, write(closed))
    else:
        other = rng.choice([-value, value + ratio(), scale * rng.choice([sin, cos])(where + pi / 7), changed(value)])
        if other.has(S.ComplexInfinity, oo):
            return None
        text = write(other)
    return gold, text, equal(value, other)


def inverse_trigonometry(same):
    function = rng.choice([asin, acos, atan])
    inside = rng.choice([Rational(1, 2), sqrt(2) / 2, sqrt(3) / 2, Integer(1), Integer(0), Rational(-1, 2), ratio(5, 7), sqrt(3), sqrt(3) / 3, -sqrt(2) / 2])
    if function is not atan and not abs(inside) <= 1:
        return None
    unevaluated = function(inside, evaluate=False)
    scale = rng.choice([1, 1, small(2, 4), Rational(1, 2)])
    value = scale * function(inside)
    gold = Writer(True).join([Writer(True).atom(Integer(scale)) if Rational(scale).q == 1 else "\\frac{1}{2}", Writer(True).call(unevaluated)]) if scale != 1 else write(unevaluated)
    options = {asin: scale * (pi / 2 - acos(inside)), acos: scale * (pi / 2 - asin(inside)), atan: -scale * atan(-inside)}[function]
    other = rng.choice([value, options])
    if not same:
        other = changed(other)
    return gold, write(other), equal(value, other)


def complexes():
    part = lambda: small() + small() * I
    return rng.choice([
        lambda: ratio() + ratio() * I,
        lambda: part() / part(),
        lambda: part() * part(),
        lambda: part() ** rng.randint(2, 4),
        lambda: sqrt(rng.randint(2, 20)) * I + ratio(),
        lambda: (1 + sqrt(3) * I) * ratio() / 2,
        lambda: small(1, 6) * exp(I * pi * Rational(rng.randint(1, 11), rng.choice([3, 4, 6]))),
    ])()


def real_and_imaginary(value):
    first, second = value.as_real_imag()
    return first + second * I


# --- algebra --------------------------------------------------------------------------------------------------------


def polynomial(names):
    chosen = rng.sample(names, rng.randint(1, min(3, len(names))))
    linear = lambda: small() * rng.choice(chosen) + rng.choice([small(), small() * rng.choice(chosen)])
    return rng.choice([
        lambda: linear() * linear(),
        lambda: linear() ** 2 + ratio() * rng.choice(chosen),
        lambda: linear() * linear() * linear(),
        lambda: ratio() * rng.choice(chosen) ** rng.randint(2, 6) + linear() + ratio(),
        lambda: linear() ** rng.randint(2, 4),
        lambda: Mul(*chosen) * linear() - small(),
    ])()


def rational_function():
    names = [x, y, t, a, b]
    top, bottom = polynomial(names), polynomial(names[:2])
    return rng.choice([
        lambda: top / bottom,
        lambda: small() / (x + small()) + small() / (x - small(1, 9)),
        lambda: (x**2 - small(1, 9) ** 2) / (x - small(1, 9)) / small(),
        lambda: top / (small() * x) - ratio(),
        lambda: (x * y + small() * x) / (y + small()),
        lambda: 1 / (1 / x + 1 / (y + small(1, 5))),
    ])()


def exponential():
    return rng.choice([
        lambda: Integer(rng.choice([2, 3, 4, 5])) ** (small(1, 4) * n + small(-3, 3, ())) * small(),
        lambda: exp(small() * t + small()) * ratio(),
        lambda: small() * exp(small() * x) + small() * exp(-x),
        lambda: (exp(x) + small()) ** 2,
        lambda: (Integer(2) ** n - 1) * (Integer(3) ** n + small()),
        lambda: (1 - exp(-small(1, 5) * t)) / small(2, 5),
        lambda: x ** (n + small(1, 4)) * x ** small(1, 3),
    ])()


def combinatorial():
    step = Integer(rng.randint(1, 2))
    return rng.choice([
        lambda: factorial(n + step) / factorial(n) * small(),
        lambda: binomial(n + step, 2) * ratio(),
        lambda: factorial(n + step) / (factorial(2) * factorial(n)),
        lambda: binomial(n, k) * small(1, 5),
        lambda: n * factorial(n) + factorial(n),
        lambda: binomial(2 * n, n) * rng.choice([1, n + 1]),
    ])()


def combinatorics(same):
    gold = combinatorial()
    answer = rewritten(gold, [lambda v: v.rewrite(factorial), expand, together, factor, lambda v: v.simplify(), lambda v: v])
    if not same:
        answer = changed(answer)
    # The writer cannot write a product Γ(…) that SymPy may come up with.
    if "gamma" in str(answer) or "RisingFactorial" in str(answer):
        return None
    return write(gold), write(answer), equal(gold, answer)


def absolute(same):
    inner = rng.choice([small() * x + small(), x - y, x**2 - small(1, 9), x * y, small() * x])
    gold = small() * Abs(inner) + rng.choice([0, small(), x])
    forms = [lambda: gold.xreplace({Abs(inner): Abs(-inner, evaluate=False)}), lambda: gold.xreplace({Abs(inner): Abs(2 * inner) / 2}), lambda: gold.xreplace({Abs(inner): sqrt(expand(inner**2))})]
    answer = rng.choice(forms)() if same else rng.choice([lambda: gold.xreplace({Abs(inner): inner}), lambda: changed(gold), lambda: -gold])()
    verdict = True if same else equal(gold, answer)
    if not same and verdict is None and not equal(gold.subs({x: -x, y: -y + 3}), answer.subs({x: -x, y: -y + 3})):
        verdict = False
    return write(gold), write(answer), verdict


def floors(same):
    inner = rng.choice([ratio(99, 9), pi * small(), sqrt(rng.randint(2, 200)) * small(), E ** small(1, 4), Rational(small(-99, 99), 1) + sqrt(2)])
    function = rng.choice([floor, ceiling])
    value = function(inner)
    other = value if same else value + rng.choice([1, -1])
    gold = write(function(inner, evaluate=False))
    forms = [lambda: str(other), lambda: write(Integer(other + 3)) + " - 3"]
    if same:
        forms.append(lambda: write(function(inner + 1, evaluate=False)) + " - 1")
    return gold, rng.choice(forms)(), value == other


def radicals():
    p, q = symbols("p q", positive=True)
    return rng.choice([
        lambda: sqrt(small(1, 9) * p + small(1, 9)) * ratio(),
        lambda: 1 / (sqrt(p) + small(1, 9)),
        lambda: (sqrt(p) + sqrt(q)) * (sqrt(p) - sqrt(q)) * small(),
        lambda: sqrt(rng.randint(2, 50) * p**3 * q),
        lambda: p ** Rational(rng.randint(1, 7), rng.choice([2, 3])) * q ** Rational(-1, 2),
        lambda: sqrt(p**2 + q**2) / (p + small(1, 5)),
    ])()


def identity():
    return rng.choice([
        lambda: sin(small(2, 3) * x) * small(),
        lambda: cos(2 * x) + small(),
        lambda: sin(x + y) * ratio(),
        lambda: sin(x) ** 2 * small() + cos(x) ** 2,
        lambda: tan(x) * cos(x) + small(),
        lambda: cos(x - y) - sin(x) * sin(y),
        lambda: log(small(2, 9) * (x**2 + 1)) * small(),
        lambda: sin(x) ** 3 + small() * x * cos(small(2, 4) * x),
    ])()


# --- answers of several parts ---------------------------------------------------------------------------------------


def value():
    return rng.choice([small, small, ratio, lambda: sqrt(rng.choice([2, 3, 5, 12])) * small(), lambda: pi * ratio(3, 4), lambda: small() * x + small()])()


def respelt(item):
    return write(rewritten(item, [expand, radsimp, lambda v: v]))


def bracketed(items, open, close, spread=None):
    sized = rng.random() < 0.3
    space = rng.choice([" ", "", "\\, "]) if spread is None else spread
    left, right = ("\\left" + open, "\\right" + close) if sized else (open, close)
    return f"{left}{(',' + space).join(items)}{right}"


def tuples(same):
    items = [value() for _ in range(rng.randint(2, 4))]
    others = list(items)
    if not same:
        where = rng.randrange(len(items))
        if rng.random() < 0.4:
            others.reverse()
        else:
            others[where] = changed(others[where])
    return bracketed(map(write, items), "(", ")"), bracketed(map(respelt, others), "(", ")"), together_equal(items, others)


def together_equal(items, others):
    verdicts = [equal(S(first), S(second)) for first, second in zip(items, others)]
    return False if False in verdicts or len(items) != len(others) else None if None in verdicts else True


def as_sets(items, others):
    """Every item of one is among the others, and the reverse."""
    inside = lambda item, many: any(equal(item, other) for other in many)
    return all(inside(item, others) for item in items) and all(inside(other, items) for other in others)


def sets(same):
    items = list(dict.fromkeys(value() for _ in range(rng.randint(2, 5))))
    others = rng.sample(items, len(items))
    if not same:
        where = rng.randrange(len(items))
        others = rng.choice([others[:-1], others + [small(10, 20)], [*others[:where], changed(others[where]), *others[where + 1:]]]) or [Integer(77)]
    elif rng.random() < 0.2:
        others.append(rng.choice(others))
    return bracketed(map(write, items), "\\{", "\\}"), bracketed(map(respelt, others), "\\{", "\\}"), as_sets(items, others)


def lists(same):
    items = list(dict.fromkeys(value() for _ in range(rng.randint(2, 5))))
    others = rng.sample(items, len(items))
    if not same:
        where = rng.randrange(len(items))
        others = rng.choice([others[:-1], others + [small(10, 20)], [*others[:where], changed(others[where]), *others[where + 1:]]]) or [Integer(77)]
    # A comma between two groups of digits may also be a thousands mark, so a space follows it.
    join = lambda texts: rng.choice([", ".join(texts), (", ".join(texts[:-1]) + rng.choice([" and ", " \\text{ and } ", ", and ", " or "]) + texts[-1]) if len(texts) > 1 else texts[0], "; ".join(texts)])
    return join([write(item) for item in items]), join([respelt(item) for item in others]), as_sets(items, others) and len(items) == len(others)


def end():
    return rng.choice([lambda: small(-9, 9, ()), ratio, lambda: sqrt(rng.choice([2, 3, 5])) * small(), lambda: pi * ratio(3, 4)])()


def interval():
    low, high = end(), end()
    while not N(high - low) > 0.1:
        low, high = end(), end()
    kind = rng.random()
    if kind < 0.15:
        return Interval(-oo, high, True, rng.random() < 0.5)
    if kind < 0.3:
        return Interval(low, oo, rng.random() < 0.5, True)
    return Interval(low, high, rng.random() < 0.5, rng.random() < 0.5)


def interval_text(part, style=write):
    if isinstance(part, FiniteSet):
        return bracketed(map(style, part), "\\{", "\\}")
    infinite = lambda e: {oo: rng.choice(["\\infty", "\\infty", "+\\infty", "∞"]), -oo: rng.choice(["-\\infty", "-∞"])}.get(e)
    ends = [infinite(e) or style(e) for e in (part.start, part.end)]
    return bracketed(ends, "(" if part.left_open else "[", ")" if part.right_open else "]")


def near_interval(part):
    low, high = part.start, part.end
    ways = [lambda: Interval(low, high, not part.left_open, part.right_open), lambda: Interval(low, high, part.left_open, not part.right_open)]
    if low.is_finite:
        ways.append(lambda: Interval(low - Rational(1, 2), high, part.left_open, part.right_open))
    if high.is_finite:
        ways.append(lambda: Interval(low, high + 1, part.left_open, part.right_open))
    return rng.choice(ways)()


def intervals(same):
    gold = interval()
    answer = gold if same else near_interval(gold)
    return interval_text(gold), interval_text(answer, respelt), gold == answer


def inequality(part, name):
    """A condition on one variable; or None when there is none."""
    signs = {"<": ["<", "<", "\\lt "], "≤": ["\\le ", "\\leq ", "\\leqslant ", "<=", "≤"]}
    left = rng.choice(signs["<" if part.left_open else "≤"])
    right = rng.choice(signs["<" if part.right_open else "≤"])
    turn = {"<": ">", "\\lt ": "\\gt ", "\\le ": "\\ge ", "\\leq ": "\\geq ", "\\leqslant ": "\\geqslant ", "<=": ">=", "≤": "≥"}
    if part.start == -oo and part.end == oo:
        return None
    if part.start == -oo:
        return rng.choice([f"{name} {right}{write(part.end)}", f"{write(part.end)} {turn[right]}{name}"])
    if part.end == oo:
        return rng.choice([f"{name} {turn[left]}{write(part.start)}", f"{write(part.start)} {left}{name}"])
    low, high = write(part.start), write(part.end)
    return rng.choice([f"{low} {left}{name} {right}{high}", f"{high} {turn[right]}{name} {turn[left]}{low}"])


def inequalities(same):
    gold = interval()
    answer = gold if same else near_interval(gold)
    name = rng.choice("xytk")
    condition = inequality(answer, name)
    if condition is None:
        return None
    text = rng.choice([condition, condition, f"\\{{{name} \\mid {condition}\\}}", f"\\{{ {name} : {condition} \\}}", f"{name} \\in {interval_text(answer)}"])
    return rng.choice([interval_text(gold), inequality(gold, name) or interval_text(gold)]), text, gold == answer


def unions(same):
    parts = [interval() for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.25:
        parts.append(FiniteSet(end()))
    gold = Union(*parts)
    if gold.is_Interval and gold.end == oo and gold.start == -oo:
        return None
    pieces = list(gold.args) if isinstance(gold, Union) else [gold]
    shown = []
    for piece in pieces:
        if isinstance(piece, Interval) and piece.start.is_finite and piece.end.is_finite and rng.random() < 0.5:
            middle = (piece.start + piece.end) / 2
            shown += rng.choice([
                [Interval(piece.start, middle, piece.left_open, True), Interval(middle, piece.end, False, piece.right_open)],
                [Interval(piece.start, middle + (piece.end - middle) / 2, piece.left_open, True), Interval(middle, piece.end, True, piece.right_open)],
            ])
        else:
            shown.append(piece)
    rng.shuffle(shown)
    if not same:
        where = rng.randrange(len(shown))
        if isinstance(shown[where], Interval):
            shown[where] = near_interval(shown[where])
        else:
            shown[where] = FiniteSet(*[item + 1 for item in shown[where]])
    answer = Union(*shown)
    return " \\cup ".join(map(interval_text, parts)), rng.choice([" \\cup ", "∪"]).join(interval_text(part) for part in shown), gold == answer


def matrices(same):
    rows, columns = rng.choice([(2, 2), (2, 1), (3, 1), (2, 3), (3, 3), (1, 3)])
    cells = [[value() if rng.random() < 0.4 else small(-9, 9, ()) for _ in range(columns)] for _ in range(rows)]
    others = [list(row) for row in cells]
    if not same:
        if rows == columns and rng.random() < 0.4:
            others = [list(row) for row in zip(*others)]
        else:
            row, column = rng.randrange(rows), rng.randrange(columns)
            others[row][column] = changed(S(others[row][column]))

    def text(table, style):
        body = rng.choice([" \\\\ ", "\\\\"]).join(rng.choice(["&", " & "]).join(style(S(cell)) for cell in row) for row in table)
        name = rng.choice(["pmatrix", "bmatrix", "pmatrix", "array"])
        if name == "array":
            return f"\\left[\\begin{{array}}{{{'c' * columns}}}{body}\\end{{array}}\\right]"
        return f"\\begin{{{name}}}{body}\\end{{{name}}}"

    flat = lambda table: [S(cell) for row in table for cell in row]
    return text(cells, write), text(others, respelt), together_equal(flat(cells), flat(others))


def equations(same):
    """Equal means: one is a constant multiple of the other; y² = 0 and y = 0 are not made."""
    left, right = polynomial([x, y]), rng.choice([Integer(0), small(), small() * x + small(), y**2])
    difference = expand(left - right)
    if not difference.free_symbols or difference.is_number:
        return None
    scale = rng.choice([1, -1, 2, 3, Rational(1, 2), -4])
    moved = rng.choice([0, small(), small() * y, left])
    new = difference if same else changed(difference)
    new_left = rewritten(scale * left - moved, [expand, factor, lambda v: v]) if same else expand(scale * new) - moved
    new_right = expand(new_left - scale * new)
    quotient = cancel(expand(new_left - new_right) / difference)
    verdict = bool(quotient.is_number and quotient != 0)
    once = lambda value: Mul(*[base for base, _ in factor_list(value)[1]])
    if not verdict and cancel(once(expand(new_left - new_right)) / once(difference)).is_number:
        return None
    return f"{write(left)} = {write(S(right))}", f"{write(S(new_left))} = {write(S(new_right))}", verdict


def solved(same):
    """A solved equation against its value."""
    name, value_ = rng.choice("xyabkm"), value()
    other = value_ if same else changed(S(value_))
    if Symbol(name, real=True) in value_.free_symbols:
        return None
    gold, answer = f"{name} = {write(value_)}", rng.choice([f"{name} = {respelt(other)}", respelt(other), f"{respelt(other)} = {name}"])
    return (*rng.choice([(gold, answer), (answer, gold)]), equal(S(value_), S(other)))


def plus_minus(same):
    middle, spread = rng.choice([Integer(0), small(), ratio()]), rng.choice([small(1, 9), sqrt(rng.randint(2, 20)) * small(1, 4), ratio(9, 5) ** 2])
    sign, bottom = rng.choice(["\\pm ", "\\pm", "±"]), rng.choice([1, 1, 2, 3])
    writer = Writer(True)
    writer.slash = False
    head = "" if middle == 0 else writer(middle) + " "
    inner = f"{head}{sign}{writer.product(spread)}"
    gold = inner if bottom == 1 else f"\\frac{{{inner}}}{{{bottom}}}"
    values = [(middle + spread) / bottom, (middle - spread) / bottom]
    others = values if same else rng.choice([[values[0]], [values[0], -values[1] + 1], [values[0] + 1, values[1] + 1], values + [Integer(50)]])
    answer = rng.choice([", ", " \\text{ or } ", " and "]).join(respelt(S(other)) for other in rng.sample(others, len(others)))
    if rng.random() < 0.2 and same:
        answer = f"\\{{{', '.join(map(respelt, others))}\\}}"
    return rng.choice(["x = ", ""]) + gold, answer, as_sets(values, others) and len(values) == len(others)


KINDS = {
    "integer": integers,
    "decimal": decimals,
    "fraction": fractions,
    "mixed number": mixed,
    "percent": percents,
    "scientific": scientific,
    "repeating": repeating,
    "base": bases,
    "surd": scalar(surd, [radsimp, expand, together, factor, unexpanded_root, nsimplify]),
    "nested surd": scalar(nested, [sqrtdenest, radsimp, expand, lambda v: sqrtdenest(expand(v))]),
    "pi and e": scalar(constant, [expand, together, factor, cancel, unexpanded_root]),
    "logarithm": logarithms,
    "logarithm to a base": logs_to_a_base,
    "trigonometry": trigonometry,
    "inverse trigonometry": inverse_trigonometry,
    "complex": scalar(complexes, [expand, real_and_imaginary, radsimp, together]),
    "polynomial": scalar(lambda: polynomial([x, y, z]), [expand, factor, together, lambda v: v.as_independent(x)[0] + v.as_independent(x)[1] if v.is_Add else v]),
    "rational function": scalar(rational_function, [expand, factor, together, cancel, lambda v: apart(v, x)]),
    "exponential": scalar(exponential, [expand, powsimp, factor, together, lambda v: powsimp(expand(v))]),
    "factorial and binomial": combinatorics,
    "absolute value": absolute,
    "floor and ceiling": floors,
    "radical": scalar(radicals, [radsimp, expand, together, powsimp, factor]),
    "identity": scalar(identity, [expand_trig, expand, factor, lambda v: expand_log(v, force=True), lambda v: v.trigsimp()]),
    "tuple": tuples,
    "set": sets,
    "list": lists,
    "interval": intervals,
    "inequality": inequalities,
    "union": unions,
    "matrix": matrices,
    "equation": equations,
    "solved equation": solved,
    "plus-minus": plus_minus,
}


def main():
    for kind, make in KINDS.items():
        seen, tries = set(), 0
        while len(seen) < PAIRS_PER_KIND and tries < 40 * PAIRS_PER_KIND:
            tries += 1
            same = len(seen) % 2 == 0
            try:
                pair = make(same)
            except ValueError:
                continue
            # A change that changed nothing, or a rewriting that SymPy cannot confirm, is drawn again.
            if pair is None or pair[2] is not same or len(pair[0]) + len(pair[1]) > 150 or pair[:2] in seen or pair[0] == pair[1]:
                continue
            seen.add(pair[:2])
            print(json.dumps({"gold": pair[0], "answer": pair[1], "equal": pair[2], "kind": kind}, ensure_ascii=False))
        print(f"{kind}: {len(seen)} of {tries} tries", file=sys.stderr)


if __name__ == "__main__":
    main()
