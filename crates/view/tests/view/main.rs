//! Records as HTML: what is shown, and that nothing of a record is ever markup.

use gradus_core::select::DecisionRule;
use gradus_core::{Annotation, LabelSource, Mark, Metadata, Problem, Record, Solution, StepLabel};
use gradus_view::{LeftOut, ViewOptions, page, record, records, shell};
use proptest::prelude::*;

const RECORDS: &str = include_str!("../records.jsonl");

fn all() -> Vec<Record> {
    RECORDS.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

fn shown(number: usize) -> String {
    record(number, &all()[number - 1], &ViewOptions::default())
}

/// The fragment as XML: it is balanced, its attributes are quoted, its entities are known.
fn parsed(html: &str) -> String {
    let xml = format!("<body>{html}</body>");
    let document = roxmltree::Document::parse(&xml).unwrap_or_else(|error| panic!("{error}: {html}"));
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        assert!(
            !["script", "style", "img", "iframe", "object", "form", "base", "meta", "link"].contains(&name),
            "{name}"
        );
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on") && attribute.name() != "style", "{attribute:?}");
            let is_link = ["href", "src", "action"].contains(&attribute.name());
            assert!(!is_link || attribute.value().starts_with('#'), "{attribute:?}");
        }
    }
    document.root().descendants().filter_map(|node| node.is_text().then(|| node.text()).flatten()).collect()
}

