//! What is trained on: which labels, which prompts, and which text.

use std::path::{Path, PathBuf};

use gradus_core::{
    Annotation, LabelSource, LabelsAfterError, Mark, Outcome, Problem, Record, Solution, StepLabel,
};
use gradus_engine::profile::{Assembler, Profile};
use gradus_engine::text::Tokenizer;

use super::*;

fn tokenizer() -> Tokenizer {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/reference/models/llama");
    Tokenizer::from_folder(&folder).unwrap()
}

/// A problem with one solution of three steps, labeled wrong, right, wrong.
fn labeled(source: &LabelSource) -> Record {
    let marks = [Mark::Incorrect, Mark::Correct, Mark::Incorrect];
    let labels = marks.map(|mark| Some(StepLabel::hard(mark, source.clone())));
    let problem = Problem { id: "p".into(), text: "What is 2 + 3?".into(), ..Problem::default() };
    let solution = Solution {
        id: "s".into(),
        problem_id: "p".into(),
        steps: ["2 + 3 = 6.", "6 is even.", "The answer is 6."].map(str::to_owned).to_vec(),
        annotations: vec![Annotation::from_labels(labels.to_vec())],
        ..Solution::default()
    };
    Record::new(problem, vec![solution])
}

fn steps(
    record: Record,
    profile: &str,
    max_tokens: usize,
    after_error: Option<LabelsAfterError>,
) -> Vec<f32> {
    let tokenizer = tokenizer();
    let assembler = Assembler::new(Profile::find(profile).unwrap(), &tokenizer).unwrap();
    let prompts =
        SolutionPrompts { assembler: &assembler, tokenizer: &tokenizer, max_tokens, by_problem: false };
    let labels = StepLabels { neutral: NeutralLabels::Correct, after_error };
    let (examples, _) = labeled_steps(&[record], &prompts, labels, false).unwrap();
    examples.iter().flat_map(|example| example.reads.iter().map(|(_, target)| *target)).collect()
}

#[test]
fn labels_after_an_error_are_trained_on_as_their_source_means_them() {
    let reference = LabelSource::Reference { model: "m".to_owned() };
    let monte_carlo = LabelSource::MonteCarlo { model: String::new(), successes: 0, samples: 8 };
    let targets = |source: &LabelSource, rule| steps(labeled(source), "brief", 4096, rule);
    assert_eq!(targets(&reference, None), [0.0, 1.0, 0.0]);
    assert_eq!(targets(&monte_carlo, None), [0.0]);
    assert_eq!(targets(&reference, Some(LabelsAfterError::Drop)), [0.0]);
    assert_eq!(targets(&monte_carlo, Some(LabelsAfterError::Keep)), [0.0, 1.0, 0.0]);
}

#[test]
fn the_limit_is_that_of_one_prompt() {
    let tokenizer = tokenizer();
    let assembler = Assembler::new(Profile::find("plain").unwrap(), &tokenizer).unwrap();
    let record = labeled(&LabelSource::Reference { model: "m".to_owned() });
    let request = gradus_core::contracts::ScoreRequest::of(&record.problem, &record.solutions[0]);
    let assembled = assembler.assemble(&request, &tokenizer, usize::MAX).unwrap();
    let longest = assembled.prompts.iter().map(|(tokens, _)| tokens.len()).max().unwrap();
    // The three prompts have the ends of their own after what they share.
    assert_eq!(steps(record.clone(), "plain", longest, None), [0.0, 1.0, 0.0]);
    assert!(steps(record, "plain", longest - 1, None).is_empty());
}

