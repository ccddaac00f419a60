//! Laws: a true equality is never wrong, a false one always is, and no text panics.

use gradus_grade::checks::{Context, Verdict, check, check_in, prove};
use proptest::prelude::*;

/// Arithmetic with its value as a fraction.
#[derive(Debug, Clone)]
struct Sample {
    text: String,
    top: i128,
    bottom: i128,
    /// The value where fractions are whole quotients.
    whole: i128,
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs().max(1) } else { gcd(b, a % b) }
}

fn sample(text: String, top: i128, bottom: i128) -> Sample {
    let shared = gcd(top, bottom);
    Sample { text, top: top / shared, bottom: bottom / shared, whole: top / bottom }
}

fn leaf() -> impl Strategy<Value = Sample> {
    prop_oneof![
        (1i128..200).prop_map(|n| sample(n.to_string(), n, 1)),
        (1i128..30, 1i128..30).prop_map(|(a, b)| sample(format!("\\frac{{{a}}}{{{b}}}"), a, b)),
        (1_000i128..9_999).prop_map(|n| sample(format!("{},{:03}", n / 1_000, n % 1_000), n, 1)),
        (1i128..12, 2u32..4).prop_map(|(a, n)| sample(format!("{a}^{n}"), a.pow(n), 1)),
        (1i128..40).prop_map(|a| sample(format!("\\sqrt{{{}}}", a * a), a, 1)),
    ]
}

/// Nested sums, differences and products, always in brackets, so that there is one reading of what belongs together.
fn arithmetic() -> impl Strategy<Value = Sample> {
    leaf().prop_recursive(2, 8, 2, |inner| {
        (inner.clone(), inner, 0..3).prop_map(|(a, b, operator)| {
            let (sign, top, bottom, whole) = match operator {
                0 => ("+", a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom, a.whole + b.whole),
                1 => ("-", a.top * b.bottom - b.top * a.bottom, a.bottom * b.bottom, a.whole - b.whole),
                _ => ("\\times", a.top * b.top, a.bottom * b.bottom, a.whole * b.whole),
            };
            Sample { whole, ..sample(format!("({} {sign} {})", a.text, b.text), top, bottom) }
        })
    })
}

fn written(top: i128, bottom: i128) -> String {
    let sign = if (top < 0) == (bottom < 0) { "" } else { "-" };
    match (top.abs(), bottom.abs()) {
        (top, 1) => format!("{sign}{top}"),
        (top, bottom) => format!("{sign}\\frac{{{top}}}{{{bottom}}}"),
    }
}

fn verdicts(text: &str) -> Vec<Verdict> {
    check(text).into_iter().map(|check| check.verdict).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn true_equalities_are_right(a in arithmetic(), b in leaf()) {
        let value = written(a.top, a.bottom);
        let sum = format!("{} + {}", a.text, b.text);
        let total = written(a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom);
        let reduced = sample(String::new(), a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom);
        for text in [
            format!("{sum} = {}", written(reduced.top, reduced.bottom)),
            format!("so ${sum} = {total}$ in all"),
            format!("${} + 0 = {value}$.", a.text),
        ] {
            prop_assert_eq!(verdicts(&text), [Verdict::Right], "{}", text);
        }
    }

    #[test]
    fn false_equalities_are_wrong(a in arithmetic(), b in leaf(), off in 2i128..50) {
        // A difference of two or more is no rounding to a whole number; brackets leave one reading.
        let top = a.top * b.bottom + b.top * a.bottom + off * a.bottom * b.bottom;
        let wrong = sample(String::new(), top, a.bottom * b.bottom);
        // Whole thousands may be rounded, and fractions be whole quotients.
        prop_assume!(wrong.bottom != 1 || (wrong.top % 1_000 != 0 && wrong.top != a.whole + b.whole));
        let text = format!("We find ${} + {} = {}$.", a.text, b.text, written(wrong.top, wrong.bottom));
        let found = check(&text);
        prop_assert_eq!(found.len(), 1, "{}", &text);
        prop_assert_eq!(found[0].verdict, Verdict::Wrong, "{}", &text);
        prop_assert!(found[0].proof.is_some());
    }

    #[test]
    fn the_last_digit_of_a_large_number_counts(a in 1i128..1_000_000_000, b in 1i128..1_000_000_000, off in 1i128..5) {
        prop_assume!((a * b + off) % 1_000 != 0);
        let (right, wrong) = (format!("{a} \\times {b} = {}", a * b), format!("{a} \\times {b} = {}", a * b + off));
        prop_assert_eq!(verdicts(&right), [Verdict::Right], "{}", &right);
        prop_assert_eq!(verdicts(&wrong), [Verdict::Wrong], "{}", &wrong);
    }

    #[test]
    fn roundings_are_never_wrong(top in 1i64..100_000, bottom in 1i64..1_000, places in 0usize..6) {
        let value = top as f64 / bottom as f64;
        let text = format!("{top}/{bottom} = {value:.places$} and {top} / {bottom} ≈ {value:.places$}");
        prop_assert!(!verdicts(&text).contains(&Verdict::Wrong), "{}", text);
    }

    #[test]
    fn no_text_panics(text in "[0-9a-dx .,=+*/^(){}\\\\$%!&<>≈×√½\n-]{0,60}") {
        for found in check_in(&text, &Context::of(&text)) {
            prop_assert_eq!(&text[found.span.start..][..found.left.len()], found.left);
            prop_assert_eq!(found.verdict == Verdict::Wrong, found.proof.is_some());
        }
    }

    #[test]
    fn any_text_at_all(text in ".{0,80}") {
        check(&text);
        prove(&text, &[text.clone(), "2 + 2 = 5".to_owned()]);
    }
}
