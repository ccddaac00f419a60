//! Guided search on the synthetic world: with a perfect scorer it finds what greedy decoding misses, with a random one
//! it does no better than chance, and its budget is kept to the token.

mod world;

use gradus_core::contracts::{
    Answer, CallError, Choice, FinishReason, Generate, GenerateRequest, Generated, Prompt, Sampling,
    ScoreRequest, ScoreSteps, StepScores, Usage,
};
use gradus_core::select::search::{
    Ask, BeamConfig, Choose, Question, SampleConfig, SearchOutcome, Settings, StopReason, TreeConfig, beam,
    sample, tree,
};
use gradus_grade::{Verdict, compare};
use proptest::prelude::*;
use world::{Policy, RIGHT, Scorer, Task, block_on, perfect, random, tasks};

const PROBLEMS: usize = 300;

/// One of the searches.
#[derive(Debug, Clone)]
enum Search {
    Sample(SampleConfig),
    Beam(BeamConfig),
    Tree(TreeConfig),
}

impl Search {
    fn run(
        &self,
        policy: &dyn Generate,
        scorer: &dyn ScoreSteps,
        question: Question<'_>,
    ) -> Result<SearchOutcome, CallError> {
        match self {
            Self::Sample(config) => block_on(sample(policy, scorer, question, config)),
            Self::Beam(config) => block_on(beam(policy, scorer, question, config)),
            Self::Tree(config) => block_on(tree(policy, scorer, question, config)),
        }
    }

    fn settings(&mut self) -> &mut Settings {
        match self {
            Self::Sample(config) => &mut config.settings,
            Self::Beam(config) => &mut config.settings,
            Self::Tree(config) => &mut config.settings,
        }
    }

