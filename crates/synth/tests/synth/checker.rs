//! Reads a problem and a solution as a careful person would, and says whether the labels are true.
//!
//! Steps labelled right must follow from the problem and earlier steps; the step labelled wrong must not, and must be
//! wrong in the way its metadata says. It parses text only, so it shares no code (and no bugs) with the generator.

use std::collections::BTreeMap;

use gradus_core::{Domain, FirstError, Problem, Solution};

type Check = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(format!($($message)*));
        }
    };
}

pub(crate) fn check(problem: &Problem, solution: &Solution) -> Check {
    let error = match solution.annotations[0].first_error {
        FirstError::At(index) => index,
        _ => solution.steps.len(),
    };
    let kind = solution.metadata.get("error").and_then(|kind| kind.as_str()).unwrap_or("none");
    ensure!((kind == "none") == (error == solution.steps.len()), "labels and metadata disagree");
    match problem.domain {
        Domain::Qa => lookup(problem, solution, error, kind),
        Domain::Spatial => grid(problem, solution, error, kind),
        _ => maths(problem, solution, error, kind),
    }
}

/// The step without its number in a list.
fn unmarked(step: &str, index: usize) -> &str {
    let n = index + 1;
    [format!("Step {n}: "), format!("{n}. "), format!("({n}) ")]
        .iter()
        .find_map(|mark| step.strip_prefix(mark.as_str()))
        .unwrap_or(step)
}

/// What the last step states.
fn stated_answer(step: &str) -> String {
    let boxed = step.split("\\boxed{").nth(1).and_then(|rest| rest.split('}').next());
    let said = ["answer is ", "Answer = ", "Final answer: "].iter().find_map(|lead| step.split(lead).nth(1));
    boxed.or(said).unwrap_or(step).trim_end_matches('.').to_owned()
}

/// Where the solution's step `index` is in the reference: one further on if a step was left out before it.
fn reference_index(problem: &Problem, solution: &Solution, index: usize) -> usize {
    index + problem.reference.len() - solution.steps.len()
}

// ---- calculations ----

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64),
    Op(char),
    Equals,
    Other,
}

fn tokens(text: &str) -> Vec<Token> {
    let text = text.replace('$', "").replace('×', "*").replace('÷', "/").replace("divided by", "/");
    let mut out = Vec::new();
    for raw in text.split_whitespace() {
        let open = raw.trim_matches(|c: char| "()\\{},:;?%".contains(c));
        let word = open.trim_end_matches('.');
        out.push(match word {
            "+" | "plus" => Token::Op('+'),
            "-" | "minus" => Token::Op('-'),
            "*" | "times" => Token::Op('*'),
            "/" => Token::Op('/'),
            "=" | "is" => Token::Equals,
            _ => word.parse().map_or(Token::Other, Token::Number),
        });
    }
    out
}

fn numbers(text: &str) -> Vec<f64> {
    tokens(text)
        .into_iter()
        .filter_map(|token| if let Token::Number(n) = token { Some(n) } else { None })
        .collect()
}

/// Every run of digits in the problem, with either sign: `3x - 5` gives the solver -5.
fn known(problem: &Problem) -> Vec<f64> {
    let digits = |c: char| !(c.is_ascii_digit() || c == '.');
    let found = problem.text.split(digits).filter_map(|run| run.trim_matches('.').parse::<f64>().ok());
    found.flat_map(|n| [n, -n]).collect()
}