fn words(html: &str) -> String {
    parsed(html).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_record_with_models_annotators_and_references() {
    insta::assert_snapshot!("record", shown(1));
}

#[test]
fn scores_and_labels_stand_side_by_side() {
    let text = words(&shown(1));
    for said in [
        "◆ first suspected error Qwen2.5-Math-PRM-7B",
        "▲ labeled first error human, monte-carlo Qwen2.5-Math-7B",
        "≠ disagreement: 2 correct, 3 incorrect",
        "7/8 rollouts",
        "3/4 votes",
        "LOGICAL MISSING_CASE",
        "2 reference steps",
        "1 reference question",
        "2 rollouts",
        "Search tree (beam)",
        "★ search",
        "★ best",
        "No majority: all answers differ.",
        "similarity 0.91: q9/1, step 0",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn candidates_are_chosen_as_select_chooses() {
    let text = words(&shown(4));
    assert!(text.contains("Majority: 70 (38 of 64)") && text.contains("Best-of-N"), "{text}");
    let html = shown(4);
    assert_eq!(html.matches("<details class=\"solution\"").count(), 64);
    assert_eq!(html.matches("\" open=\"open\"").count(), 1, "only the chosen one is open");
    let few = ViewOptions { solutions: 10, ..ViewOptions::default() };
    let cut = words(&record(1, &all()[3], &few));
    assert!(cut.contains("54 solutions more: the first 10 are shown, all of them count."), "{cut}");
    assert!(cut.contains("Majority: 70 (38 of 64)"), "{cut}");
}

#[test]
fn the_threshold_decides_what_is_suspected() {
    let decision = DecisionRule::Threshold { threshold: 0.9 };
    let strict = ViewOptions { decision, ..ViewOptions::default() };
    assert!(words(&record(1, &all()[0], &strict)).contains("first suspected error: step 1"));
    assert!(words(&shown(1)).contains("first suspected error: step 2"));
}

/// A proof decides beside scores of a profile with exact checks, and disagrees with nobody.
#[test]
fn a_proof_decides_where_the_profile_says_so() {
    let proof = StepLabel::hard(Mark::Incorrect, LabelSource::Exact);
    let proved = Annotation { labels: vec![None, Some(proof), None], ..Annotation::default() };
    let solution = Solution {
        steps: ["a", "b", "c"].map(str::to_owned).to_vec(),
        scores: [("prm".to_owned(), vec![0.9; 3])].into(),
        annotations: vec![proved],
        ..Solution::default()
    };
    let proved = Record::new(Problem::default(), vec![solution]);
    let alone = ViewOptions::default();
    let checked = ViewOptions { exact_checks: ["prm".to_owned()].into(), ..ViewOptions::default() };
    assert!(words(&record(1, &proved, &alone)).contains("no suspected error"));
    assert!(words(&record(1, &proved, &checked)).contains("first suspected error: step 1"));
    assert!(record(1, &proved, &checked).contains("data-kinds=\"error\""));
}

#[test]
fn solutions_without_steps_or_scores_are_shown() {
    assert!(words(&shown(5)).contains("No solutions."));
    assert!(words(&shown(6)).contains("It is 2. Surely."));
}

#[test]
fn hostile_texts_are_words() {
    let html = shown(2);
    let text = parsed(&html);
    assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
    // Problem, id, context, gold answer, step, model, annotator, comment, category, references, rollouts, metadata.
    assert!(text.matches("<script>alert(\"x\")</script>").count() >= 20, "{text}");
    assert!(text.contains("\\u{202e}reversed\\u{202c} \\u{1b}[31m \\u{7}"), "{text}");
    assert!(!html.contains(['\u{202e}', '\u{2066}', '\u{1b}']));
}

#[test]
fn a_page_is_one_file_that_loads_nothing() {
    let html = page("a<b>.jsonl", &all(), &LeftOut { records: 3, invalid: 1 }, &ViewOptions::default());
    assert!(html.contains("<title>a&lt;b&gt;.jsonl</title>"));
    assert!(html.contains("The first 6 of 9 records are shown. 1 record skipped (invalid)."));
    assert!(html.contains("default-src 'none'; style-src 'sha256-") && !html.contains("unsafe-inline"));
    assert_eq!(html.matches("<script>\n").count(), 1);
    let plain = page("a", &all()[2..], &LeftOut::default(), &ViewOptions::default());
    for outside in [" src=", "url(", "@import", "http://", "https://", " style=\""] {
        assert!(!plain.contains(outside), "{outside}");
    }
    let ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let distinct: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), distinct.len());
}

#[test]
fn one_record_has_no_contents_beside_it() {
    let html = records(&all()[..1], &LeftOut { records: 2, invalid: 0 }, &ViewOptions::default());
    assert!(!html.contains("<nav") && words(&html).contains("The first 1 of 3 records are shown."));
    assert!(records(&all(), &LeftOut::default(), &ViewOptions::default()).contains("<nav"));
    assert!(
        words(&records(&[], &LeftOut::default(), &ViewOptions::default())).contains("There are no records.")
    );
}

#[test]
fn the_shell_loads_its_own_files_only() {
    let assets = shell::assets();
    let look = &assets[0].body;
    assert!(look.contains("<a href=\"/\" aria-current=\"page\">Look</a>") && !look.contains("{{"));
    for part in look.split("src=\"").skip(1).chain(look.split("stylesheet\" href=\"").skip(1)) {
        let path = part.split('"').next().unwrap();
        assert!(assets.iter().any(|asset| asset.path == path), "{path}");
    }
    assert!(!look.contains(" style=") && !look.contains("<style") && !look.contains("onclick"));
}

/// Texts that look like markup, LaTeX, money and control characters.
fn text() -> impl Strategy<Value = String> {
    "([<>&\"'/= $\\\\{}()\\[\\]a-z0-9\n]|<script>|</td>|<!--|&lt;|\\]\\]>|\u{202e}|\u{0}|\u{1b}|é|数|\\\\frac|\\$\\$){0,24}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn anything_is_balanced_and_escaped(
        texts in prop::collection::vec(text(), 12),
        scores in prop::collection::vec(prop::num::f64::ANY, 3),
        error in prop::option::of(0usize..3),
    ) {
        let [id, problem, one, two, three, answer, gold, generator, model, annotator, key, value] =
            <[String; 12]>::try_from(texts).unwrap();
        let judge = LabelSource::Judge { model: annotator, agreeing: 1, votes: 2 };
        let metadata: Metadata = [(key, value.into())].into_iter().collect();
        let solution = Solution {
            problem_id: id.clone(),
            id: generator.clone(),
            generator: Some(generator),
            steps: vec![one, two, three],
            answer: Some(answer),
            scores: [(model, scores)].into(),
            annotations: vec![Annotation::from_first_error(3, error, &judge)],
            metadata: metadata.clone(),
            ..Solution::default()
        };
        let problem = Problem { id, text: problem, answer: Some(gold), metadata, ..Problem::default() };
        let list = [Record::new(problem, vec![solution.clone(), solution])];
        parsed(&records(&list, &LeftOut::default(), &ViewOptions::default()));
    }
}