    /// All three at the same size: four solutions or ways at a time.
    fn all(settings: &Settings, expansions: usize) -> [(&'static str, Self); 3] {
        let settings = || settings.clone();
        let best = SampleConfig { n: 4 * expansions, settings: settings(), ..SampleConfig::default() };
        let beams = BeamConfig { width: 4, expansions, settings: settings(), ..BeamConfig::default() };
        let trees = TreeConfig { trees: 4, expansions, settings: settings(), ..TreeConfig::default() };
        [("best of n", Self::Sample(best)), ("beam", Self::Beam(beams)), ("tree", Self::Tree(trees))]
    }
}

/// How often a search ends with the right answer.
fn solved(tasks: &[Task], search: &Search, policy: &dyn Generate, scorer: &dyn ScoreSteps) -> usize {
    let right = |task: &&Task| {
        let outcome = search.run(policy, scorer, Question::plain(&task.question)).unwrap();
        outcome.answer().is_some_and(|found| compare(&task.answer, found) == Verdict::Equal)
    };
    tasks.iter().filter(right).count()
}

fn greedy() -> Search {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let settings = Settings { sampling, ..Settings::default() };
    Search::Sample(SampleConfig { settings, ..SampleConfig::default() })
}

/// The least and the largest count that lie inside the central 99 % when event `i` has probability `chances[i]`, exactly.
fn central_99(chances: &[f64]) -> (usize, usize) {
    let mut counts = vec![1.0];
    for chance in chances {
        counts.push(0.0);
        for count in (0..counts.len()).rev() {
            let before = if count == 0 { 0.0 } else { counts[count - 1] };
            counts[count] = counts[count] * (1.0 - chance) + before * chance;
        }
    }
    let tail = |values: &mut dyn Iterator<Item = &f64>| {
        let mut sum = 0.0;
        values
            .take_while(|value| {
                sum += **value;
                sum < 0.005
            })
            .count()
    };
    (tail(&mut counts.iter()), counts.len() - 1 - tail(&mut counts.iter().rev()))
}

#[test]
fn a_perfect_scorer_finds_what_greedy_misses() {
    let tasks = tasks(PROBLEMS, 5);
    let (policy, scorer) = (Policy::new(&tasks), perfect(&tasks));
    assert_eq!(solved(&tasks, &greedy(), &policy, &scorer), 0);
    let found = Search::all(&Settings::default(), 8)
        .map(|(name, search)| (name, solved(&tasks, &search, &policy, &scorer)));
    assert_eq!(found, [("best of n", 159), ("beam", 294), ("tree", 300)], "of {PROBLEMS}");
}

#[test]
fn a_random_scorer_does_no_better_than_chance() {
    const SEEDS: u64 = 5;
    let tasks = tasks(PROBLEMS, 6);
    let policy = Policy { remarks: true, ..Policy::new(&tasks) };
    // Whoever follows steps without looking at them gets each right with the same probability, whatever the search.
    let chance = |task: &Task| RIGHT.powi(task.steps.len() as i32);
    let chances: Vec<f64> = (0..SEEDS).flat_map(|_| tasks.iter().map(chance)).collect();
    let (least, most) = central_99(&chances);
    let mut found = [("", 0); 3];
    for seed in 2000..2000 + SEEDS {
        let scorer = random(seed);
        for (total, (name, search)) in
            found.iter_mut().zip(Search::all(&Settings { seed, ..Settings::default() }, 3))
        {
            *total = (name, total.1 + solved(&tasks, &search, &policy, &scorer));
        }
    }
    for (name, solved) in found {
        assert!((least..=most).contains(&solved), "{name}: {solved} not in {least}..={most}; {found:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let tasks = tasks(6, 7);
    let (policy, scorer) = (Policy { remarks: true, ..Policy::new(&tasks) }, random(0));
    let run =
        |search: &Search, task: &Task| search.run(&policy, &scorer, Question::plain(&task.question)).unwrap();
    for (name, mut search) in Search::all(&Settings { seed: 3, budget: Some(5000), ..Settings::default() }, 4)
    {
        let first: Vec<SearchOutcome> = tasks.iter().map(|task| run(&search, task)).collect();
        let again: Vec<SearchOutcome> = tasks.iter().map(|task| run(&search, task)).collect();
        assert!(first == again, "{name}");
        search.settings().seed = 4;
        let other: Vec<SearchOutcome> = tasks.iter().map(|task| run(&search, task)).collect();
        assert!(first != other, "{name}");
        let text = serde_json::to_string(&first).unwrap();
        assert_eq!(serde_json::from_str::<Vec<SearchOutcome>>(&text).unwrap(), first, "{name}");
    }
}

fn any_search() -> impl Strategy<Value = Search> {
    let settings = |seed, budget| Settings { seed, budget: Some(budget), ..Settings::default() };
    let (seeds, budgets) = (0u64..1000, 0u64..1500);
    prop_oneof![
        (seeds.clone(), budgets.clone(), 1usize..12, 1usize..120).prop_map(
            move |(seed, budget, n, max_tokens)| {
                Search::Sample(SampleConfig { n, max_tokens, settings: settings(seed, budget) })
            }
        ),
        (seeds.clone(), budgets.clone(), (1usize..6, 1usize..6, 1usize..40, 1usize..5)).prop_map(
            move |(seed, budget, (width, expansions, step_tokens, stop_after))| {
                let settings = settings(seed, budget);
                Search::Beam(BeamConfig {
                    width,
                    expansions,
                    step_tokens,
                    stop_after,
                    max_steps: 12,
                    settings,
                })
            }
        ),
        (seeds, budgets, (1usize..6, 1usize..6, 1usize..40)).prop_map(
            move |(seed, budget, (trees, expansions, step_tokens))| {
                let settings = settings(seed, budget);
                Search::Tree(TreeConfig { trees, expansions, step_tokens, max_steps: 12, settings })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn the_budget_is_kept_to_the_token(mut search in any_search(), index in 0usize..8) {
        let tasks = tasks(8, 8);
        let (policy, scorer) = (Policy::new(&tasks), perfect(&tasks));
        let question = Question::plain(&tasks[index].question);
        let budget = search.settings().budget.unwrap();
        let outcome = search.run(&policy, &scorer, question).unwrap();
        // At no time could a request have used more than was left.
        let mut spent = 0;
        for asked in policy.asked.lock().unwrap().iter() {
            let most = (asked.n * asked.max_tokens) as u64;
            prop_assert!(asked.used <= most && spent + most <= budget, "{asked:?} after {spent} of {budget}");
            spent += asked.used;
        }
        prop_assert_eq!(outcome.usage.generated_tokens, spent);
        if outcome.stopped == StopReason::Budget && !matches!(search, Search::Tree(_)) {
            prop_assert_eq!(spent, budget);
        }
        // Bookkeeping.
        let chosen = outcome.best();
        prop_assert_eq!(chosen.is_some(), outcome.solutions.iter().any(|found| found.complete));
        prop_assert!(chosen.is_none_or(|found| found.complete));
        for found in &outcome.solutions {
            prop_assert_eq!(found.steps.len(), found.scores.len());
            prop_assert!(found.complete || found.answer.is_none());
        }
        // What is enough without a limit is enough as a limit, to the token.
        search.settings().budget = None;
        let free = search.run(&policy, &scorer, question).unwrap();
        prop_assert!(free.stopped != StopReason::Budget);
        if !matches!(search, Search::Tree(_)) {
            search.settings().budget = Some(free.usage.generated_tokens);
            let exact = search.run(&policy, &scorer, question).unwrap();
            prop_assert_eq!(exact.usage.generated_tokens, free.usage.generated_tokens);
            prop_assert_eq!(exact.solutions, free.solutions);
        }
    }
}

/// A model that a function plays: the prompt and the sample's index in, its text and end out.
struct Script(fn(&str, u64) -> ScriptedReply);

type ScriptedReply = Result<(String, FinishReason), CallError>;

impl Generate for Script {
    fn generate(&self, request: GenerateRequest) -> Answer<'_, Generated> {
        let Prompt::Text(prompt) = &request.prompt else { panic!("the prompt is text") };
        let draw = |index: usize| {
            let (text, finish) = (self.0)(prompt, index as u64)?;
            Ok(Choice { text, finish, logprobs: Vec::new(), tokens: vec![index as u32] })
        };
        let choices: Result<Vec<Choice>, CallError> = (0..request.n).map(draw).collect();
        Box::pin(async move {
            let choices = choices?;
            let words = choices.iter().map(|choice| choice.text.split_whitespace().count() as u64 + 1);
            let usage = Usage { prompt_tokens: 0, completion_tokens: words.sum() };
            Ok(Generated { choices, usage })
        })
    }
}

fn ended(text: &str) -> ScriptedReply {
    Ok((text.to_owned(), FinishReason::Stop))
}

/// The longer a step the better.
fn by_length() -> impl ScoreSteps {
    Scorer(|request: &ScoreRequest| Ok(request.steps.iter().map(|step| step.len() as f64 / 100.0).collect()))
}

fn narrow() -> BeamConfig {
    BeamConfig { width: 2, expansions: 2, stop_after: 1, ..BeamConfig::default() }
}

#[test]
fn nothing_more_to_say_is_an_end() {
    // The model ends after its second step, which states no answer in words.
    let model =
        Script(|prompt, _| ended(if prompt.contains("7 apples") { "" } else { "She has 7 apples.\n" }));
    let outcome = block_on(beam(&model, &by_length(), Question::plain("How many?"), &narrow())).unwrap();
    assert_eq!(outcome.answer(), Some("7"));
    let found = outcome.best().unwrap();
    assert_eq!((found.steps.as_slice(), found.scores.len()), (&["She has 7 apples.".to_owned()][..], 1));
    // Four samples of the first step are one; so are the four ends.
    assert_eq!(
        (outcome.usage.duplicates, outcome.usage.proposals, outcome.stopped),
        (6, 8, StopReason::Enough)
    );

    let silent = Script(|_, _| ended("  "));
    let outcome = block_on(beam(&silent, &by_length(), Question::plain("How many?"), &narrow())).unwrap();
    assert_eq!((outcome.solutions.len(), outcome.usage.empty, outcome.stopped), (0, 4, StopReason::NoneLeft));
    let config = SampleConfig { n: 3, ..SampleConfig::default() };
    let outcome = block_on(sample(&silent, &by_length(), Question::plain("How many?"), &config)).unwrap();
    assert_eq!((outcome.chosen, outcome.usage.empty), (None, 3));
}

#[test]
fn who_knows_the_end_tokens_need_not_guess() {
    struct Knowing;
    impl Ask for Knowing {
        fn prompt(&self, question: &str, begun: &str) -> Prompt {
            Prompt::Text(format!("Q: {question}\nA: {begun}"))
        }
        fn is_end(&self, choice: &Choice) -> bool {
            choice.tokens == [1]
        }
    }
    let model = Script(|prompt, index| {
        assert!(prompt.starts_with("Q: How many?\nA: "));
        ended(if index == 1 { "She has 7 apples." } else { "Let us count." })
    });
    let question = Question { text: "How many?", ask: &Knowing };
    let outcome = block_on(beam(&model, &by_length(), question, &narrow())).unwrap();
    assert_eq!((outcome.answer(), outcome.usage.generate_calls), (Some("7"), 1));
}

#[test]
fn a_cut_step_is_no_step() {
    let model = Script(|prompt, _| match prompt.contains("Begin.") {
        true => Ok(("The answer is 1".to_owned(), FinishReason::Length)),
        false => ended("Begin."),
    });
    let outcome = block_on(beam(&model, &by_length(), Question::plain("How many?"), &narrow())).unwrap();
    assert_eq!((outcome.chosen, outcome.usage.cut, outcome.stopped), (None, 4, StopReason::NoneLeft));
    assert_eq!(outcome.solutions[0].steps, ["Begin."]);
}

#[test]
fn a_better_way_on_is_taken_and_a_complete_solution_kept_in_reserve() {
    // A hasty answer, and a long way that never ends.
    let model = Script(|prompt, index| match index % 2 {
        0 => ended(&format!("A long and careful step {}, well explained.", prompt.len())),
        _ => ended("The answer is 5."),
    });
    let config = BeamConfig { width: 1, max_steps: 3, ..narrow() };
    let outcome = block_on(beam(&model, &by_length(), Question::plain("How many?"), &config)).unwrap();
    assert_eq!((outcome.stopped, outcome.answer()), (StopReason::Steps, Some("5")));
    let complete: Vec<bool> = outcome.solutions.iter().map(|found| found.complete).collect();
    assert_eq!(complete, [true, false]);
}

#[test]
fn a_failing_scorer_is_counted_and_its_proposals_rank_last() {
    let tasks = tasks(20, 9);
    let policy = Policy::new(&tasks);
    let truth = tasks.clone();
    // Refuses whatever has a slip in it.
    let scorer = Scorer(move |request: &ScoreRequest| {
        let task = truth.iter().find(|task| task.question == request.problem).unwrap();
        let right = request.steps.iter().zip(&task.steps).all(|(step, truth)| step == truth);
        if right { Ok(vec![0.1; request.steps.len()]) } else { Err(CallError::Failed("no such step".into())) }
    });
    for (name, search) in Search::all(&Settings::default(), 8).into_iter().skip(1) {
        for task in &tasks {
            let outcome = search.run(&policy, &scorer, Question::plain(&task.question)).unwrap();
            assert_eq!(outcome.best().map(|found| &found.steps), Some(&task.steps), "{name}");
            assert!(outcome.usage.undecided > 0);
            assert_eq!(outcome.error.as_deref(), Some("no such step"));
        }
    }
    // One score too few is no score, nor is one that is not a number.
    for scores in [vec![], vec![f64::NAN]] {
        let scorer = Scorer(move |_: &ScoreRequest| Ok(scores.clone()));
        let model = Script(|_, _| ended("The answer is 5."));
        let outcome = block_on(beam(&model, &scorer, Question::plain("How many?"), &narrow())).unwrap();
        assert_eq!((outcome.answer(), outcome.usage.undecided), (Some("5"), 1));
        assert_eq!(outcome.solutions[0].aggregate, None);
    }
}

/// A scorer that has gone away; the search goes on unguided. Its future can move between threads.
#[test]
fn a_scorer_that_is_gone_is_told() {
    struct Gone;
    impl ScoreSteps for Gone {
        fn score_steps(&self, _: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
            Box::pin(async { Err(CallError::Failed("no connection".into())) })
        }
    }
    fn movable<T: Send>(future: T) -> T {
        future
    }
    let model = Script(|_, index| ended(&format!("The answer is {index}.")));
    let config = narrow();
    let outcome = block_on(movable(beam(&model, &Gone, Question::plain("How many?"), &config))).unwrap();
    assert_eq!((outcome.answer(), outcome.usage.undecided), (Some("0"), 4));
    assert_eq!((outcome.error.as_deref(), outcome.stopped), (Some("no connection"), StopReason::Enough));
}

#[test]
fn a_failing_generator_ends_the_search_with_what_there_is() {
    let tasks = tasks(1, 10);
    let scorer = perfect(&tasks);
    let question = Question::plain(&tasks[0].question);
    for (name, search) in Search::all(&Settings::default(), 8) {
        let policy = Policy { fails_at: Some(0), ..Policy::new(&tasks) };
        let error = search.run(&policy, &scorer, question).unwrap_err();
        assert_eq!(error, CallError::Failed("out of memory".into()), "{name}");
    }
    let [_, (_, search), _] = Search::all(&Settings::default(), 8);
    let policy = Policy { fails_at: Some(1), ..Policy::new(&tasks) };
    let outcome = search.run(&policy, &scorer, question).unwrap();
    assert_eq!((outcome.stopped, outcome.chosen), (StopReason::Failed, None));
    assert_eq!(outcome.error.as_deref(), Some("out of memory"));
    assert!(outcome.solutions.iter().all(|found| found.steps.len() == 1 && !found.complete));

    // A request that is refused ends one solution, not the search.
    let model = Script(|prompt, index| match (prompt.contains("long"), index % 2) {
        (true, _) => Err(CallError::Invalid("the context is full".into())),
        (false, 0) if !prompt.contains("short") => ended("This is a long step."),
        (false, _) => ended(if prompt.contains("short") { "The answer is 5." } else { "A short one." }),
    });
    let outcome = block_on(beam(&model, &by_length(), Question::plain("How many?"), &narrow())).unwrap();
    assert_eq!((outcome.answer(), outcome.usage.failed_calls), (Some("5"), 1));
}

#[test]
fn a_model_that_does_not_count_is_charged_in_full() {
    struct Uncounted;
    impl Generate for Uncounted {
        fn generate(&self, request: GenerateRequest) -> Answer<'_, Generated> {
            let choice = Choice {
                text: format!("Step {}", request.seed),
                finish: FinishReason::Stop,
                logprobs: Vec::new(),
                tokens: Vec::new(),
            };
            let choices = vec![choice; request.n];
            Box::pin(async move { Ok(Generated { choices, usage: Usage::default() }) })
        }
    }
    let settings = Settings { budget: Some(1000), ..Settings::default() };
    let config = BeamConfig { step_tokens: 100, settings, ..narrow() };
    let outcome = block_on(beam(&Uncounted, &by_length(), Question::plain("How many?"), &config)).unwrap();
    assert_eq!((outcome.usage.generated_tokens, outcome.stopped), (1000, StopReason::Budget));
}

#[test]
fn greedy_asks_once_and_votes_count_every_sample() {
    let model = Script(|_, index| ended(if index % 3 == 0 { "The answer is 1/2." } else { "Answer: 0.25" }));
    let outcome = greedy().run(&model, &by_length(), Question::plain("How much?")).unwrap();
    assert_eq!((outcome.solutions.len(), outcome.answer()), (1, Some("1/2")));
    let settings = Settings { choose: Choose::Majority, ..Settings::default() };
    let config = SampleConfig { n: 9, settings, ..SampleConfig::default() };
    let outcome = block_on(sample(&model, &by_length(), Question::plain("How much?"), &config)).unwrap();
    assert_eq!((outcome.solutions.len(), outcome.answer()), (9, Some("0.25")));
}

#[test]
fn what_cannot_work_is_refused() {
    let model = Script(|_, _| ended("never asked"));
    let refused = |config: BeamConfig| {
        block_on(beam(&model, &by_length(), Question::plain("How many?"), &config)).unwrap_err().to_string()
    };
    assert_eq!(refused(BeamConfig { width: 0, ..narrow() }), "field `width`: is 0: expected at least 1");
    let settings = Settings { separator: String::new(), ..Settings::default() };
    let separator = "field `settings.separator`: is empty: expected the text between two steps";
    assert_eq!(refused(BeamConfig { settings, ..narrow() }), separator);
}