/// Numbers nobody has to be told; counting the people of a story is one.
fn common(problem: &Problem) -> Vec<f64> {
    let mut common = vec![1.0, 2.0, 60.0, 100.0];
    if problem.metadata["family"] == "ages" {
        common.extend([3.0, 4.0, 5.0]);
    }
    common
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

fn has(pool: &[f64], n: f64) -> bool {
    pool.iter().any(|&m| same(m, n))
}

#[derive(Debug)]
struct Equation {
    terms: Vec<f64>,
    op: char,
    result: f64,
}

impl Equation {
    fn holds(&self) -> bool {
        let value = self.terms[1..].iter().fold(self.terms[0], |left, right| match self.op {
            '+' => left + right,
            '-' => left - right,
            '*' => left * right,
            _ => left / right,
        });
        same(value, self.result)
    }

    fn same_terms(&self, other: &Self) -> bool {
        let equal = self.terms.iter().zip(&other.terms).all(|(a, b)| same(*a, *b));
        self.terms.len() == other.terms.len() && equal
    }
}

/// The one `a op b = c` of a step.
fn equation(text: &str) -> Result<Equation, String> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    for start in 0..tokens.len() {
        let Token::Number(first) = tokens[start] else { continue };
        if start > 0 && matches!(tokens[start - 1], Token::Op(_)) {
            continue;
        }
        let (mut terms, mut op, mut at) = (vec![first], None, start + 1);
        while let (Some(Token::Op(sign)), Some(Token::Number(next))) = (tokens.get(at), tokens.get(at + 1)) {
            op = Some(*sign);
            terms.push(*next);
            at += 2;
        }
        if let (Some(op), Some(Token::Equals), Some(Token::Number(result))) =
            (op, tokens.get(at), tokens.get(at + 1))
        {
            found.push(Equation { terms, op, result: *result });
        }
    }
    ensure!(found.len() == 1, "{} equations in `{text}`", found.len());
    Ok(found.remove(0))
}

/// The step without an earlier result that it repeats first.
fn own_words(step: &str) -> &str {
    let openings =
        ["We already know that ", "Recall that ", "As found before, ", "We saw that ", "We know that "];
    let cut =
        if openings.iter().any(|opening| step.starts_with(opening)) { step.split_once(". ") } else { None };
    let cut = if step.starts_with("From above, ") { step.split_once(", so ") } else { cut };
    cut.map_or(step, |(_, own)| own)
}

/// Whether the step gives the result of that reference line with its unit.
fn says_amount(step: &str, reference: &str) -> bool {
    let amount = reference.rsplit(" = ").next().unwrap_or_default();
    let (digits, unit) = amount.split_once(' ').unwrap_or((amount, ""));
    let dollars =
        if let Some(rest) = digits.strip_prefix('-') { format!("-${rest}") } else { format!("${digits}") };
    let whole = |needle: &str| {
        let more = |rest: &str| rest.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
        format!(" {}", own_words(step)).split(needle).skip(1).any(|rest| !more(rest))
    };
    whole(&format!(" {amount}")) || (unit.starts_with("dollar") && whole(&dollars))
}

fn maths(problem: &Problem, solution: &Solution, error: usize, kind: &str) -> Check {
    let (last_reference, workings) = problem.reference.split_last().ok_or("no reference")?;
    let truth: Vec<Equation> = workings.iter().map(|step| equation(step)).collect::<Result<_, _>>()?;
    let gold = truth.last().ok_or("no working")?.result;
    ensure!(has(&numbers(last_reference), gold), "the reference does not state its result");
    ensure!(truth.iter().all(Equation::holds), "the reference is false");
    let (mut pool, common) = (known(problem), common(problem));
    let last = solution.steps.len() - 1;
    for (index, step) in solution.steps.iter().enumerate().take(error) {
        let step = unmarked(step, index);
        if index == last {
            ensure!(same(stated_answer(step).parse().map_err(|_| "no answer")?, gold), "another answer");
            continue;
        }
        let here = equation(step)?;
        ensure!(here.holds(), "`{step}` is false");
        ensure!(
            here.terms.iter().all(|&n| has(&pool, n) || has(&common, n)),
            "`{step}` takes numbers from nowhere"
        );
        // A step that was left out before the error moves the others up by one.
        let agrees =
            |&place: &usize| same(truth[place].result, here.result) && here.same_terms(&truth[place]);
        let mut places = index..=reference_index(problem, solution, index);
        let place = places.find(agrees).ok_or_else(|| format!("`{step}` is not in the reference"))?;
        ensure!(says_amount(step, &workings[place]), "`{step}` has another unit");
        pool.push(here.result);
        for n in numbers(step) {
            ensure!(has(&pool, n) || has(&common, n), "`{step}` mentions {n}, which is not known");
        }
    }
    if error > last {
        return Ok(());
    }
    let step = unmarked(&solution.steps[error], error);
    if error == last {
        let stated: f64 = stated_answer(step).parse().map_err(|_| "no answer")?;
        ensure!(!same(stated, gold), "the answer is right after all");
        let fewer = solution.steps.len() < problem.reference.len();
        ensure!(kind == if fewer { "skipped_step" } else { "contradiction" }, "kind {kind} at the answer");
        return Ok(());
    }
    let (here, place) = (equation(step)?, reference_index(problem, solution, error));
    let there = &truth[place];
    let differing = here.terms.iter().zip(&there.terms).filter(|(a, b)| !same(**a, **b)).count();
    let equal_terms = here.same_terms(there);
    let changed = here.terms.iter().zip(&there.terms).filter(|(a, b)| !same(**a, **b));
    let unknown = changed.filter(|(n, _)| !has(&pool, **n)).count();
    let false_claim = !same(here.result, there.result);
    let sound = match kind {
        "arithmetic_slip" => !here.holds() && equal_terms && here.op == there.op && false_claim,
        "wrong_operator" => here.holds() && equal_terms && here.op != there.op && false_claim,
        "misread_given" => {
            here.holds() && here.op == there.op && differing == 1 && unknown == 1 && false_claim
        }
        "wrong_operand" => {
            here.holds() && here.op == there.op && differing == 1 && unknown == 0 && false_claim
        }
        "skipped_step" => {
            let fewer =
                solution.steps.len() < problem.reference.len() || here.terms.len() < there.terms.len();
            here.holds() && here.op == there.op && unknown == 0 && false_claim && fewer
        }
        "contradiction" => here.holds() && here.op == there.op && differing == 1 && false_claim,
        "sign_unit" if false_claim => same(here.result, -there.result) && equal_terms,
        "sign_unit" => !says_amount(step, &problem.reference[place]),
        _ => false,
    };
    ensure!(sound, "`{step}` is no {kind}: {here:?} against {there:?}, {unknown} unknown");
    Ok(())
}

