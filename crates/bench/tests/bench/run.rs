//! A run: what fails is undecided and counted against the judge, what was answered is never asked again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gradus_bench::judge::{Judge, Judged, Opinion, Scorer};
use gradus_bench::run::{JudgeSource, Run, reasons};
use gradus_bench::{Error, Sample, drift, processbench};
use gradus_core::contracts::{Answer, CallError, ScoreRequest, ScoreSteps, StepScores, Usage};
use gradus_core::metrics::bootstrap::Settings;
use gradus_core::select::DecisionRule;
use gradus_core::{Annotation, LabelSource, Outcome, Problem, Solution};

/// A report was written through a link, and an answer appended through one.
#[cfg(unix)]
#[test]
fn links_and_pipes_in_a_foreign_run_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let (folder, other, victim) =
        (root.path().join("run"), root.path().join("other"), root.path().join("victim"));
    drop(Run::open(&folder).unwrap());
    std::fs::write(&victim, "years of work").unwrap();
    for name in ["judged.jsonl", "report.json", "report.html", "facts.jsonl", "groups.jsonl"] {
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let message = Run::open(&folder).err().unwrap().to_string();
        assert!(message.contains(name) && message.contains("is a symbolic link"), "{message}");
        let mut run = Run::open(&other).unwrap();
        assert!(name != "judged.jsonl" || run.also(&folder).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(Run::open(&folder).err().unwrap().to_string().contains("is a pipe"));
        assert!(name != "judged.jsonl" || run.also(&folder).is_err());
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(std::fs::read_to_string(victim).unwrap(), "years of work");
}

/// Arithmetic that is proved wrong is an error for a profile with exact checks, whatever the scores say, and the scores alone are
/// shown beside it.
#[test]
fn exact_checks_find_what_scores_miss() {
    let solution = Solution {
        id: "a".to_owned(),
        steps: ["There are 48/2 = 26 in May.", "So 26 + 48 = 74."].map(str::to_owned).to_vec(),
        annotations: vec![Annotation::from_first_error(2, Some(0), &LabelSource::Human)],
        ..Solution::default()
    };
    let right = Solution {
        id: "b".to_owned(),
        steps: vec!["There are 48/2 = 24 in May.".to_owned()],
        annotations: vec![Annotation::from_first_error(1, None, &LabelSource::Human)],
        ..Solution::default()
    };
    let problem = Arc::new(Problem { text: "How many in all?".to_owned(), ..Problem::default() });
    let sample = |solution| Sample { subset: "mine".to_owned(), problem: problem.clone(), solution };
    let samples = [sample(solution), sample(right)];
    let judged = [0.9, 0.9].map(|score| Judged::free(Opinion::Scores(vec![score; 2])));
    let accuracy = |exact_checks| {
        let decider = processbench::Decider { exact_checks, ..processbench::Decider::default() };
        let (numbers, _) = processbench::measure(&samples, &judged, decider, &Settings::default()).unwrap();
        // The number that is fitted is the best for what decides: at the lowest threshold only a proof finds an error.
        let swept = numbers.sweep[0].f1[0];
        (numbers.subsets[0].scores.acc_err, numbers.without_checks.is_some(), swept)
    };
    assert_eq!(accuracy(false), (Some(0.0), false, Some(0.0)));
    assert_eq!(accuracy(true), (Some(1.0), true, Some(1.0)));
}

/// Finds every first error, except that some requests fail.
struct Perfect {
    asked: AtomicUsize,
    fails: fn(usize) -> Option<CallError>,
}

impl Perfect {
    fn new(fails: fn(usize) -> Option<CallError>) -> Self {
        Self { asked: AtomicUsize::new(0), fails }
    }
}

impl ScoreSteps for Perfect {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        let score = |request: ScoreRequest| {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let number: usize = request.id.parse().unwrap();
            match (self.fails)(number) {
                Some(error) => Err(error),
                None => {
                    let scores = (0..request.steps.len())
                        .map(|step| if truth(number) == Some(step) { 0.1 } else { 0.9 });
                    let usage = Usage { prompt_tokens: 10, completion_tokens: 0 };
                    Ok(StepScores { scores: scores.collect(), usage })
                }
            }
        };
        let scored = requests.into_iter().map(score).collect();
        Box::pin(async move { Ok(scored) })
    }
}

