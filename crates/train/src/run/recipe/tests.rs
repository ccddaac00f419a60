//! What a recipe resolves to, what is refused and with which sentence, and that any recipe survives being written and read.

use proptest::option::of as maybe;
use proptest::prelude::*;

use super::*;
use crate::data::{NeutralLabels, PairRule};
use crate::heads::HeadKind;
use crate::lora::AdapterDtype;
use crate::losses::{LabelLoss, LengthWeight};
use crate::objectives::Readout;
use crate::run::best::{BestMetric, BestValue};
use crate::run::order::TrainingLength;
use crate::schedule::{Schedule, Warmup};
use gradus_core::LabelsAfterError;
use gradus_engine::Precision;

const SMALLEST: &str = r#"
objective = "prm"
[model]
base = "smollm2-135m"
[data]
train = ["train.jsonl"]
[optimizer]
learning_rate = 1e-4
[steps]
epochs = 2
"#;

fn parse(text: &str, sets: &[&str]) -> Result<Recipe> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Recipe::parse(text, "recipe.toml", &sets)
}

fn smallest(sets: &[&str]) -> Recipe {
    parse(SMALLEST, sets).unwrap()
}

#[test]
fn everything_is_written_out() {
    insta::assert_snapshot!(smallest(&[]).to_toml());
}

#[test]
fn every_objective_is_written_out() {
    let all: Vec<String> = ["sft", "orm", "orpo", "grpo"]
        .map(|name| smallest(&[&format!("objective={name}"), "full={}", "data.eval=['e.jsonl']"]).to_toml())
        .into();
    insta::assert_snapshot!(all.join("\n----\n"));
}

#[test]
fn settings_take_toml_and_bare_words() {
    let recipe = smallest(&[
        "seed = 7",
        "model.device=cuda:1",
        "model.quantized=true",
        "lora.targets=['q_proj', \"o_proj\"]",
        "optimizer.warmup=0.03",
        "optimizer.schedule=cosine",
        "prm.loss=squared_error",
        "prm.loss=cross_entropy",
        "data.limit=12",
    ]);
    assert_eq!((recipe.seed, recipe.model.device.as_str(), recipe.model.quantized), (7, "cuda:1", true));
    assert_eq!(recipe.optimizer.warmup, Warmup::Share(0.03));
    assert_eq!(recipe.optimizer.schedule, Schedule::Cosine);
    assert_eq!(recipe.data.limit, Some(12));
    let Tuning::Lora(lora) = recipe.tuning else { panic!("lora is the default") };
    assert_eq!(lora.targets, ["q_proj", "o_proj"]);
    assert!(matches!(recipe.objective, Objective::Prm(prm) if prm.loss == LabelLoss::CrossEntropy));
}

#[test]
fn a_setting_replaces_its_alternative() {
    assert_eq!(smallest(&["steps.total=30"]).steps.length, TrainingLength::Total(30));
    let sets = ["steps.total=30", "steps.epochs=3"];
    assert_eq!(smallest(&sets).steps.length, TrainingLength::Epochs(3));
    assert_eq!(smallest(&["lora.rank=4", "full={}"]).tuning, Tuning::Full);
}

#[test]
fn the_last_step_may_be_the_result() {
    let sets =
        ["data.eval=['e.jsonl']", "steps.result=last", "steps.eval_every=30", "steps.checkpoint_every=50"];
    let recipe = smallest(&sets);
    assert_eq!((&recipe.steps.best, recipe.steps.eval_every), (&None, Some(30)));
    assert_eq!(parse(&recipe.to_toml(), &[]).unwrap(), recipe);
    assert!(parse(SMALLEST, &sets[..1]).unwrap().steps.best.is_some());
}