// ---- look-up ----

/// (subject, noun) to object, all in lower case.
type Facts = BTreeMap<(String, String), String>;

fn facts(problem: &Problem) -> Result<Facts, String> {
    let mut facts = Facts::new();
    for sentence in &problem.context {
        let text = sentence.trim_end_matches('.').to_lowercase();
        let two = |by: &str| text.split_once(by).map(|(a, b)| (a.to_owned(), b.to_owned()));
        let (subject, noun, object) = if let Some((who, town)) = two(" lives in ") {
            (who, "home town".to_owned(), town)
        } else if let Some((place, who)) = two(" is where ") {
            (who.replace(" works", ""), "workplace".to_owned(), place)
        } else if let Some((who, place)) = two(" works at ") {
            (who, "workplace".to_owned(), place)
        } else if let Some((town, region)) = two(" lies in the ") {
            (town, "region".to_owned(), region.replace(" region", ""))
        } else if let Some((place, town)) = two(" is in ") {
            (place, "town".to_owned(), town)
        } else if let Some((object, rest)) = two(" is the ") {
            let (noun, subject) = rest.split_once(" of ").ok_or("unread sentence")?;
            (subject.to_owned(), noun.to_owned(), object)
        } else {
            let (left, object) = two(" is ").ok_or("unread sentence")?;
            let (noun, subject) =
                left.trim_start_matches("the ").split_once(" of ").ok_or("unread sentence")?;
            (subject.to_owned(), noun.to_owned(), object)
        };
        let double = facts.insert((subject, noun), object);
        ensure!(double.is_none(), "`{sentence}` gives a second answer");
    }
    Ok(facts)
}

/// What a step of a look-up says.
#[derive(Debug)]
struct Reading {
    subject: String,
    noun: String,
    object: String,
    found: String,
}

