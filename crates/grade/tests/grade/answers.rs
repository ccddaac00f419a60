//! The grader: what is equal, what is not, what stays open; laws; bounded work; agreement on real data.

use gradus_grade::{Found, Reason, Verdict, compare, extract, grade};
use proptest::prelude::*;

const EQUAL: &[(&str, &str)] = &[
    // Whole numbers, decimals, thousands.
    ("42", "42.0"),
    ("42", "$42$."),
    ("1000", "1,000"),
    ("1,000,000", "1{,}000{,}000"),
    ("11,\\! 111", "11111"),
    ("-3", "−3"),
    (".5", "0.50"),
    ("27, 54, 108", "27,54,108"),
    ("100,200,300", "100, 200, 300"),
    // Fractions, mixed numbers, repeating decimals.
    (r"\frac{1}{2}", "0.5"),
    (r"\frac12", "1/2"),
    (r"\dfrac{3}{4}", r"\frac34"),
    (r"3\frac{1}{2}", "3.5"),
    ("3 1/2", "7/2"),
    (r"-\frac{2}{3}", r"\frac{-2}{3}"),
    (r"0.\overline{36}", r"\frac{4}{11}"),
    ("0.333333", r"\frac{1}{3}"),
    // Percent, units, currency.
    (r"50\%", "50"),
    (r"50\%", "0.5"),
    ("50 percent", r"50\%"),
    ("25", r"25\text{ ft}"),
    (r"15\mbox{ cm}^2", r"15 \text{ cm}^2"),
    ("1 meter", "100 cm"),
    ("$3.25", r"\$3.25"),
    (r"3.25\text{ dollars}", "325 cents"),
    ("70 miles per hour", "70"),
    ("55 m/s", "55"),
    ("12", "12th"),
    ("12", r"12^{\text{th}}"),
    // Scientific notation.
    (r"1.5 \times 10^{4}", "15000"),
    ("2.45e6", "2450000"),
    ("3.3e-10", r"3.3 \cdot 10^{-10}"),
    // Surds, π, e.
    (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
    (r"\sqrt{12}", r"2\sqrt3"),
    (r"\sqrt{6}", r"\sqrt{2}\sqrt{3}"),
    (r"\frac{1}{1+\sqrt{2}}", r"\sqrt{2}-1"),
    (r"\sqrt{3+2\sqrt{2}}", r"1+\sqrt{2}"),
    (r"\frac{8}{\sqrt[3]{7}}", r"\frac{8\sqrt[3]{49}}{7}"),
    ("2^{-2/3}", r"\frac{1}{\sqrt[3]{4}}"),
    (r"\frac{\pi}{4}", "π/4"),
    (r"\frac{4}{3}\pi", r"\frac{4\pi}{3}"),
    (r"\cos 60^\circ", "1/2"),
    (r"\sin\frac{\pi}{6}", "0.5"),
    (r"\log_2 8", "3"),
    (r"\frac{\ln 8}{\ln 2}", "3"),
    (r"\ln \left(e^{5}\right)", "5"),
    (r"\binom{10}{3}", "120"),
    ("5!", "120"),
    ("1.4142135624", r"\sqrt{2}"),
    (r"\cos(e^{\ln 1})", r"\cos 1"),
    (r"\cot(\exp 0)", r"\frac{1}{\tan 1}"),
    // Complex numbers.
    (r"\frac{1}{5} + \frac{3}{5}i", r"\frac{1+3i}{5}"),
    ("(1+i)^2", "2i"),
    (r"1+\sqrt{3} i", r"2e^{i\pi/3}"),
    // Algebra.
    ("2x(15x^2-4x+10)", "30x^3-8x^2+20x"),
    ("(a + b)(a + c)(b + c)", "(b+a)(c+b)(a+c)"),
    (r"\frac{x^2-1}{x-1}", "x+1"),
    (r"\frac{n(n+1)}{2}", r"\frac{n^2+n}{2}"),
    (r"\sin^2 t", r"1-\cos^2 t"),
    ("x^{-1}", r"\frac{1}{x}"),
    ("2^{2n}", "4^n"),
    ("e^{-2t}", r"\frac{1}{e^{2t}}"),
    (r"\frac{100!}{2^{50}}", r"\frac{100!}{4^{25}}"),
    (r"\frac{d!}{(d-k)!\,k!}", r"\binom{d}{k}"),
    ("x²+1", "x^2+1"),
    // Intervals, unions, inequalities.
    (r"(-\infty,-8)\cup (8,\infty)", r"(8,\infty) \cup (-\infty,-8)"),
    ("(-2, 3]", r"-2 < x \le 3"),
    (r"[1,\infty)", r"x \geq 1"),
    (r"\{x|-2\leq x < 1\}", "[-2,1)"),
    (r"(-\infty, 1)\cup(1, \infty)", r"x \neq 1"),
    ("(1,2)\\cup[2,3)", "(1,3)"),
    ("x<-8 or x>8", r"(-\infty,-8)\cup(8,\infty)"),
    (r"x \in (0, 1)", "(0,1)"),
    ("f(2) < f(1) < f(4)", "f(4) > f(1) > f(2)"),
    // Tuples, sets, lists, matrices, ratios.
    (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)"),
    ("(3,4)", "x = 3, y = 4"),
    ("1,-2", "-2, 1"),
    ("1,2", "1 and 2"),
    (r"\{1,2,3\}", r"\{3, 2, 1\}"),
    (r"\{-2\}", "-2"),
    (r"\begin{pmatrix} 2 \\ 3 \end{pmatrix}", r"\begin{bmatrix} 2 \\ 6/2 \end{bmatrix}"),
    (r"\begin{pmatrix} 2 \\ 3 \end{pmatrix}", "(2, 3)"),
    (r"\left[\begin{array}{cc}1 & 0\\0 & 1\end{array}\right]", r"\begin{pmatrix}1&0\\0&1\end{pmatrix}"),
    ("2:4", "1:2"),
    ("3:4", r"\frac{3}{4}"),
    // Equations, ±.
    ("x = 5", "5"),
    ("k=15", "15"),
    ("y = 2x + 3", "2x - y + 3 = 0"),
    ("x^{2}-4 x-2=0", "2x^2 = 8x + 4"),
    ("f(x)=2x", "2x"),
    (r"6 \times 3 = 18", "18"),
    (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}"),
    (r"x= \pm 2", "-2, 2"),
    // Bases, degrees, time.
    ("4210_{5}", "4210_5"),
    ("2516_8", "2516"),
    ("1010_2", "10"),
    (r"106^\circ", "106"),
    (r"45^{\circ}", "45 degrees"),
    (r"\text{1:03 PM}", "1:03 p.m."),
    // Text and choices.
    (r"\text{Monday}", "monday"),
    (r"\text{(C)}", "C"),
    ("(B)", "B"),
    ("even", r"\text{even}"),
    ("The book has 300 pages", "300"),
    ("300", "The book has 300 pages."),
    ("(A) 5", "5"),
    (r"\textbf{(A)}\ 5", "A"),
    (r"\text{no solution}", r"\emptyset"),
    (r"\text{all real numbers}", r"(-\infty,\infty)"),
    (r"x\in\mathbb{R}", r"(-\infty,\infty)"),
    ("seven", "7"),
    (r"\text{I and II}", r"\text{I, II}"),
    // Precedence and notation.
    ("2^-1", "1/2"),
    (r"\frac12x", "x/2"),
    ("x^10", "x^{10}"),
    ("3(1/2)", "1.5"),
    (r"3\left(\frac12\right)", "1.5"),
    (r"\sin x cos x", r"\frac{1}{2}\sin 2x"),
    ("2xsinx", r"2x\sin x"),
    (r"\log_{2}3x", r"\log_2(3x)"),
    (r"-3e+2\pi", r"2\pi-3e"),
    ("θ", r"\theta"),
    ("2theta", r"2\vartheta"),
    (r"\frac{a}{bc}", "a/bc"),
    ("5 x 10^3", "5000"),
    (r"10\,000", "10000"),
    ("1A_{16}", "26"),
    ("3.5 million", "3500000"),
    ("3 to 2", "6:4"),
    // Signs, mixed numbers and units together.
    (r"$-1\frac{1}{2}$", "-1.5"),
    (r"-5\%", "-0.05"),
    (r"-5\%", "-5"),
    (r"33\frac{1}{3}\%", r"\frac{1}{3}"),
    (r"-30^\circ", "-30"),
    (r"60^\circ", r"\frac{\pi}{3}"),
    (r"180^\circ - 2x", "180 - 2x"),
    (r"5^\circ C", "5"),
    ("5 in", "5"),
    ("3 m", "300 cm"),
    (r"\$0.05", "5 cents"),
    ("1 mile", "1609.344 meters"),
    // Roots, absolute values, steps.
    ("(x-5)^{1/3}", r"\sqrt[3]{x-5}"),
    ("(-2)^{1/3}", r"-\sqrt[3]{2}"),
    (r"\sqrt{x^2}", "|x|"),
    ("|x-2|+|x-3|", "|2-x|+|3-x|"),
    (r"\arcsin 1", r"\frac{\pi}{2}"),
    (r"\lfloor 7\pi \rfloor", "21"),
    (r"\lfloor n/2 \rfloor", r"\left\lfloor \frac{n}{2} \right\rfloor"),
    // Names, systems, curves.
    ("(x,y) = (3,4)", "(3,4)"),
    ("(3,4)", "y = 4, x = 3"),
    (r"f^{-1}(x) = \frac{x-1}{2}", r"\frac{x-1}{2}"),
    (r"\angle ABC = 60", "60"),
    ("y = 2/x", "xy = 2"),
    (r"\frac{y-1}{x-2} = 3", "y = 3x-5"),
    (r"\ln y = 2x", "y = e^{2x}"),
    ("x = 3 or x = 4", "3, 4"),
    ("x > 2 and x < 5", "(2,5)"),
    (r"\{1, 2, 2\}", r"\{1, 2\}"),
    (r"\{1,2\}\cup\{3\}", r"\{1,2,3\}"),
];

const DIFFERENT: &[(&str, &str)] = &[
    ("42", "43"),
    ("42", "-42"),
    ("12", "1 2/3"),
    (r"\frac{1}{3}", "0.33"),
    ("3.14", r"\pi"),
    (r"\sqrt{2}", "1.41"),
    (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5}"),
    (r"\sqrt{10000000001}", "100000"),
    ("x+1", "x-1"),
    ("(x+1)^2", "x^2+1"),
    ("|x|", "x"),
    ("(1,2)", "(2,1)"),
    ("(1,2)", "[1,2]"),
    ("(1,2]", "(1,2)"),
    ("1,2", "1,2,3"),
    (r"\{1,2\}", r"\{1,3\}"),
    (r"(-\infty,1)\cup(1,\infty)", r"(-\infty,\infty)"),
    ("3 m", "3 cm"),
    ("1:03 PM", "1:03 AM"),
    ("5", r"\text{impossible}"),
    (r"\text{Monday}", r"\text{Tuesday}"),
    ("x^2-12=0", "0"),
    ("x > 5", "5"),
    ("f(2)", "2"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 2 \\ 1 \end{pmatrix}"),
    ("y = 2x + 3", "y = 2x - 3"),
    ("2:3", "3:2"),
    ("10_2", "10_3"),
    ("i", "-i"),
    (r"\infty", r"-\infty"),
    ("2^{1000000}", "2^{1000001}"),
    ("A", "B"),
    ("(A) 5", "6"),
    ("-x^2", "x^2"),
    (r"3\left(\frac12\right)", "3.5"),
    (r"1\ 2/3", "12/3"),
    ("2theta", "2"),
    ("2sinx", "2"),
    ("ab-cd", "ab/cd"),
    ("xy!", "xy"),
    ("ab", "AB"),
    ("0.000001", "0.0000012"),
    ("0.333334", r"\frac{1}{3}"),
    (r"\sqrt{10^{40}+1}", "10^{20}"),
    ("|x|+x", "2|x|"),
    ("5-3|5x+3|", "-15x-4"),
    ("|x-900|", "900-x"),
    ("3 kg", "3 cm"),
    ("3 feet", "3 meters"),
    (r"5^\circ C", r"5^\circ F"),
    ("x < 5 or x > 2", "(2,5)"),
    ("y = 2/x", "xy = 3"),
    ("x^2 + y^2 = 25", r"y = \sqrt{25-x^2}"),
];

#[test]
fn equal_answers() {
    let wrong: Vec<_> = EQUAL.iter().filter(|(a, b)| compare(a, b) != Verdict::Equal).collect();
    assert!(wrong.is_empty(), "not found equal: {wrong:#?}");
}

#[test]
fn equality_is_symmetric() {
    let wrong: Vec<_> = EQUAL.iter().filter(|(a, b)| compare(b, a) != Verdict::Equal).collect();
    assert!(wrong.is_empty(), "equal one way only: {wrong:#?}");
}

#[test]
fn different_answers() {
    let wrong: Vec<_> = DIFFERENT
        .iter()
        .flat_map(|&(a, b)| [(a, b), (b, a)])
        .filter(|(a, b)| compare(a, b) != Verdict::Different)
        .map(|(a, b)| (a, b, compare(a, b)))
        .collect();
    assert!(wrong.is_empty(), "not found different: {wrong:#?}");
}

#[test]
fn what_cannot_be_told_is_undecided_with_its_reason() {
    for (gold, answer, reason) in [
        ("", "5", Reason::NoGold),
        ("5", " $ ", Reason::NoAnswer),
        ("5", r"\sum_{k=1}^n k", Reason::UnreadableAnswer),
        (r"\int_0^1 f(x)\,dx", "5", Reason::UnreadableGold),
        ("s^2 \\le 8r^2", "r^2 \\ge 2s^2", Reason::Inconclusive),
        // Writers mean different things by these.
        (r"\frac{1}{2x}", "1/2x", Reason::Inconclusive),
        (r"\ln x", r"\log x", Reason::Inconclusive),
        ("2x", "x(2)", Reason::Inconclusive),
        ("3.14", "3,14", Reason::Inconclusive),
        (r"2\cdot e+3", "2e+3", Reason::Inconclusive),
        ("3, -3, 1, -1", r"\pm 1 \pm 2", Reason::Inconclusive),
        ("4, 3", "x = 3, y = 4", Reason::Inconclusive),
        ("5", "x + y = 5", Reason::Inconclusive),
        ("5", "5 men", Reason::Inconclusive),
        ("0, 1", "x(x-1) = 0", Reason::Inconclusive),
        ("x = -1", "(x+1)^2 = 0", Reason::Inconclusive),
        ("n", r"\lfloor n \rfloor", Reason::Inconclusive),
        // Equal for positive x, which only the question says.
        (r"\sqrt{x^2 y}", r"x\sqrt{y}", Reason::Inconclusive),
        // What is left out is not known.
        ("1, 2, 3", "1, 2, 3, ...", Reason::UnreadableAnswer),
        (r"\frac{1}{3}", "0.333...", Reason::UnreadableAnswer),
        ("15", "5!!", Reason::UnreadableAnswer),
        ("25", "twenty-five", Reason::UnreadableAnswer),
    ] {
        assert_eq!(compare(gold, answer), Verdict::Undecided(reason), "{gold} against {answer}");
    }
}

#[test]
fn final_answers_are_found() {
    for (text, answer, found) in [
        (r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}", Found::Boxed),
        (r"first \boxed{3}, later \boxed{4}", "4", Found::Boxed),
        (r"$x = \boxed{2}$ or $\boxed{3}$.", "2, 3", Found::Boxed),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}", Found::Boxed),
        ("48 + 24 = 72\n#### 72", "72", Found::Hashes),
        ("#### Heading\n\nThe answer is 8.", "8", Found::Phrase),
        ("Right.\n\n# Answer\n\n29", "29", Found::Heading),
        ("The answer is: 13520", "13520", Found::Phrase),
        ("The final answer is $x = 3$. I hope it is correct.", "x = 3", Found::Phrase),
        ("Therefore, the correct option is (B).", "(B)", Found::Phrase),
        ("So we choose (D)", "D", Found::Choice),
        (r"1/\sqrt{3}", r"1/\sqrt{3}", Found::Bare),
        (r"x = \frac{\sqrt 3}{3}", r"\frac{\sqrt 3}{3}", Found::Bare),
        ("(-2, 3]", "(-2, 3]", Found::Bare),
        ("48 + 24 = 72", "72", Found::Bare),
        ("2xy + 1", "2xy + 1", Found::Bare),
        ("So 5", "5", Found::LastNumber),
        ("72 clips", "72", Found::LastNumber),
        ("She makes $18 every day.", "18", Found::LastNumber),
        ("He paid \\$1,234.50 in all.", "1,234.50", Found::LastNumber),
        (r"Therefore, they eat \(\frac{13}{15}\) of the pie.", r"\frac{13}{15}", Found::LastNumber),
        ("It falls to -4 degrees", "-4", Found::LastNumber),
        (r#"{"reasoning": "2 + 1 = 3", "answer": "3"}"#, "3", Found::Json),
        (
            "```json\n{\"reasoning\": \"over\nlines\", \"answer\": \"7\"}\n```\n\n1. Read\n2. Add",
            "7",
            Found::Json,
        ),
        ("Answer = Orvale", "Orvale", Found::Phrase),
        ("The answer is 4<|im_end|>\n", "4", Found::Phrase),
        ("48 + 24 = 72\n#### 72<|im_end|>\n<|endoftext|>", "72", Found::Hashes),
        ("It is 7.<｜end▁of▁sentence｜>", "7", Found::LastNumber),
        ("The answer is -2</s></s>", "-2", Found::Phrase),
    ] {
        let got = extract(text).unwrap_or_else(|| panic!("nothing found in {text:?}"));
        assert_eq!((got.answer.as_str(), got.found), (answer, found), "{text:?}");
    }
    assert_eq!(extract("I do not know."), None);
    let cut_off = extract(r"cut off \boxed{12").map(|found| found.answer);
    assert_eq!(cut_off.as_deref(), Some("12"), "an unclosed box may be half an answer");
    let whole = |text: &str| extract(text).map(|found| found.answer);
    assert_eq!(whole(r"\boxed{1} \boxed{2 \boxed{3").as_deref(), Some("1"));
    assert_eq!(whole(r"\boxed{1 \boxed{2} \boxed{3").as_deref(), Some("2"));
    assert_eq!(whole(r"\boxed{1 + \fbox{2}} \boxed{3").as_deref(), Some(r"1 + \fbox{2}"));
    // Looking for the end of each from the start takes minutes.
    assert_eq!(whole(&r"\boxed{".repeat(150_000)), None);
    assert_eq!(whole(&(r"\boxed{7} ".to_owned() + &r"\boxed{".repeat(150_000))).as_deref(), Some("7"));
    assert_eq!(grade("72", "no number").verdict, Verdict::Undecided(Reason::NoAnswer));
}

/// An item that is in doubt must not hide one that has no partner, whichever side it stands on.
#[test]
fn a_doubtful_item_leaves_the_others_different() {
    assert_eq!(compare("1, -2", "-1, 5/0"), Verdict::Different);
    assert_eq!(compare("-1, 5/0", "1, -2"), Verdict::Different);
    assert_eq!(compare("1, 2", "5/0, 1"), Verdict::Undecided(Reason::Inconclusive));
    assert_eq!(compare("5/0, 1", "1, 2"), Verdict::Undecided(Reason::Inconclusive));
}

/// Inputs that hang, overflow the stack of or exhaust other graders.
#[test]
fn work_is_bounded() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let hostile = [
        deep("(", ")"),
        deep("{", "}"),
        deep("\\frac{", "}{2}"),
        deep("\\sqrt{", "}"),
        deep("|", "|"),
        "(".repeat(3_999),
        "-".repeat(3_999) + "1",
        "x!".to_owned() + &"!".repeat(3_900),
        "2^".repeat(1_900) + "2",
        "9".repeat(1_000_000),
        "9^{9^{9^{9}}}".to_owned(),
        "9^{9^{99}}".to_owned(),
        "(x+1)^{100000000000}".to_owned(),
        "100000000000!".to_owned(),
        r"\binom{100000}{50000}".to_owned(),
        "1e999999999".to_owned(),
        r"\sqrt[1000000]{2}".to_owned(),
        r"\sin(10^{400})".to_owned(),
        r"e^{e^{e^{10}}}".to_owned(),
        "1,".repeat(1_900),
        r"\begin{pmatrix}".repeat(200),
        "\\".repeat(4_000),
        "\u{0}\u{fffd}\u{1F600}".repeat(300),
        "1/0".to_owned(),
        "0^{-1}".to_owned(),
        r"\log_1 5".to_owned(),
        format!("5 {}", "m ".repeat(1_500)),
        format!("5 {}", "m^6 ".repeat(900)),
        format!(r"\sum_{{k=1}}^{{400}} {}", r"\sum_{j=1}^{400} j".repeat(9)),
        r"\lfloor x/997 \rfloor + \lfloor x/991 \rfloor + \lfloor x/983 \rfloor".to_owned(),
        "x \\ne 1, ".repeat(350),
        format!(r"\begin{{cases}} {} \end{{cases}}", r"1 & x < 3 \\ ".repeat(180)),
        "x^2 < 4 or ".repeat(300),
        "(".repeat(38) + "x+\\sqrt{2}" + &")^6".repeat(38) + " < 3",
        r"\log_2 0".to_owned(),
        r"\tan 90^\circ".to_owned(),
    ];
    for text in &hostile {
        for other in ["1", "x^2+1", r"\sqrt{2}", text.as_str()] {
            let _ = compare(other, text);
            let _ = compare(text, other);
        }
        let _ = grade("1", text);
        let _ = grade("1", &format!("\\boxed{{{text}}}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_gets_a_verdict(a in ".{0,60}", b in ".{0,60}") {
        let _ = compare(&a, &b);
        let _ = grade(&a, &b);
    }

    #[test]
    fn any_formula_gets_a_verdict(a in formula(), b in formula()) {
        let forth = compare(&a, &b);
        // Which side is unreadable depends on the order, equality does not.
        prop_assert_eq!(forth == Verdict::Equal, compare(&b, &a) == Verdict::Equal, "{} and {}", a, b);
        let itself = compare(&a, &a);
        prop_assert!(itself == Verdict::Equal || itself == Verdict::Undecided(Reason::NoGold), "{}: {:?}", a, itself);
    }

    #[test]
    fn a_fraction_equals_its_multiples(n in -999i64..999, d in 1i64..999, k in 1i64..99) {
        let gold = format!("\\frac{{{n}}}{{{d}}}");
        prop_assert_eq!(compare(&gold, &format!("{}/{}", n * k, d * k)), Verdict::Equal);
        prop_assert_eq!(compare(&gold, &format!("{}/{}", n * k + 1, d * k)), Verdict::Different);
    }

    #[test]
    fn products_equal_their_expansion(a in -20i64..20, b in -20i64..20, c in -20i64..20, d in 1i64..20) {
        let factored = format!("({a}x + {b}y)({c}x - {d})");
        let expanded = format!("{}x^2 + {}xy - {}x - {}y", a * c, b * c, a * d, b * d).replace("+ -", "- ").replace("- -", "+ ");
        prop_assert_eq!(compare(&factored, &expanded), Verdict::Equal, "{} and {}", factored, expanded);
        prop_assert_eq!(compare(&factored, &format!("{expanded} + 1")), Verdict::Different);
    }

    #[test]
    fn square_factors_leave_the_root(k in 1u64..50, n in 2u64..500) {
        let root = format!("\\sqrt{{{}}}", k * k * n);
        prop_assert_eq!(compare(&root, &format!("{k}\\sqrt{{{n}}}")), Verdict::Equal);
        prop_assert_eq!(compare(&root, &format!("{}\\sqrt{{{n}}}", k + 1)), Verdict::Different);
    }

    #[test]
    fn lists_are_equal_in_any_order(mut items in proptest::collection::vec(-99i32..99, 2..8), seed in any::<u64>()) {
        let write = |items: &[i32]| items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let gold = write(&items);
        let turn = seed as usize % items.len();
        items.rotate_left(turn);
        prop_assert_eq!(compare(&gold, &write(&items)), Verdict::Equal);
    }

    #[test]
    fn a_boxed_answer_is_found_as_it_is(answer in "[a-z0-9+*/ ()]{1,20}") {
        prop_assume!(!answer.trim_matches(|c: char| c.is_whitespace() || "*.,;:".contains(c)).is_empty());
        let found = extract(&format!("Thus $\\boxed{{{answer}}}$.")).expect("a box is there");
        prop_assert!(answer.contains(&found.answer));
    }
}

/// Random text over the alphabet of answers: more of it parses than of arbitrary text.
fn formula() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "1",
        "2",
        "10",
        "0.5",
        "x",
        "y",
        "n",
        "\\pi",
        "e",
        "i",
        "+",
        "-",
        "*",
        "/",
        "^",
        "_",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "\\frac{1}{2}",
        "\\sqrt{2}",
        "\\sqrt",
        "\\frac",
        "\\sin",
        "\\ln",
        "\\log",
        "!",
        "%",
        "|",
        "=",
        "<",
        "\\le",
        "\\cup",
        "\\{",
        "\\}",
        "\\infty",
        "\\pm",
        "\\text{ cm}",
        "\\text{and}",
        " ",
        "^\\circ",
        "\\binom",
        "\\lfloor",
        "\\rfloor",
        ":",
        "\\begin{pmatrix}",
        "\\end{pmatrix}",
        "\\\\",
        "&",
        "'",
        "1,000",
        "\\overline{3}",
        "abc",
    ]);
    prop::collection::vec(token, 1..12).prop_map(|tokens| tokens.concat())
}