fn truth(number: usize) -> Option<usize> {
    number.is_multiple_of(2).then_some(number % 3)
}

fn samples(count: usize) -> Vec<Sample> {
    let sample = |number: usize| Sample {
        subset: "made-up".to_owned(),
        problem: Arc::new(Problem {
            id: format!("p{number}"),
            text: format!("Problem {number}?"),
            ..Problem::default()
        }),
        solution: Solution {
            id: number.to_string(),
            steps: vec!["one".to_owned(), "two".to_owned(), "three".to_owned()],
            annotations: vec![Annotation::from_first_error(3, truth(number), &LabelSource::Human)],
            outcome: Outcome::from_correct(truth(number).is_none()),
            ..Solution::default()
        },
    };
    (0..count).map(sample).collect()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn judged(folder: &std::path::Path, model: &Perfect, count: usize) -> gradus_bench::Result<Vec<Judged>> {
    let scorer = Scorer(model);
    let source = JudgeSource::Asked(&scorer as &dyn Judge, "perfect".to_owned());
    let mut run = Run::open(folder)?;
    wait(run.judge(&samples(count), &source, 4, |_| true)).map(|(judged, _)| judged)
}

#[test]
fn a_text_that_was_sampled_several_times_is_asked_about_once() {
    let folder = tempfile::tempdir().unwrap();
    let model = Perfect::new(|_| None);
    let scorer = Scorer(&model);
    let source = JudgeSource::Asked(&scorer as &dyn Judge, "perfect".to_owned());
    let drawn: Vec<Sample> = samples(2).into_iter().flat_map(|sample| vec![sample; 3]).collect();
    let mut run = Run::open(folder.path()).unwrap();
    let (judged, progress) = wait(run.judge(&drawn, &source, 4, |_| true)).unwrap();
    assert_eq!((model.asked.load(Ordering::SeqCst), judged.len()), (2, 6));
    assert_eq!((progress.done, progress.tokens), (6, 20));
    assert!(judged[..3].iter().all(|found| found.opinion == judged[0].opinion));
}

#[test]
fn failures_are_undecided_counted_and_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let shaky = Perfect::new(|number| match number % 10 {
        3 => Some(CallError::Failed("the server is down".to_owned())),
        4 => Some(CallError::Invalid("too long".to_owned())),
        _ => None,
    });
    let first = judged(folder.path(), &shaky, 50).unwrap();
    let why = reasons(&first);
    assert_eq!(why["the call failed: the server is down"], 5);
    assert_eq!(why["refused: too long"], 5);

    // A perfect judge that is silent on a fifth of the samples is not perfect.
    let (numbers, _) =
        processbench::measure(&samples(50), &first, processbench::Decider::default(), &Settings::default())
            .unwrap();
    let scores = numbers.subsets[0].scores;
    assert_eq!((scores.erroneous, scores.error_free, scores.undecided), (25, 25, 10));
    assert_eq!((scores.acc_err, scores.acc_cor, scores.accuracy), (Some(0.8), Some(0.8), Some(0.8)));

    // What may pass is asked again; what was refused or answered is not.
    let healthy = Perfect::new(|_| None);
    let second = judged(folder.path(), &healthy, 50).unwrap();
    assert_eq!(healthy.asked.load(Ordering::SeqCst), 5);
    assert_eq!(reasons(&second).values().sum::<usize>(), 5);
}