fn reading(step: &str, role: &str, facts: &Facts) -> Result<Reading, String> {
    let text = step.to_lowercase();
    let mut entities: Vec<&String> =
        facts.iter().flat_map(|((subject, _), object)| [subject, object]).collect();
    entities.sort_by_key(|entity| std::cmp::Reverse(entity.len()));
    let after = |lead: &str| {
        let rest = text.split(lead).nth(1)?;
        entities.iter().find(|entity| rest.starts_with(entity.as_str())).map(|entity| (*entity).clone())
    };
    let leads = |subject: &str, noun: &str| match noun {
        "home town" => vec![format!("{subject} lives in "), format!("home town of {subject} = ")],
        "workplace" => vec![format!("{subject} works at "), format!("workplace of {subject} = ")],
        "town" => vec![format!("{subject} is in "), format!("since town of {subject} = ")],
        "region" => vec![format!("{subject} lies in the "), format!("region of {subject} = ")],
        _ => vec![format!("the {noun} of {subject} is "), format!("since {noun} of {subject} = ")],
    };
    let mut nouns: Vec<_> = facts.keys().map(|(_, noun)| noun).collect();
    nouns.sort();
    nouns.dedup();
    let found = [
        format!("{role} in question is "),
        format!("{role} in question = "),
        format!("{role} in question: "),
        "it is ".into(),
    ]
    .iter()
    .find_map(|lead| after(lead))
    .ok_or_else(|| format!("`{step}` finds nothing"))?;
    for subject in &entities {
        for noun in &nouns {
            if let Some(object) = leads(subject, noun).iter().find_map(|lead| after(lead)) {
                return Ok(Reading { subject: (*subject).clone(), noun: (*noun).clone(), object, found });
            }
        }
    }
    Err(format!("`{step}` reads nothing"))
}

fn lookup(problem: &Problem, solution: &Solution, error: usize, kind: &str) -> Check {
    let facts = facts(problem)?;
    let role = |step: &str| step.split(" in question").next().unwrap_or_default().to_lowercase();
    let roles: Vec<_> = problem.reference.iter().map(|step| role(step)).collect();
    let question = problem.text.trim_end_matches('?').to_lowercase();
    let start = problem.text.trim_end_matches('?').rsplit(" of ").next().unwrap_or_default().to_lowercase();
    let mut at = start.split(' ').next().unwrap_or_default().to_owned();
    ensure!(question.contains(&at), "the question names nobody");
    let last = solution.steps.len() - 1;
    for (index, step) in solution.steps.iter().enumerate().take(error + 1) {
        let step = unmarked(step, index);
        let wrong = index == error;
        if index == last {
            let right =
                stated_answer(step).to_lowercase() == at && solution.steps.len() == problem.reference.len();
            ensure!(right != wrong, "the label of `{step}` is false");
            continue;
        }
        let place = if wrong { reference_index(problem, solution, index) } else { index };
        let here = reading(step, &roles[place], &facts)?;
        let stated = facts.get(&(here.subject.clone(), here.noun.clone())) == Some(&here.object);
        let follows = here.subject == at && here.noun == roles[index] && here.found == here.object;
        ensure!((stated && follows) != wrong, "the label of `{step}` is false: {here:?} from {at}");
        if wrong {
            let sound = match kind {
                "misread_given" => !stated && here.subject == at && here.noun == roles[place],
                "wrong_operand" | "contradiction" | "skipped_step" => {
                    stated && (here.subject != at || kind == "skipped_step") && here.noun == roles[place]
                }
                "wrong_operator" => stated && here.subject == at && here.noun != roles[place],
                "sign_unit" => {
                    stated && here.object == at && here.noun == roles[place] && here.found == here.subject
                }
                _ => false,
            };
            ensure!(sound, "`{step}` is no {kind}: {here:?} from {at}");
        }
        at = here.found;
    }
    Ok(())
}

// ---- grid ----

type Vector = (i64, i64);

/// The relation `the A is 2 squares left of [and 1 square above] the B` somewhere in the text: (A, B, move from B to A).
fn relation(text: &str) -> Option<(String, String, Vector)> {
    let words: Vec<&str> =
        text.split_whitespace().map(|w| w.trim_matches(|c: char| ".,;:".contains(c))).collect();
    let start = words.windows(4).position(|w| w[1] == "is" && w[3].starts_with("square"))?;
    let (mut by, mut at) = ((0, 0), start + 2);
    loop {
        let n: i64 = words.get(at)?.parse().ok()?;
        match *words.get(at + 2)? {
            "left" => by.0 -= n,
            "right" => by.0 += n,
            "above" => by.1 += n,
            "below" => by.1 -= n,
            _ => return None,
        }
        at += 3;
        while words.get(at).is_some_and(|word| ["of", "and"].contains(word)) {
            at += 1;
        }
        if *words.get(at)? == "the" {
            return Some((words[start].to_owned(), (*words.get(at + 1)?).to_owned(), by));
        }
    }
}