#[test]
fn old_spellings_are_accepted() {
    let old = SMALLEST.replace("optimizer", "optimiser").replace("[data]", "quantised = true\n[data]");
    let sets = ["model.quantized=true", "optimizer.clip=2", "optimizer.warmup=3"];
    let new = smallest(&sets);
    assert_eq!(parse(&old, &["optimiser.clip=2", "optimizer.warmup=3"]).unwrap(), new);
    let whole = ["model={base='smollm2-135m',quantised=true}", "optimiser.clip=2", "optimiser.warmup=3"];
    assert_eq!(smallest(&whole), new);
    let both = format!("{SMALLEST}\n[optimiser]\nlearning_rate = 1");
    let message = parse(&both, &[]).unwrap_err().to_string();
    assert_eq!(message, "recipe.toml: has both `optimiser` and `optimizer`: keep `optimizer`");
}

#[test]
fn bad_recipes_are_refused_with_a_sentence() {
    let edits: &[(&str, &str)] = &[
        ("learning_rate", "lerning_rate"),
        ("[steps]", "[step]"),
        ("[data]", "[data]\nxyz = 1"),
        ("objective = \"prm\"", "objective = \"pmr\""),
        ("objective = \"prm\"", "objective = \"xyz\""),
        ("objective = \"prm\"", "seed = -1\nobjective = \"prm\""),
        ("learning_rate = 1e-4", ""),
        ("[optimizer]\nlearning_rate = 1e-4", ""),
        ("learning_rate = 1e-4", "learning_rate = \"fast\""),
        ("learning_rate = 1e-4", "learning_rate = 0"),
        ("learning_rate = 1e-4", "learning_rate = nan"),
        ("learning_rate = 1e-4", "learning_rate = 1e-4\nwarmup = 1.5"),
        ("learning_rate = 1e-4", "learning_rate = 1e-4\nwarmup = \"long\""),
        ("learning_rate = 1e-4", "learning_rate = 1e-4,"),
        ("train = [\"train.jsonl\"]", "train = \"train.jsonl\""),
        ("train = [\"train.jsonl\"]", "train = [\"a\", 3]"),
        ("train = [\"train.jsonl\"]", "train = []"),
        ("epochs = 2", "epochs = 2\ntotal = 10"),
        ("epochs = 2", ""),
        ("epochs = 2", "epochs = 2\neval_every = 10"),
        ("epochs = 2", "epochs = 2\nbest = { metric = \"f1\", is = \"highest\" }"),
        ("epochs = 2", "epochs = 2\nresult = \"last\""),
        (
            "[optimizer]\nlearning_rate = 1e-4\n[steps]",
            "eval = [\"e\"]\n[optimizer]\nlearning_rate = 1e-4\n[steps]\nbest = { metric = \"F1\", is = \"highest\" }",
        ),
        (
            "[optimizer]\nlearning_rate = 1e-4\n[steps]",
            "eval = [\"e\"]\n[optimizer]\nlearning_rate = 1e-4\n[steps]\nresult = \"last\"\nbest = { metric = \"f1\", is = \"highest\" }",
        ),
        ("[model]", "[grpo]\ngroup = 5\n[model]"),
        ("[model]", "[lora]\n[full]\n[model]"),
        ("[model]", "[lora]\nrnak = 3\n[model]"),
        ("[model]", "[full]\nrank = 3\n[model]"),
        ("[model]", "[prm]\nhead = \"value\"\nreadout = \"vocabulary\"\n[model]"),
        ("[model]", "[prm]\nloss = \"squared_error\"\nreadout = \"vocabulary\"\n[model]"),
        ("[model]", "[prm]\nloss = \"soft_cross_entropy\"\nreadout = \"vocabulary\"\n[model]"),
        ("[model]", "[batch]\ntokens = 100\n[model]"),
        ("[model]", "lora = 3\n[model]"),
        ("[model]", "[model]\nquantized = 1"),
        ("[model]", "[model]\ndevice = \"gpu\""),
        ("[model]", "[full]\n[model]\nquantized = true"),
    ];
    let messages = edits.iter().map(|(from, to)| {
        let text = SMALLEST.replace(from, to);
        assert_ne!(text, SMALLEST);
        parse(&text, &[]).unwrap_err().to_string()
    });
    insta::assert_snapshot!(messages.collect::<Vec<_>>().join("\n"));
}

