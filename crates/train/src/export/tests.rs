//! What is exported is what is trained on: prompts, targets, order, first weights.

use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value;

use super::*;
use crate::data::LeftOut;
use crate::example::Example;

/// A folder with data of the synthetic world.
fn world() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = gradus_synth::SynthConfig {
        seed: 7,
        problems: 12,
        solutions_per_problem: 3,
        wrong_share: 0.5,
        difficulty: (1, 1),
        ..gradus_synth::SynthConfig::default()
    };
    let records = gradus_synth::generate(&config);
    let lines: Vec<String> = records.map(|record| serde_json::to_string(&record).unwrap() + "\n").collect();
    std::fs::write(folder.path().join("train.jsonl"), lines.concat()).unwrap();
    std::fs::write(folder.path().join("eval.jsonl"), lines[..3].concat()).unwrap();
    folder
}

fn recipe(folder: &Path, objective: &str, sets: &[&str]) -> Recipe {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/reference/models/qwen2");
    let (base, data) = (base.display(), folder.display());
    let text = format!(
        "objective = '{objective}'\nseed = 5\nmodel = {{ base = '{base}', precision = 'f32' }}\n\
         lora = {{ rank = 2, dropout = 0.0, targets = ['q_proj'] }}\n\
         data = {{ train = ['{data}/train.jsonl'], eval = ['{data}/eval.jsonl'], max_tokens = 4096 }}\n\
         optimizer = {{ learning_rate = 0.01, warmup = 0.3 }}\nbatch = {{ examples = 5, tokens = 4096 }}\n\
         steps = {{ epochs = 2 }}"
    );
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Recipe::parse(&text, "recipe", &sets).unwrap()
}

/// A file of the export, read back.
struct Exported(Vec<u8>);

impl Exported {
    fn read(folder: &Path, name: &str) -> Self {
        Self(std::fs::read(folder.join(name)).unwrap())
    }

    fn column(&self, name: &str) -> Vec<i64> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = tensors.tensor(name).unwrap();
        let long = tensor.dtype() == safetensors::Dtype::I64;
        let read = |bytes: &[u8]| match long {
            true => i64::from_le_bytes(bytes.try_into().unwrap()),
            false => i64::from(i32::from_le_bytes(bytes.try_into().unwrap())),
        };
        tensor.data().chunks_exact(if long { 8 } else { 4 }).map(read).collect()
    }

    /// For each example, its reads: the tokens up to where it is read, and the bits of its target.
    fn reads(&self) -> Vec<Vec<(Vec<u32>, u32)>> {
        let [examples, sequences, reads, tokens, positions, targets] =
            ["examples", "sequences", "reads", "tokens", "positions", "targets"]
                .map(|name| self.column(name));
        let range = |starts: &[i64], index: usize| starts[index] as usize..starts[index + 1] as usize;
        let of_sequence = |sequence: usize| {
            let tokens = &tokens[range(&sequences, sequence)];
            range(&reads, sequence).map(|read| {
                let before = tokens[..=positions[read] as usize].iter().map(|token| *token as u32);
                (before.collect(), targets[read] as i32 as u32)
            })
        };
        let of_example = |example: usize| range(&examples, example).flat_map(of_sequence).collect();
        (0..examples.len() - 1).map(of_example).collect()
    }
}

/// The same of an example in memory.
fn reads<T: Copy>(example: &Example<T>, bits: impl Fn(T) -> u32) -> Vec<(Vec<u32>, u32)> {
    let read = |((node, offset), target): &((usize, usize), T)| {
        (example.forest.prefix(*node, *offset), bits(*target))
    };
    example.reads.iter().map(read).collect()
}

fn exported(recipe: &Recipe, folder: &Path) -> (PreparedRecipe, ExportSummary) {
    let summary = export(recipe, ExportTarget::Torch, &folder.join("out")).unwrap();
    (PreparedRecipe::new(recipe).unwrap(), summary)
}