#[test]
fn a_stopped_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let model = Perfect::new(|_| None);
    let scorer = Scorer(&model);
    let source = JudgeSource::Asked(&scorer as &dyn Judge, "perfect".to_owned());
    let mut run = Run::open(folder.path()).unwrap();
    let stopped = wait(run.judge(&samples(40), &source, 4, |progress| progress.done < 17));
    assert!(matches!(stopped, Err(Error::Stopped)));
    drop(run);
    let asked = model.asked.load(Ordering::SeqCst);
    assert!((17..=17 + 4).contains(&asked), "{asked}");
    let found = judged(folder.path(), &model, 40).unwrap();
    // The 17 that were answered are not asked again; what was in flight is.
    assert_eq!(model.asked.load(Ordering::SeqCst), asked + 40 - 17);
    assert!(
        found.iter().enumerate().all(
            |(number, judged)| judged.opinion.first_error(DecisionRule::default()) == Some(truth(number))
        )
    );
}

#[test]
fn another_judge_gets_its_own_answers() {
    let folder = tempfile::tempdir().unwrap();
    let model = Perfect::new(|_| None);
    judged(folder.path(), &model, 6).unwrap();
    let scorer = Scorer(&model);
    let other = JudgeSource::Asked(&scorer as &dyn Judge, "another".to_owned());
    let mut run = Run::open(folder.path()).unwrap();
    let (_, progress) = wait(run.judge(&samples(6), &other, 4, |_| true)).unwrap();
    assert_eq!((progress.resumed, model.asked.load(Ordering::SeqCst)), (0, 12));
}

#[test]
fn a_judge_that_only_fails_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let dead = Perfect::new(|_| Some(CallError::Failed("connection refused".to_owned())));
    let error = judged(folder.path(), &dead, 100).unwrap_err().to_string();
    assert!(error.contains("connection refused"), "{error}");
    assert!(dead.asked.load(Ordering::SeqCst) < 30);
}

#[test]
fn a_judge_that_refuses_everything_is_an_error_and_leaves_nothing_behind() {
    let wrong_key = |_| Some(CallError::Refused("answered 401 Unauthorized".to_owned()));
    let too_long = |_| Some(CallError::Invalid("context too long: 9000 tokens".to_owned()));
    for fails in [wrong_key as fn(usize) -> Option<CallError>, too_long] {
        let folder = tempfile::tempdir().unwrap();
        let said = judged(folder.path(), &Perfect::new(fails), 3).unwrap_err().to_string();
        assert!(said.contains(&fails(0).unwrap().to_string()), "{said}");
        // The right key, or a longer context, is asked about everything.
        let healthy = Perfect::new(|_| None);
        assert_eq!(reasons(&judged(folder.path(), &healthy, 3).unwrap()).len(), 0);
        assert_eq!(healthy.asked.load(Ordering::SeqCst), 3);
    }
    // Some that are too long are results of a judge that answers others.
    let folder = tempfile::tempdir().unwrap();
    let short = Perfect::new(|number| {
        (number < 2).then(|| CallError::Invalid(format!("context too long: {number} tokens too many")))
    });
    assert_eq!(reasons(&judged(folder.path(), &short, 4).unwrap())["refused: context too long"], 2);
    let again = Perfect::new(|_| None);
    judged(folder.path(), &again, 4).unwrap();
    assert_eq!(again.asked.load(Ordering::SeqCst), 0);
}

#[test]
fn recorded_scores_need_no_judge() {
    let folder = tempfile::tempdir().unwrap();
    let mut samples = samples(3);
    samples[0].solution.scores.insert("prm".to_owned(), vec![0.2, 0.9, 0.9]);
    samples[1].solution.scores.insert("prm".to_owned(), vec![0.2]);
    let mut run = Run::open(folder.path()).unwrap();
    let source = JudgeSource::Recorded("prm".to_owned());
    let (judged, progress) = wait(run.judge(&samples, &source, 4, |_| true)).unwrap();
    assert_eq!(progress.undecided, 2);
    assert_eq!(judged[0].opinion, Opinion::Scores(vec![0.2, 0.9, 0.9]));
    let why = reasons(&judged);
    assert_eq!((why["not one score per step"], why["no scores of that name"]), (1, 1));
    let numbers = drift::measure(&samples, &judged, DecisionRule::default(), &Settings::default()).unwrap();
    assert_eq!((numbers.drift.undecided, numbers.drift.wrong_answer.solutions), (2, 1));
}
