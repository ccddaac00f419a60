use super::*;
use gradus_core::select::search::Plain;
use gradus_core::{Cost, FirstError};
use gradus_llm::Scripted;

/// A solution whose second step is wrong, and completions of its prefixes: after the first step 2 of 4 are right, after
/// the second and third none.
fn case() -> (Problem, Solution) {
    let problem = Problem {
        id: "p".into(),
        text: "What is 2 + 3 + 4?".into(),
        answer: Some("9".into()),
        ..Problem::default()
    };
    let steps = ["2 + 3 = 5", "5 + 4 = 8", "Nearly there", "The answer is 8."].map(str::to_owned).to_vec();
    (problem, Solution { id: "s".into(), steps, ..Solution::default() })
}

fn script() -> Scripted {
    let prompt = |steps: &[&str]| format!("What is 2 + 3 + 4?\n\n{}\n\n", steps.join("\n\n"));
    Scripted::new()
        .on(prompt(&["2 + 3 = 5"]), ["so \\boxed{8}", "so \\boxed{9}", "so \\boxed{9}", "hm"])
        .on(prompt(&["2 + 3 = 5", "5 + 4 = 8"]), ["so \\boxed{8}"])
        .on(prompt(&["2 + 3 = 5", "5 + 4 = 8", "Nearly there"]), ["so \\boxed{8}"])
}

fn by(model: &dyn Generate) -> Completer<'_> {
    Completer { model, name: "m", ask: &Plain }
}

async fn label(model: &Scripted, config: &MonteCarloConfig) -> Annotated {
    let (problem, solution) = case();
    annotate(by(model), &problem, &solution, config).await.unwrap()
}

fn counts(annotated: &Annotated) -> Vec<Option<(Mark, u32, u32)>> {
    let labels = &annotated.annotation.as_ref().unwrap().labels;
    labels
        .iter()
        .map(|label| {
            let label = label.as_ref()?;
            let LabelSource::MonteCarlo { model, successes, samples } = &label.source else {
                panic!("another source")
            };
            assert_eq!(model, "m");
            Some((label.mark, *successes, *samples))
        })
        .collect()
}

fn all_four() -> MonteCarloConfig {
    MonteCarloConfig { samples: 4, early_stop: false, ..MonteCarloConfig::default() }
}

#[tokio::test]
async fn hard_labels_of_all_samples() {
    let found = label(&script(), &all_four()).await;
    assert_eq!(counts(&found), [Some((Mark::Correct, 2, 4)), Some((Mark::Incorrect, 0, 4)), None, None]);
    assert_eq!(found.annotation.as_ref().unwrap().first_error, FirstError::At(1));
    // Words are tokens: prompts of 7 + 5 and 7 + 10 words, completions of 2, 2, 2, 1 and four times 2.
    let expected = Cost { requests: 2, prompt_tokens: 12 + 17, completion_tokens: 7 + 8, seconds: 0.0 };
    assert_eq!(found.cost, expected);
    assert_eq!(found.annotation.unwrap().cost, Some(expected));
    assert_eq!(found.notes["completions without an answer"], 1);
}

#[tokio::test]
async fn soft_labels_are_shares() {
    let found = label(&script(), &MonteCarloConfig { labels: Labels::Soft, ..all_four() }).await;
    let values: Vec<Option<f64>> =
        found.annotation.unwrap().labels.iter().flatten().map(|label| label.value).collect();
    assert_eq!(values, [Some(0.5), Some(0.0)]);
}

#[tokio::test]
async fn the_threshold_asks_for_more() {
    let found = label(&script(), &MonteCarloConfig { threshold: 2, ..all_four() }).await;
    assert_eq!(counts(&found), [Some((Mark::Incorrect, 2, 4)), None, None, None]);
}

#[tokio::test]
async fn a_step_is_sampled_until_its_label_is_certain() {
    // The script gives every request its first texts: the third one, for two samples, is the first to hold a right answer.
    let model = script();
    let found = label(&model, &MonteCarloConfig { early_stop: true, ..all_four() }).await;
    assert_eq!(counts(&found), [Some((Mark::Correct, 1, 4)), Some((Mark::Incorrect, 0, 4)), None, None]);
    let asked: Vec<usize> = model.generated().iter().map(|request| request.n).collect();
    assert_eq!(asked, [1, 1, 2, 1, 1, 2]);
    let seeds: Vec<u64> = model.generated().iter().map(|request| request.seed).collect();
    assert_eq!([seeds[1] - seeds[0], seeds[2] - seeds[0]], [1, 2]);
}

/// A model that is right with a chance that depends on the prefix, and says the same for the same seed.
struct Chancy {
    right: Vec<f64>,
    asked: std::sync::Mutex<(usize, usize)>,
}

