//! The table in `cases.txt`: each line's equalities have the verdicts that stand before it.

use gradus_grade::checks::{Verdict, check};

const CASES: &str = include_str!("cases.txt");

/// The verdicts of a text as the table writes them.
fn marks(text: &str) -> String {
    let mark = |verdict| match verdict {
        Verdict::Right => '+',
        Verdict::Wrong => '-',
        Verdict::Undecided => '?',
    };
    let found: String = check(text).into_iter().map(|check| mark(check.verdict)).collect();
    if found.is_empty() { ".".to_owned() } else { found }
}

#[test]
fn every_line_of_the_table_has_its_verdicts() {
    let mut lines = 0;
    let mut faults = Vec::new();
    for (number, line) in CASES.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (expected, text) = line.split_once(" | ").expect("marks, a bar and a step");
        let found = marks(&text.replace('⏎', "\n"));
        lines += 1;
        if found != expected {
            faults.push(format!("line {}: `{text}` is {found}, not {expected}", number + 1));
        }
    }
    assert!(lines >= 150, "{lines} lines");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_proof_says_what_the_sides_are() {
    let proof = |text: &str| check(text).into_iter().find_map(|check| check.proof).unwrap_or_default();
    for (text, expected) in [
        ("48/2 = 26", "48/2 = 24, not 26"),
        ("$7 \\times 8 = 54$", "7 \\times 8 = 56, not 54"),
        ("1 + 1 = 3 + 4", "1 + 1 = 2, but 3 + 4 = 7"),
        ("so 15 = 2 * 8", "2 * 8 = 16, not 15"),
        (
            "\\frac{1}{2} + \\frac{1}{3} = \\frac{2}{5}",
            "\\frac{1}{2} + \\frac{1}{3} = 5/6, but \\frac{2}{5} = 0.4",
        ),
        ("7 ÷ 2 = 4.5", "7 ÷ 2 = 3.5, not 4.5"),
        ("\\sqrt{12} = 3\\sqrt{2}", "\\sqrt{12} ≈ 3.4641, but 3\\sqrt{2} ≈ 4.2426"),
        ("5 - 8.25 = 3.25", "5 - 8.25 = -3.25, not 3.25"),
        ("2^{200} = 5", "2^{200} ≈ 1.606938e60, not 5"),
    ] {
        assert_eq!(proof(text), expected, "{text}");
    }
}

#[test]
fn spans_are_where_the_equality_is() {
    let text = "Ünd so: 3 + 4 = 8. And <<48/2=26>>26; $2 \\cdot 2 = 5$.";
    let found: Vec<_> =
        check(text).into_iter().map(|check| (text[check.span].to_owned(), check.left, check.right)).collect();
    let expected = [
        ("3 + 4 = 8".to_owned(), "3 + 4", "8"),
        ("48/2=26".to_owned(), "48/2", "26"),
        ("2 \\cdot 2 = 5".to_owned(), "2 \\cdot 2", "5"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_text_takes_time_in_proportion_to_its_length() {
    let started = std::time::Instant::now();
    let hostile = [
        "(".repeat(40_000) + "1 = 2",
        "1 = 2".to_owned() + &")".repeat(40_000),
        "9^".repeat(20_000) + "9 = 1",
        "9^{9^{9^{9^{9}}}} = 1 ".repeat(200),
        "9!!!! = 3! ".repeat(2_000),
        "1+".repeat(20_000) + "1 = 3",
        "1=".repeat(40_000),
        "1/3+1/7*".repeat(5_000) + "1 = 3",
        "9".repeat(100_000) + " + 1 = 3",
        "\\frac{".repeat(10_000) + "1 = 2",
        "\\sqrt{2}+\\sqrt{3} = 5 ".repeat(200),
        "100000! / 99999! = 3 ".repeat(200),
        "<<".repeat(20_000) + "1=2>>",
        "\n".repeat(40_000) + "&= 3 + 4",
        "2+2=5 mod 3 base ".repeat(400),
    ];
    for text in &hostile {
        check(text);
    }
    assert!(started.elapsed().as_secs() < 60, "took {:?}", started.elapsed());
}