#[test]
fn labels_are_read_where_they_are_trained() {
    let world = world();
    let settings: [&[&str]; 4] = [
        &["prm.profile=brief"],
        &["prm.profile=brief", "prm.by_problem=true"],
        // A prompt of its own for each step.
        &["prm.profile=retrieval-prm"],
        &["prm.profile=spare-prm", "prm.loss=squared_error"],
    ];
    for sets in settings {
        let recipe = recipe(world.path(), "prm", sets);
        let (mut prepared, summary) = exported(&recipe, world.path());
        let Objective::Prm(config) = &recipe.objective else { panic!() };
        let (_, sets) = prm::prepare(&mut prepared, config).unwrap();
        assert_eq!((summary.examples, summary.held_out), (sets.train.len(), sets.held_out.len()));
        for (name, examples) in [("train.safetensors", &sets.train), ("eval.safetensors", &sets.held_out)] {
            let file = Exported::read(&world.path().join("out"), name);
            let expected: Vec<_> = examples.iter().map(|example| reads(example, f32::to_bits)).collect();
            assert_eq!(file.reads(), expected, "{name} {:?}", recipe.objective);
        }
    }
}

#[test]
fn outcomes_answers_and_pairs_too() {
    let world = world();
    let out = world.path().join("out");
    let orm = recipe(world.path(), "orm", &["orm.profile=brief"]);
    let (mut prepared, _) = exported(&orm, world.path());
    let Objective::Orm(config) = &orm.objective else { panic!() };
    let (_, sets) = orm::prepare(&mut prepared, config).unwrap();
    let expected: Vec<_> = sets.train.iter().map(|example| reads(example, f32::to_bits)).collect();
    assert_eq!(Exported::read(&out, "train.safetensors").reads(), expected);

    let recipe_sft = recipe(world.path(), "sft", &[]);
    let (prepared, _) = exported(&recipe_sft, world.path());
    let Objective::Sft(config) = &recipe_sft.objective else { panic!() };
    let sets = sft::read(&prepared, config, &SolvePrompt::find(&config.prompt).unwrap()).unwrap();
    let expected: Vec<_> = sets.train.iter().map(|example| reads(example, |token| token)).collect();
    assert_eq!(Exported::read(&out, "train.safetensors").reads(), expected);

    let recipe_orpo = recipe(world.path(), "orpo", &[]);
    let (prepared, _) = exported(&recipe_orpo, world.path());
    let Objective::Orpo(config) = &recipe_orpo.objective else { panic!() };
    let sets = orpo::read(&prepared, config, &SolvePrompt::find(&config.prompt).unwrap()).unwrap();
    let file = Exported::read(&out, "train.safetensors");
    let expected: Vec<_> = sets.train.iter().map(|pair| reads(&pair.example, |token| token)).collect();
    assert_eq!(file.reads(), expected);
    // Two sequences for each pair, the chosen answer first.
    let (examples, in_sequences) = (file.column("examples"), file.column("reads"));
    for (index, pair) in sets.train.iter().enumerate() {
        let chosen = examples[index] as usize;
        assert_eq!(examples[index + 1] - examples[index], 2);
        assert_eq!((in_sequences[chosen + 1] - in_sequences[chosen]) as usize, pair.chosen);
    }
}