fn coordinates(text: &str) -> Vec<Vector> {
    let pairs = text.split('(').skip(1).filter_map(|rest| rest.split_once(')'));
    pairs
        .filter_map(|(pair, _)| {
            let (x, y) = pair.split_once(", ")?;
            Some((x.parse().ok()?, y.parse().ok()?))
        })
        .collect()
}

fn direction((x, y): Vector) -> String {
    let along = ["lower", "", "upper"][(y.signum() + 1) as usize];
    let across = ["left", "", "right"][(x.signum() + 1) as usize];
    match (along, across) {
        ("lower", "") => "below".into(),
        ("upper", "") => "above".into(),
        ("", across) => across.into(),
        _ => format!("{along} {across}"),
    }
}

fn grid(problem: &Problem, solution: &Solution, error: usize, kind: &str) -> Check {
    let edges: Vec<_> = problem.context[1..].iter().filter_map(|sentence| relation(sentence)).collect();
    ensure!(edges.len() == problem.context.len() - 1, "unread relations");
    let origin =
        problem.context[0].split(" is at").next().and_then(|s| s.rsplit(' ').next()).ok_or("no origin")?;
    let mut positions = BTreeMap::from([(origin.to_owned(), (0, 0))]);
    for _ in 0..edges.len() {
        for (a, b, by) in &edges {
            if let Some(&(x, y)) = positions.get(b) {
                positions.insert(a.clone(), (x + by.0, y + by.1));
            } else if let Some(&(x, y)) = positions.get(a) {
                positions.insert(b.clone(), (x - by.0, y - by.1));
            }
        }
    }
    let objects: Vec<_> = problem.reference[..problem.reference.len() - 2]
        .iter()
        .filter_map(|step| step.split(" = ").next()?.rsplit(' ').next().map(str::to_owned))
        .collect();
    let target = positions[objects.last().ok_or("no objects")?];
    ensure!(problem.answer.as_deref() == Some(direction(target).as_str()), "the gold answer is wrong");
    let steps = &solution.steps;
    for (index, step) in steps.iter().enumerate().take(error + 1) {
        let (text, wrong) = (unmarked(step, index), index == error);
        let shift = if wrong { problem.reference.len() - steps.len() } else { 0 };
        let right = if index + 1 == steps.len() {
            stated_answer(text) == direction(target)
        } else if index + 2 == steps.len() {
            let shown = coordinates(text);
            let claimed = text.split("(0, 0) is ").nth(1).unwrap_or_default();
            let name =
                ["upper left", "upper right", "lower left", "lower right", "left", "right", "above", "below"];
            let claimed = name.iter().find(|name| claimed.starts_with(**name)).ok_or("no direction")?;
            shown.iter().all(|&at| at == target || at == (0, 0)) && *claimed == direction(target)
        } else {
            let object = &objects[index + shift];
            let shown = coordinates(text);
            let lead = format!("{object} is at ");
            // The claim in prose, the sum in formulas, whichever the style has.
            let sum = text.split(" = ").last().filter(|_| text.contains(" + ")).map(coordinates);
            let said = text.to_lowercase().split(&lead).nth(1).map(coordinates);
            let result = sum.iter().chain(&said).filter_map(|found| found.first().copied()).next();
            let result = result.ok_or_else(|| format!("`{text}` places nothing"))?;
            let quote =
                relation(&text.replace("The ", "the ")).ok_or_else(|| format!("`{text}` quotes nothing"))?;
            let truly = edges.iter().any(|(a, b, by)| {
                (a, b, by) == (&quote.0, &quote.1, &quote.2)
                    || (b, a, by) == (&quote.0, &quote.1, &(-quote.2.0, -quote.2.1))
            });
            let base = positions[&quote.1];
            ensure!(&quote.0 == object, "`{text}` places another object than the {object}");
            if !wrong {
                ensure!(truly, "`{text}` misquotes");
                ensure!(shown.contains(&base), "`{text}` does not start at {base:?}");
            }
            if wrong && (kind == "misread_given" || kind == "wrong_operand") {
                ensure!(!truly, "`{text}` is no {kind}");
            }
            result == positions[object]
        };
        ensure!(right != wrong, "the label of `{text}` is false");
    }
    Ok(())
}