#[test]
fn bad_settings_are_refused_with_a_sentence() {
    let sets = [
        "optimizer.lerning_rate=1",
        "lora={rnak = 3}",
        "seed",
        "=7",
        "seed.x=7",
        "data.train=[a.jsonl]",
        "objective=grop",
        "optimizer.learning_rate=fast",
        "optimizer.clip=-1",
    ];
    let mut messages = sets.map(|set| parse(SMALLEST, &[set]).unwrap_err().to_string()).to_vec();
    messages.push(parse(SMALLEST, &["objective=sft", "data.neutral=skip"]).unwrap_err().to_string());
    let unused = ["objective=sft", "data.labels_after_error=keep"];
    messages.push(parse(SMALLEST, &unused).unwrap_err().to_string());
    messages.push(parse(SMALLEST, &["objective=sft", "prm.profile=plain"]).unwrap_err().to_string());
    messages.push(parse(SMALLEST, &["objective=grpo", "grpo.temperature=0"]).unwrap_err().to_string());
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn differences_are_named() {
    let mine = smallest(&["data.limit=3"]);
    let theirs = smallest(&["seed=1", "optimizer.clip=2", "objective=sft"]);
    let found: Vec<String> =
        mine.differences(&theirs).into_iter().map(|(key, a, b)| format!("{key}: {a} | {b}")).collect();
    insta::assert_snapshot!(found.join("\n"));
    assert!(mine.differences(&mine).is_empty());
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let message = Recipe::read(Path::new("no-such-recipe.toml"), &[]).unwrap_err().to_string();
    assert_eq!(message, "no-such-recipe.toml: No such file or directory");
}

fn positive() -> impl Strategy<Value = f64> {
    1e-12_f64..1e6
}

fn share() -> impl Strategy<Value = f64> {
    0.0_f64..1.0
}

fn tuning() -> impl Strategy<Value = Tuning> {
    let targets = proptest::collection::vec("[a-z_]{1,8}", 1..4);
    prop_oneof![
        Just(Tuning::Full),
        (1_usize..999, positive(), share(), targets, any::<bool>()).prop_map(
            |(rank, alpha, dropout, targets, rslora)| Tuning::Lora(LoraConfig {
                rank,
                alpha,
                dropout,
                targets,
                rslora,
                stored: if rslora { AdapterDtype::Bf16 } else { AdapterDtype::F32 }
            })
        ),
    ]
}

fn objective() -> impl Strategy<Value = Objective> {
    let head = prop_oneof![
        Just((HeadKind::Classes, None)),
        Just((HeadKind::Value, None)),
        Just((HeadKind::Tokens, Some(Readout::VerdictTokens))),
    ];
    let length = prop_oneof![
        Just(LengthWeight::PerSample),
        Just(LengthWeight::Constant),
        Just(LengthWeight::PerToken)
    ];
    let loss = prop_oneof![
        Just(LabelLoss::CrossEntropy),
        Just(LabelLoss::SquaredError),
        Just(LabelLoss::SoftCrossEntropy)
    ];
    prop_oneof![
        any::<bool>()
            .prop_map(|answer_only| Objective::Sft(SftConfig { answer_only, ..SftConfig::default() })),
        ("[^\\s]{1,9}", loss, head.clone(), any::<bool>(), positive()).prop_map(
            |(profile, loss, (head, readout), by_problem, wrong_weight)| Objective::Prm(PrmConfig {
                pair_weight: if by_problem { wrong_weight } else { 0.0 },
                profile,
                loss,
                head,
                readout,
                by_problem,
                wrong_weight
            })
        ),
        ("[^\\s]{1,9}", head).prop_map(|(profile, (head, readout))| Objective::Orm(OrmConfig {
            profile,
            head,
            readout
        })),
        (positive(), any::<bool>(), maybe(1_usize..99)).prop_map(|(lambda, steps, max_pairs_per_problem)| {
            let pairs = if steps { PairRule::OutcomeAndSteps } else { PairRule::Outcome };
            Objective::Orpo(OrpoConfig { lambda, pairs, max_pairs_per_problem, ..OrpoConfig::default() })
        }),
        (2_usize..99, positive(), share(), length, any::<[bool; 3]>()).prop_map(
            |(group, number, part, length, flags)| {
                Objective::Grpo(GrpoConfig {
                    group,
                    temperature: number,
                    clip_low: part,
                    kl: part,
                    length,
                    advantage_std: flags[0],
                    perplexity_aware: flags[1],
                    class_level: flags[2],
                    ..GrpoConfig::default()
                })
            }
        ),
    ]
}

prop_compose! {
    fn recipes()(
        seed in 0..=i64::MAX as u64,
        base in "\\PC{0,12}[a-z]",
        device in "cpu|cuda|cuda:[0-9]",
        precision in maybe(prop_oneof![Just(Precision::F32), Just(Precision::Bf16x3), Just(Precision::Bf16)]),
        tuning in tuning(),
        train in proptest::collection::vec("\\PC{1,12}", 1..3),
        eval in proptest::collection::vec("\\PC{1,12}", 0..3),
        (format, limit, max_tokens, shuffle) in (maybe("[a-z]{1,5}"), maybe(1_usize..9), 1_usize..4096, any::<bool>()),
        (learning_rate, share, every) in (positive(), share(), 1_u64..50),
        warmup in prop_oneof![(0_u64..99).prop_map(Warmup::Steps), (0.0_f64..1.0).prop_map(Warmup::Share)],
        schedule in prop_oneof![Just(Schedule::Linear), Just(Schedule::Cosine), Just(Schedule::Constant)],
        length in prop_oneof![(1_u64..99).prop_map(TrainingLength::Total), (1_u64..99).prop_map(TrainingLength::Epochs)],
        objective in objective(),
    ) -> Recipe {
        let paths = |names: &[String]| names.iter().map(Into::into).collect::<Vec<_>>();
        let judged = !eval.is_empty();
        let labels = match &objective {
            Objective::Prm(_) => true,
            Objective::Orpo(orpo) => orpo.pairs == PairRule::OutcomeAndSteps,
            _ => false,
        };
        Recipe {
            seed,
            model: ModelConfig { base, device, adapter: None, quantized: false, precision },
            tuning,
            data: DataConfig {
                train: paths(&train),
                eval: paths(&eval),
                format,
                limit,
                max_tokens,
                annotator: labels.then(|| "judge".to_owned()),
                neutral: labels.then_some(NeutralLabels::Skip),
                labels_after_error: labels.then_some(LabelsAfterError::Keep),
                shuffle,
            },
            optimizer: OptimizerConfig {
                learning_rate, schedule, warmup, weight_decay: share, beta1: share, beta2: 0.5, epsilon: 1e-9, clip: 3.0,
            },
            batch: BatchConfig { tokens: max_tokens + 1, examples: 3 },
            steps: StepsConfig {
                length,
                eval_every: judged.then_some(every),
                checkpoint_every: every * 2,
                keep: 5,
                best: judged.then(|| BestMetric {
                    metric: objective.evaluation_metrics()[0].to_owned(),
                    is: BestValue::Highest,
                }),
            },
            objective,
        }
    }
}

proptest! {
    #[test]
    fn a_written_recipe_reads_as_itself(recipe in recipes()) {
        let text = recipe.to_toml();
        let back = parse(&text, &[]).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(back.to_toml(), text);
        prop_assert_eq!(back, recipe);
    }

    #[test]
    fn no_text_or_setting_panics(text in "\\PC{0,60}", set in "\\PC{0,30}") {
        let _ = parse(&text, &[]);
        let _ = parse(SMALLEST, &[&set]);
    }
}

#[test]
fn absurd_sizes_are_refused() {
    for (set, words) in [
        ("lora.rank=4000000000000", "`rank` in [lora] is 4000000000000: expected at most 65536"),
        ("lora.alpha=1e300", "`alpha` in [lora] is"),
        ("batch.examples=4000000000000", "`examples` in [batch] is 4000000000000: expected at most"),
        ("batch.tokens=4000000000000000", "`tokens` in [batch] is 4000000000000000: expected at most"),
    ] {
        let error = parse(SMALLEST, &[set]).unwrap_err().to_string();
        assert!(error.contains(words), "{set}: {error}");
    }
}