impl Generate for Chancy {
    fn generate(
        &self,
        request: GenerateRequest,
    ) -> gradus_core::contracts::Answer<'_, gradus_core::contracts::Generated> {
        use gradus_core::contracts::{Choice, Generated, Prompt, Usage};
        let Prompt::Text(prompt) = &request.prompt else { panic!("text") };
        let steps = prompt.matches("step").count();
        let mut asked = self.asked.lock().unwrap();
        asked.0 += 1;
        asked.1 += request.n;
        let choices = (0..request.n).map(|sample| {
            let hash = blake3::hash(&(request.seed + sample as u64).to_le_bytes());
            let chance = f64::from(hash.as_bytes()[0]) / 256.0;
            let text = if chance < self.right[steps - 1] { "\\boxed{1}" } else { "\\boxed{0}" };
            Choice { text: text.into(), finish: FinishReason::Stop, logprobs: Vec::new(), tokens: Vec::new() }
        });
        let generated = Generated { choices: choices.collect(), usage: Usage::default() };
        Box::pin(async move { Ok(generated) })
    }
}

#[tokio::test]
async fn what_is_not_sampled_changes_nothing() {
    let problem = Problem { id: "p".into(), answer: Some("1".into()), ..Problem::default() };
    for threshold in 0..3 {
        let (mut all, mut early) = ((0, 0), (0, 0));
        for number in 0..60 {
            let steps = 5;
            let solution = Solution {
                id: format!("s{number}"),
                steps: vec!["step".to_owned(); steps],
                ..Solution::default()
            };
            let right: Vec<f64> = (0..steps).map(|step| 0.9 - 0.2 * step as f64).collect();
            let model = Chancy { right, asked: Default::default() };
            let config = MonteCarloConfig { threshold, early_stop: false, ..MonteCarloConfig::default() };
            let whole = annotate(by(&model), &problem, &solution, &config).await.unwrap();
            let spent = std::mem::take(&mut *model.asked.lock().unwrap());
            all = (all.0 + spent.0, all.1 + spent.1);
            let config = MonteCarloConfig { early_stop: true, ..config };
            let short = annotate(by(&model), &problem, &solution, &config).await.unwrap();
            let spent = *model.asked.lock().unwrap();
            early = (early.0 + spent.0, early.1 + spent.1);
            let marks = |found: &Annotated| {
                let labels = &found.annotation.as_ref().unwrap().labels;
                labels.iter().map(|label| label.as_ref().map(|label| label.mark)).collect::<Vec<_>>()
            };
            assert_eq!(marks(&whole), marks(&short), "solution {number}, threshold {threshold}");
        }
        assert!(early.1 < all.1, "threshold {threshold}: {early:?} samples of {all:?}");
    }
}

#[tokio::test]
async fn bisection_finds_the_first_error_with_fewer_steps() {
    let problem = Problem { id: "p".into(), answer: Some("1".into()), ..Problem::default() };
    let steps = 16;
    for first in 0..=steps {
        let solution =
            Solution { id: "s".into(), steps: vec!["step".to_owned(); steps], ..Solution::default() };
        let right = (0..steps).map(|step| f64::from(step < first)).collect();
        let model = Chancy { right, asked: Default::default() };
        let config = MonteCarloConfig { search: Search::Binary, ..MonteCarloConfig::default() };
        let found = annotate(by(&model), &problem, &solution, &config).await.unwrap();
        let expected = if first == steps { FirstError::None } else { FirstError::At(first) };
        assert_eq!(found.annotation.as_ref().unwrap().first_error, expected);
        let looked_at = counts(&found).into_iter().flatten().filter(|count| count.2 > 0).count();
        assert!(looked_at <= 5, "{looked_at} of {steps} steps");
    }
}

#[tokio::test]
async fn a_stated_answer_needs_no_completion_and_no_gold_no_labels() {
    let (problem, mut solution) = case();
    solution.steps = vec!["2 + 3 + 4 = 9".to_owned(), "The answer is 9.".to_owned()];
    let model = Scripted::new().on("What is 2 + 3 + 4?\n\n2 + 3 + 4 = 9\n\n", ["\\boxed{9}"]);
    let found = annotate(by(&model), &problem, &solution, &MonteCarloConfig::default()).await.unwrap();
    assert_eq!(counts(&found), [Some((Mark::Correct, 1, 1)), Some((Mark::Correct, 1, 1))]);
    assert_eq!(found.cost.requests, 1);
    let unknown = Problem { answer: None, ..problem };
    let found = annotate(by(&model), &unknown, &solution, &MonteCarloConfig::default()).await.unwrap();
    assert_eq!(found.undecided.unwrap().reason, "the problem has no answer to grade by");
}

#[test]
fn settings_that_cannot_be_meant() {
    let refused = |config: MonteCarloConfig| config.check().unwrap_err().to_string();
    assert!(refused(MonteCarloConfig { samples: 0, ..MonteCarloConfig::default() }).contains("at least 1"));
    assert!(
        refused(MonteCarloConfig { threshold: 8, ..MonteCarloConfig::default() }).contains("expected 0 to 7")
    );
    let soft =
        MonteCarloConfig { labels: Labels::Soft, search: Search::Binary, ..MonteCarloConfig::default() };
    assert!(refused(soft).contains("soft labels need every step"));
    let cold = Sampling { temperature: 0.0, ..Sampling::default() };
    assert!(refused(MonteCarloConfig { sampling: cold, ..MonteCarloConfig::default() }).contains("the same"));
}