#[test]
fn answers_are_the_sampled_text_and_questions_what_sample_asks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sampled.jsonl");
    let mut record = labeled(&LabelSource::Unstated);
    let solution = &mut record.solutions[0];
    solution.annotations.clear();
    (solution.outcome, solution.text) = (Outcome::Correct, Some("2 + 3\n= 5.\n\nSo 5.".to_owned()));
    let mut worse = solution.clone();
    (worse.id, worse.outcome, worse.text) = ("w".into(), Outcome::Wrong, Some("It is\n\n6.".to_owned()));
    record.solutions.push(worse);
    std::fs::write(&path, serde_json::to_string(&record).unwrap()).unwrap();
    let paths: Vec<PathBuf> = vec![path];
    let source = DataSource { paths: &paths, format: None, limit: None, training: true, annotator: None };
    let prompt = SolvePrompt::find(SOLVE).unwrap();
    let (found, _) = read_conversations(&source, &prompt).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].answer, "2 + 3\n= 5.\n\nSo 5.");
    let asked = include_str!("../../../../assets/prompts/solve.md").trim_end();
    assert_eq!(found[0].messages[0].content, asked.replace("{{ problem }}", "What is 2 + 3?"));
    let labels = StepLabels { neutral: NeutralLabels::Correct, after_error: None };
    let (found, _) = pairs(&[record], PairRule::Outcome, labels, None, &prompt);
    assert_eq!(
        (found[0].chosen.answer.as_str(), found[0].rejected.as_str()),
        ("2 + 3\n= 5.\n\nSo 5.", "It is\n\n6.")
    );
}

#[test]
fn each_text_of_a_problem_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut record = labeled(&LabelSource::Human);
    let solution = &mut record.solutions[0];
    let annotations = std::mem::take(&mut solution.annotations);
    let draw = |id: &str, text: &str, outcome: Outcome| {
        let (id, text) = (id.to_owned(), Some(text.to_owned()));
        Solution {
            id,
            text,
            outcome,
            problem_id: "p".to_owned(),
            steps: solution.steps.clone(),
            ..Solution::default()
        }
    };
    // Two files of one problem: two texts, one of them drawn three times, which is labeled in the second file.
    let mut again = draw("w3", "It is 6.", Outcome::Wrong);
    again.annotations = annotations;
    let right = draw("r", "It is 5.", Outcome::Correct);
    let first =
        vec![right.clone(), draw("w1", "It is 6.", Outcome::Wrong), draw("w2", "It is 6.", Outcome::Wrong)];
    let second = vec![Solution { id: "r2".to_owned(), ..right }, again];
    let mut paths = Vec::new();
    for (name, solutions) in [("a.jsonl", first), ("b.jsonl", second)] {
        let path = folder.path().join(name);
        let record = Record::new(record.problem.clone(), solutions);
        std::fs::write(&path, serde_json::to_string(&record).unwrap()).unwrap();
        paths.push(path);
    }
    let source = DataSource { paths: &paths, format: None, limit: None, training: true, annotator: None };
    let repeated = |left_out: &LeftOut| {
        left_out
            .iter()
            .find(|(reason, _)| *reason == "solution with the text of an earlier one")
            .map(|(_, count)| count)
    };
    let prompt = SolvePrompt::find(SOLVE).unwrap();
    let (found, left_out) = read_conversations(&source, &prompt).unwrap();
    assert_eq!((found.len(), repeated(&left_out)), (1, Some(3)), "supervised fine-tuning");
    let labels = StepLabels { neutral: NeutralLabels::Correct, after_error: None };
    let (found, left_out) =
        source.examples(|records| Ok(pairs(records, PairRule::Outcome, labels, None, &prompt))).unwrap();
    assert_eq!((found.len(), repeated(&left_out)), (1, Some(3)), "preference pairs");
    let tokenizer = tokenizer();
    let assembler = Assembler::new(Profile::find("brief").unwrap(), &tokenizer).unwrap();
    let prompts =
        SolutionPrompts { assembler: &assembler, tokenizer: &tokenizer, max_tokens: 4096, by_problem: false };
    let (found, left_out) =
        source.examples(|records| labeled_steps(records, &prompts, labels, false)).unwrap();
    assert_eq!((found.len(), found[0].id.as_str()), (1, "w1"), "labels belong to the text");
    assert_eq!(repeated(&left_out), Some(3));
}
