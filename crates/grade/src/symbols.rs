//! How symbols, functions and letters are spelt in LaTeX and Unicode.

use super::expr::Relation;
use super::lex::Token;

/// Commands without meaning for the value.
pub(super) const IGNORED: [&str; 34] = [
    "left", "right", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "biggl", "biggr",
    "displaystyle", "textstyle", "scriptstyle", "limits", "nolimits", "quad", "qquad", "thinspace",
    "enspace", "hfill", "rm", "bf", "it", "cal", "mathstrut", "strut", "noindent", "boldsymbol", "mathop",
    "ensuremath", "medspace", "par",
];
/// Commands whose argument is words.
pub(super) const TEXT: [&str; 11] = [
    "text", "textbf", "textit", "textrm", "textsf", "texttt", "mbox", "hbox", "mathrm", "operatorname",
    "textnormal",
];
/// Commands that change the look of a letter.
pub(super) const FONT: [&str; 7] = ["mathbf", "mathit", "mathbb", "mathcal", "mathsf", "bm", "mathfrak"];

pub(super) fn relation(rest: &str) -> (Relation, usize) {
    for (spelling, relation) in [
        ("<=", Relation::LessEqual),
        (">=", Relation::GreaterEqual),
        ("==", Relation::Equal),
        ("<", Relation::Less),
        (">", Relation::Greater),
        ("=", Relation::Equal),
        ("≤", Relation::LessEqual),
        ("⩽", Relation::LessEqual),
        ("≥", Relation::GreaterEqual),
        ("⩾", Relation::GreaterEqual),
        ("≈", Relation::Equal),
    ] {
        if rest.starts_with(spelling) {
            return (relation, spelling.len());
        }
    }
    (Relation::NotEqual, "≠".len())
}

/// Function names that may be written without a backslash.
pub(super) const FUNCTIONS: [&str; 26] = [
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "ln", "log", "lg", "exp", "sqrt", "abs", "floor", "ceil", "binom", "cbrt", "ctg",
];

/// `xsinx` as `x`, `sin`, `x`: functions and the letters x and y run together, as no English word is.
pub(super) fn split_calls(word: &str) -> Option<Vec<&str>> {
    if word.len() < 3 || FUNCTIONS.contains(&word) {
        return None;
    }
    let mut parts = Vec::new();
    let mut rest = word;
    while !rest.is_empty() {
        let function = FUNCTIONS.iter().filter(|name| rest.starts_with(**name)).map(|name| name.len()).max();
        let length = function.or_else(|| rest.starts_with(['x', 'y']).then_some(1))?;
        parts.push(&rest[..length]);
        rest = &rest[length..];
    }
    parts.iter().any(|part| part.len() > 1).then_some(parts)
}

pub(super) fn symbol_command(name: &str) -> Option<Token> {
    Some(match name {
        "cdot" | "ast" | "bullet" => Token::Symbol('*'),
        "times" => Token::Symbol('×'),
        "div" => Token::Symbol('/'),
        "pm" => Token::Symbol('±'),
        "mp" => Token::Symbol('∓'),
        "le" | "leq" | "leqslant" | "leqq" => Token::Relation(Relation::LessEqual),
        "ge" | "geq" | "geqslant" | "geqq" => Token::Relation(Relation::GreaterEqual),
        "lt" => Token::Relation(Relation::Less),
        "gt" => Token::Relation(Relation::Greater),
        "ne" | "neq" => Token::Relation(Relation::NotEqual),
        "approx" | "equiv" | "simeq" | "cong" => Token::Relation(Relation::Equal),
        "infty" => Token::Symbol('∞'),
        "euro" => Token::Text("€".into()),
        "pounds" => Token::Text("£".into()),
        "cents" | "textcent" => Token::Text("¢".into()),
        "cup" => Token::Symbol('∪'),
        "cap" => Token::Symbol('∩'),
        "in" => Token::Symbol('∈'),
        "lbrace" => Token::SetOpen,
        "rbrace" => Token::SetClose,
        "langle" => Token::Symbol('('),
        "rangle" => Token::Symbol(')'),
        "lvert" | "rvert" | "vert" | "mid" => Token::Symbol('|'),
        "lbrack" => Token::Symbol('['),
        "rbrack" => Token::Symbol(']'),
        "circ" | "degree" => Token::Symbol('°'),
        "prime" => Token::Symbol('\''),
        "colon" => Token::Symbol(':'),
        "land" | "wedge" => Token::Word("and".into()),
        "lor" | "vee" => Token::Word("or".into()),
        "percent" => Token::Symbol('%'),
        _ => return None,
    })
}

pub(super) fn superscript(c: char) -> Option<char> {
    Some(match c {
        '⁰' => '0',
        '¹' => '1',
        '²' => '2',
        '³' => '3',
        '⁴'..='⁹' => char::from_digit(c as u32 - '⁰' as u32, 10)?,
        '⁻' => '-',
        'ⁿ' => 'n',
        _ => return None,
    })
}

pub(super) fn subscript(c: char) -> Option<char> {
    if ('₀'..='₉').contains(&c) { char::from_digit(c as u32 - '₀' as u32, 10) } else { None }
}

pub(super) fn unicode(c: char) -> Option<Token> {
    Some(match c {
        '·' | '⋅' | '∗' | '∙' => Token::Symbol('*'),
        '×' => Token::Symbol('×'),
        '÷' | '∕' | '⁄' => Token::Symbol('/'),
        '−' | '–' | '—' | '‐' => Token::Symbol('-'),
        '±' | '∓' | '∪' | '∩' | '∈' | '∞' | '°' | '√' => Token::Symbol(c),
        '’' | '′' => Token::Symbol('\''),
        '，' | '、' => Token::Symbol(','),
        '（' => Token::Symbol('('),
        '）' => Token::Symbol(')'),
        '：' => Token::Symbol(':'),
        '％' => Token::Symbol('%'),
        'π' => Token::Command("pi".into()),
        '€' | '£' | '¥' | '₹' | '¢' => Token::Text(c.to_string()),
        '。' => Token::Text(String::new()),
        '∅' => Token::Command("emptyset".into()),
        'ℝ' => Token::Command("reals".into()),
        'ℤ' => Token::Command("integers".into()),
        'ℕ' => Token::Command("naturals".into()),
        'ℚ' => Token::Command("rationals".into()),
        'ℂ' => Token::Command("complexes".into()),
        '∑' => Token::Command("sum".into()),
        '∏' => Token::Command("prod".into()),
        c if GREEK_LETTERS.contains(c) => {
            let index = GREEK_LETTERS.chars().position(|letter| letter == c)?;
            Token::Command(GREEK[index].into())
        }
        c if c.is_alphabetic() => Token::Text(c.to_string()),
        _ => return None,
    })
}

/// The first letters of [`GREEK`].
pub(super) const GREEK_LETTERS: &str = "αβγδεζηθικλμνξρστυφχψωΓΔΘΛΞΣΥΦΨΩ";

/// Commands that are letters.
pub(super) const GREEK: [&str; 42] = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu",
    "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "Gamma", "Delta", "Theta",
    "Lambda", "Xi", "Sigma", "Upsilon", "Phi", "Psi", "Omega", "hbar", "ell", "imath", "jmath", "partial",
    "nabla", "triangle", "angle", "heartsuit", "star",
];
