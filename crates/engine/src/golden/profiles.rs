//! Profiles against independent implementations of each family's published recipe: the same token ids, the same positions,
//! the same scores; `tests/reference/profiles/make_profiles.py` made the values.

use gradus_core::contracts::{ScoreRequest, ScoreSteps};
use gradus_core::{Mark, ReferenceProblem, ReferenceStep};
use serde::Deserialize;
use std::collections::BTreeMap;

use super::{close, is_rounded, load, reference};
use crate::profile::{Assembler, Input, Profile, Score, Templates};
use crate::{Engine, ServiceOptions};

#[derive(Deserialize)]
struct Expected {
    problems: Vec<Problem>,
    families: BTreeMap<String, Family>,
}

#[derive(Deserialize)]
struct Problem {
    problem: String,
    steps: Vec<String>,
    references: Vec<Reference>,
    reference_steps: Vec<Vec<Similar>>,
}

#[derive(Deserialize)]
struct Reference {
    question: String,
    steps: Vec<String>,
    labels: Vec<bool>,
}

#[derive(Deserialize)]
struct Similar {
    step: String,
    correct: bool,
}

#[derive(Deserialize)]
struct Family {
    model: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    ids: Vec<u32>,
    #[serde(default)]
    positions: Vec<usize>,
    #[serde(default)]
    prompts: Vec<Prompt>,
    #[serde(default)]
    one_pass: Option<OnePass>,
    scores: Vec<f32>,
}

#[derive(Deserialize)]
struct Prompt {
    ids: Vec<u32>,
    position: usize,
}

#[derive(Deserialize)]
struct OnePass {
    ids: Vec<u32>,
    positions: Vec<usize>,
}

fn expected() -> Expected {
    serde_json::from_slice(&std::fs::read(reference("profiles/expected.json")).unwrap()).unwrap()
}

fn request(number: usize, problem: &Problem, with_references: bool) -> ScoreRequest {
    let reference = |reference: &Reference| ReferenceProblem {
        question: reference.question.clone(),
        steps: reference
            .steps
            .iter()
            .cloned()
            .zip(reference.labels.iter().map(|good| Mark::from_correct(*good)))
            .collect(),
    };
    let similar = |similar: &Similar| ReferenceStep {
        text: similar.step.clone(),
        mark: Mark::from_correct(similar.correct),
    };
    let mut request = ScoreRequest {
        id: format!("case {number}"),
        problem: problem.problem.clone(),
        steps: problem.steps.clone(),
        ..ScoreRequest::default()
    };
    if with_references {
        request.references = problem.references.iter().map(reference).collect();
        request.step_references =
            problem.reference_steps.iter().map(|steps| steps.iter().map(similar).collect()).collect();
    }
    request
}

fn check(family: &str, profile: &str) {
    let expected = expected();
    let mut profile = Profile::find(profile).unwrap();
    if family == "math-shepherd" {
        // The tiny vocabulary has the signs without a space before them.
        profile.score = Score::Tokens { positive: "+".to_owned(), negative: "-".to_owned() };
    }
    let Family { model, cases } = &expected.families[family];
    let requests: Vec<ScoreRequest> = expected
        .problems
        .iter()
        .enumerate()
        .map(|(number, problem)| request(number, problem, family == "retrieval"))
        .collect();
    let model = load(model);
    let assembler = Assembler::new(profile.clone(), &model.tokenizer).unwrap();
    for (request, case) in requests.iter().zip(cases) {
        let found = assembler.assemble(request, &model.tokenizer, model.context().max(4096)).unwrap().prompts;
        match &case.one_pass {
            // Their conversation has the last answer, too, after everything that is read.
            Some(whole) => {
                assert_eq!(found[0].0, whole.ids[..found[0].0.len()], "{family}, {}", request.id);
                assert_eq!(found[0].1, whole.positions);
            }
            None if case.prompts.is_empty() => {
                assert_eq!(found, [(case.ids.clone(), case.positions.clone())], "{family}, {}", request.id);
            }
            None => {
                let wanted: Vec<_> =
                    case.prompts.iter().map(|prompt| (prompt.ids.clone(), vec![prompt.position])).collect();
                assert_eq!(found, wanted, "{family}, {}", request.id);
            }
        }
    }
    for tree_packing in [true, false] {
        let options = ServiceOptions { tree_packing, ..ServiceOptions::default() };
        let engine =
            Engine::start(load(&expected.families[family].model), Some(profile.clone()), options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(engine.score_steps(requests.clone())).unwrap();
        for (scores, case) in found.into_iter().zip(cases) {
            let scores = scores.unwrap().scores;
            assert_eq!(scores.len(), case.scores.len());
            for (score, wanted) in scores.iter().zip(&case.scores) {
                if is_rounded() {
                    assert!((*score as f32 - wanted).abs() < 0.1, "{family}: {score} against {wanted}");
                } else {
                    close(family, *score as f32, *wanted);
                }
            }
        }
    }
}

macro_rules! families {
    ($($test:ident: $family:literal as $profile:literal,)*) => {$(
        #[test]
        fn $test() {
            check($family, $profile);
        }
    )*};
}

families! {
    qwen_math_prm_follows_its_recipe: "qwen2.5-math-prm" as "qwen2.5-math-prm",
    skywork_follows_its_recipe: "skywork-o1-prm" as "skywork-prm",
    rlhflow_follows_its_recipe: "rlhflow" as "rlhflow",
    math_shepherd_follows_its_recipe: "math-shepherd" as "math-shepherd",
    spare_follows_its_recipe: "spare" as "spare-prm",
    plain_follows_its_recipe: "plain" as "plain",
    retrieval_prm_follows_its_recipe: "retrieval" as "retrieval-prm",
    trl_follows_its_recipe: "trl" as "trl",
}

#[test]
fn a_tagged_text_has_references_where_its_profile_puts_them() {
    let mut profile =
        Profile::find(concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes/profiles/retrieval-classes.toml"))
            .unwrap();
    let Input::Tagged(tagged) = &mut profile.input else { panic!("it is tagged") };
    tagged.tag = "+".to_owned();
    assert_eq!(Templates::new(profile.clone()).unwrap().sees(), (true, true));
    let expected = expected();
    let model = load(&expected.families["retrieval"].model);
    let assembler = Assembler::new(profile, &model.tokenizer).unwrap();
    let text = |with_references| {
        let request = request(0, &expected.problems[0], with_references);
        let assembled = assembler.assemble(&request, &model.tokenizer, 4096).unwrap();
        assert_eq!(assembled.prompts[0].1.len(), request.steps.len());
        model.tokenizer.decode(&assembled.prompts[0].0, false).unwrap()
    };
    insta::assert_snapshot!(format!("{}\n=== without ===\n{}", text(true), text(false)));
}
