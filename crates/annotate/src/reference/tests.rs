use std::collections::BTreeSet;

use gradus_core::{Domain, FirstError, Mark};
use gradus_llm::Scripted;

use super::*;

fn case() -> (Problem, Solution) {
    let problem = Problem {
        id: "p".into(),
        text: "Ann has 3 apples. Bob has twice as many. How many have they together?".into(),
        reference: vec!["Bob has 2 × 3 = 6 apples.".into(), "Together they have 3 + 6 = 9.".into()],
        answer: Some("9".into()),
        ..Problem::default()
    };
    let steps = vec!["Bob has 6 apples.".to_owned(), "3 + 6 = 8".to_owned()];
    (problem, Solution { id: "s".into(), steps, ..Solution::default() })
}

const ANSWER: &str = r#"{
 "O1": {"explanation": "As R1.", "context": ["C2"], "outputs": [], "references": ["R1"], "errors": [], "label": 1},
 "O2": {"explanation": "R2 has 9.", "context": [], "outputs": ["O1"], "references": ["R2", "R2"], "errors": ["NUMERIC"], "label": -1}}"#;

async fn label(model: &Scripted, config: &ReferenceConfig) -> Annotated {
    let (problem, solution) = case();
    let guide = Guide::built_in();
    let annotator = ReferenceAnnotator { model, name: "m", guide: &guide };
    annotate(annotator, &problem, &solution, config).await.unwrap()
}

#[tokio::test]
async fn alignments_and_labels_are_read() {
    let model = Scripted::new().then(format!("Here it is:\n```json\n{ANSWER}\n```"));
    let found = label(&model, &ReferenceConfig::default()).await;
    let annotation = found.annotation.unwrap();
    assert_eq!(annotation.first_error, FirstError::At(1));
    let labels: Vec<&StepLabel> = annotation.labels.iter().flatten().collect();
    let evidence = labels[1].evidence.as_ref().unwrap();
    assert_eq!((labels[0].mark, labels[1].mark), (Mark::Correct, Mark::Incorrect));
    assert_eq!((&evidence.reference, &evidence.steps, &evidence.context), (&vec![1], &vec![0], &vec![]));
    assert_eq!((evidence.errors[0].as_str(), evidence.explanation.as_str()), ("NUMERIC", "R2 has 9."));
    assert_eq!(labels[0].evidence.as_ref().unwrap().context, [1]);
    let request = &model.generated()[0];
    let Prompt::Chat(messages) = &request.prompt else { panic!("a conversation") };
    assert_eq!(messages.len(), 1 + 2 * 5 + 1);
    let asked = &messages.last().unwrap().content;
    assert!(asked.contains("[C2] Bob has twice as many.") && asked.contains("[R1] Bob has 2 × 3"), "{asked}");
    let words: usize = messages.iter().map(|message| message.content.split_whitespace().count()).sum();
    assert_eq!(found.cost.prompt_tokens, words as u64);
}

#[tokio::test]
async fn what_cannot_be_used_is_asked_for_again_and_then_kept() {
    let wrong = ANSWER.replace("R1", "R7");
    let model = Scripted::new().then("no").then(&wrong).then(ANSWER);
    let found = label(&model, &ReferenceConfig::default()).await;
    assert!(found.annotation.is_some());
    assert_eq!((found.cost.requests, found.notes["answers that were asked for again"]), (3, 2));
    let seeds: Vec<u64> = model.generated().iter().map(|request| request.seed).collect();
    assert_eq!([seeds[1] - seeds[0], seeds[2] - seeds[0]], [1, 2]);
    assert_eq!(model.generated()[1].sampling.temperature, 0.7);

    let found = label(
        &Scripted::new().then("no").then(&wrong),
        &ReferenceConfig { retries: 1, ..ReferenceConfig::default() },
    )
    .await;
    let undecided = found.undecided.unwrap();
    assert_eq!(undecided.reason, Unusable::UnknownId.to_string());
    assert_eq!((undecided.said, found.cost.requests), (vec!["no".to_owned(), wrong], 2));
    let cut = ReferenceConfig { retries: 0, max_tokens: 3, ..ReferenceConfig::default() };
    let found = label(&Scripted::new().then(ANSWER), &cut).await;
    assert_eq!(found.undecided.unwrap().reason, Unusable::CutOff.to_string());
}