#[test]
fn order_settings_and_first_weights() {
    let world = world();
    let recipe = recipe(world.path(), "prm", &["prm.profile=brief"]);
    let (mut prepared, summary) = exported(&recipe, world.path());
    let out = world.path().join("out");
    let file = Exported::read(&out, "train.safetensors");
    let mut order = Order::new(5, true, summary.examples, 5, recipe.steps.length);
    let (steps, all) = (file.column("steps"), file.column("order"));
    assert_eq!((steps.len() as u64, summary.steps), (order.steps() + 1, order.steps()));
    for step in 0..order.steps() {
        let [start, end] = [0, 1].map(|more| steps[step as usize + more] as usize);
        let expected: Vec<i64> = order.batch(step).into_iter().map(|index| index as i64).collect();
        assert_eq!(all[start..end], expected, "step {step}");
    }
    let config: Value = serde_json::from_slice(&std::fs::read(out.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["steps"]["total"], order.steps());
    assert_eq!(config["optimizer"]["warmup_steps"], recipe.optimizer.warmup_steps(order.steps()));
    assert_eq!(Recipe::read(&out.join("recipe.toml"), &[]).unwrap(), recipe);

    let Objective::Prm(settings) = &recipe.objective else { panic!() };
    prm::prepare(&mut prepared, settings).unwrap();
    let values = |prepared: &PreparedRecipe| -> Vec<Vec<f32>> {
        let parameters = prepared.trainable.parameters.iter();
        parameters.map(|one| one.value.flatten_all().unwrap().to_vec1().unwrap()).collect()
    };
    let first = values(&prepared);
    crate::adapter::restore(&out.join("start"), &mut prepared.trainable).unwrap();
    assert_eq!(values(&prepared), first);
}

/// The rule of `gradus.critic`, in numbers that its own test reads, too.
#[test]
fn critiques_are_rewarded_as_in_python() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/critic_rewards.json");
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(cases.len() >= 12);
    for case in cases {
        let steps: Vec<String> = serde_json::from_value(case["steps"].clone()).unwrap();
        let truth = case["truth"].as_u64().map(|truth| truth as usize);
        let parsed = crate::critic::parse(case["answer"].as_str().unwrap(), steps.len());
        let found = crate::critic::reward(&parsed, truth, &steps).total;
        assert!((found - case["reward"].as_f64().unwrap()).abs() < 1e-9, "{case}: {found}");
    }
}

#[test]
fn what_the_script_cannot_do_is_refused() {
    let world = world();
    let refused = |objective: &str, sets: &[&str]| {
        let recipe = recipe(world.path(), objective, sets);
        export(&recipe, ExportTarget::Torch, &world.path().join("out")).unwrap_err().to_string()
    };
    let best = "steps.best={ metric = 'exact_match', is = 'highest' }";
    assert!(refused("sft", &[best, "sft.answer_problems=2"]).contains("does not evaluate"));
    let pairs = ["prm.pair_weight=0.5", "prm.by_problem=true"];
    assert!(refused("prm", &pairs).contains("--set prm.pair_weight=0"));
    assert!(refused("grpo", &["grpo.class_level=true"]).contains("--set grpo.kl=0"));
    let best = "steps.best={ metric = 'accuracy', is = 'highest' }";
    assert!(refused("grpo", &[best]).contains("`reward`"));
    assert!(!world.path().join("out").exists());
}

#[test]
fn critics_have_prompts_and_a_tokenizer() {
    let world = world();
    let example = serde_json::json!({
        "critic": 1, "problem_id": "p", "problem": "2 + 2?", "solution_id": "p/0", "steps": ["2 + 2 = 5"],
        "truth": 0, "perplexity": 2.5, "source": "labels",
    });
    std::fs::write(world.path().join("train.jsonl"), example.to_string()).unwrap();
    std::fs::write(world.path().join("eval.jsonl"), example.to_string()).unwrap();
    let recipe = recipe(world.path(), "grpo", &["grpo.max_new_tokens=8", "grpo.length=constant"]);
    let (_, summary) = exported(&recipe, world.path());
    assert_eq!((summary.examples, summary.left_out), (1, LeftOut::default()));
    let out = world.path().join("out");
    let row: Value = serde_json::from_slice(&std::fs::read(out.join("train.jsonl")).unwrap()).unwrap();
    assert_eq!((&row["truth"], &row["perplexity"]), (&0.into(), &2.5.into()));
    assert!(row["prompt"][0]["content"].as_str().unwrap().contains("2 + 2 = 5"), "{row}");
    let config: Value = serde_json::from_slice(&std::fs::read(out.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["loss"]["loss_type"], "dr_grpo");
    assert!(out.join("tokenizer/tokenizer.json").is_file());
}