/// `correct` was made with math-verify, which is not infallible; docs/reference/grading.md goes through every disagreement.
#[test]
fn agrees_with_the_stated_outcomes_of_real_solutions() {
    let Some(data) = gradus_testing::real_data() else { return };
    for (file, solutions, least) in [("math500_n32", 8_064, 8_049), ("gsm8k_n32", 7_584, 7_542)] {
        let path = data.join(format!("best_of_n/{file}.jsonl.gz"));
        let (mut seen, mut agreed) = (0, 0);
        for item in gradus_data::files::open(&[path], None).expect("the file opens") {
            let record = item.expect("every record reads").record;
            let gold = record.problem.answer.as_deref().unwrap_or_default();
            for solution in &record.solutions {
                seen += 1;
                agreed += usize::from(match grade(gold, &solution.full_text()).verdict {
                    Verdict::Equal => solution.outcome.is_correct() == Some(true),
                    Verdict::Different => solution.outcome.is_correct() == Some(false),
                    Verdict::Undecided(_) => false,
                });
            }
        }
        assert_eq!(seen, solutions, "{file}");
        assert!(agreed >= least, "{file}: agrees on {agreed} of {seen}, was {least}");
    }
}

#[test]
fn every_real_gold_answer_equals_itself_and_no_other() {
    let Some(data) = gradus_testing::real_data() else { return };
    for file in [
        "math/test.jsonl",
        "problems/olympiadbench.jsonl",
        "problems/minerva_math.jsonl",
        "problems/college_math.jsonl",
    ] {
        let golds: Vec<String> = gradus_data::files::open(&[data.join(file)], None)
            .expect("the file opens")
            .map(|item| {
                item.expect("every record reads").record.problem.answer.expect("every problem has an answer")
            })
            .collect();
        for (index, gold) in golds.iter().enumerate() {
            assert_eq!(compare(gold, gold), Verdict::Equal, "{file}: {gold}");
            let other = &golds[(index + 1) % golds.len()];
            if compare(gold, other) == Verdict::Equal {
                // Equal by value though written otherwise: `x=9` and `9`. Then equality must hold both ways.
                assert_eq!(compare(other, gold), Verdict::Equal, "{file}: {gold} and {other}");
                assert!(same_core(gold, other), "{file}: {gold} and {other} are not the same");
            }
        }
    }
}

/// The digits and letters that carry the value, without units, names, degrees and formatting.
fn same_core(a: &str, b: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    digits(a) == digits(b) || (digits(a) + "00") == digits(b) || (digits(b) + "00") == digits(a)
}