#[test]
fn answers_are_held_to_the_rules() {
    let (problem, solution) = case();
    let case = Case::of(&problem, &solution);
    let fault = |from: &str, to: &str| read(&ANSWER.replacen(from, to, 1), &case).unwrap_err();
    assert_eq!(fault("\"O2\": {", "\"O3\": {"), Unusable::WrongSteps);
    assert_eq!(fault("\"O1\": {", "\"more\": 1, \"O1\": {"), Unusable::WrongSteps);
    assert_eq!(fault("\"outputs\": [\"O1\"]", "\"outputs\": [\"O2\"]"), Unusable::UnknownId);
    assert_eq!(fault("\"label\": -1", "\"label\": 0"), Unusable::WrongLabel);
    assert_eq!(fault("\"label\": -1", "\"label\": \"no\""), Unusable::WrongShape);
    assert_eq!(fault("\"C2\"", "\"C9\""), Unusable::UnknownId);
    assert_eq!(fault("\"NUMERIC\"", "\"SLOPPY\""), Unusable::UnknownCategory);
    assert_eq!(fault("\"NUMERIC\"", ""), Unusable::NoCategory);
    assert_eq!(fault("\"errors\": []", "\"errors\": [\"LOGIC\"]"), Unusable::CategoryOfRight);
    let found = read(&ANSWER.replace("NUMERIC", " numeric"), &case).unwrap();
    assert_eq!(found[1].1.errors, ["NUMERIC"]);
    assert_eq!(read("{\"O1\": [", &case), Err(Unusable::NotJson));
    assert_eq!(read("{}", &case), Err(Unusable::WrongSteps));
    let schema = schema(&case);
    let second = &schema["properties"]["O2"]["properties"];
    assert_eq!(second["outputs"]["items"]["enum"], serde_json::json!(["O1"]));
    assert_eq!(second["context"]["items"]["enum"], serde_json::json!(["C1", "C2", "C3"]));
}

#[test]
fn the_exemplars_that_ship_cover_what_they_must() {
    let guide = Guide::built_in();
    for domain in [Domain::Math, Domain::Qa, Domain::Spatial, Domain::Other] {
        let exemplars = guide.exemplars(domain);
        assert!(exemplars.len() >= 20, "{domain:?}: {}", exemplars.len());
        let names: BTreeSet<&str> = exemplars.iter().map(|exemplar| &*exemplar.name).collect();
        assert_eq!(names.len(), exemplars.len(), "{domain:?}: names are unique");
        let questions: BTreeSet<String> =
            exemplars.iter().map(|exemplar| exemplar.case().written()).collect();
        assert_eq!(questions.len(), exemplars.len(), "{domain:?}: cases are different");
        let right = exemplars.iter().filter(|exemplar| exemplar.is_right()).count();
        assert!(
            3 * right >= exemplars.len() && 3 * right <= 2 * exemplars.len(),
            "{domain:?}: {right} right"
        );
        // Each is read as a model's answer would be, and wrong steps of every kind of alignment are among them.
        let steps: Vec<(Mark, gradus_core::Evidence)> = exemplars
            .iter()
            .flat_map(|exemplar| read(&exemplar.answer(), &exemplar.case()).expect(&exemplar.name))
            .collect();
        let wrong = steps.iter().filter(|(mark, _)| *mark == Mark::Incorrect).count();
        assert!(wrong >= 20 && steps.len() - wrong >= 20, "{domain:?}: {wrong} of {} steps", steps.len());
    }
}

#[test]
fn all_that_is_shown_is_part_of_the_text() {
    let text = Guide::built_in().text();
    for shown in [
        "check a solution step by step",
        "A bakery bakes 24 trays",
        "Where is the lamp",
        "Same product as R1",
    ] {
        assert!(text.contains(shown), "{shown}");
    }
}

#[test]
fn exemplars_are_drawn_of_both_kinds_and_never_the_case_itself() {
    let guide = Guide::built_in();
    let (problem, solution) = case();
    let case = Case::of(&problem, &solution);
    let mut firsts = BTreeSet::new();
    for seed in 0..50 {
        let messages = guide.messages(Domain::Math, &case, 2, seed);
        let answers: Vec<&str> =
            messages.iter().filter(|m| m.role == "assistant").map(|m| m.content.as_str()).collect();
        assert!(answers.iter().any(|answer| answer.contains("\"label\":-1")), "seed {seed}");
        assert!(answers.iter().any(|answer| !answer.contains("\"label\":-1")), "seed {seed}");
        firsts.insert(answers[0].to_owned());
        assert_eq!(messages, guide.messages(Domain::Math, &case, 2, seed));
    }
    assert!(firsts.len() > 5, "draws differ");
    let whole = guide.messages(Domain::Math, &case, 99, 0).len();
    let shown: Vec<String> =
        guide.messages(Domain::Math, &case, 99, 0).into_iter().map(|message| message.content).collect();
    let question = shown[1].lines().nth(1).unwrap().to_owned();
    let target = Case { question, ..case };
    assert_eq!(guide.messages(Domain::Math, &target, 99, 0).len(), whole - 2);
}
