use std::fs;

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::run::metrics::EVAL;

const RECIPE: &str = r#"
objective = "prm"
seed = 7
model.base = "tiny"
data = { train = ["train.jsonl"], eval = ["eval.jsonl"] }
optimizer.learning_rate = 1e-3
steps = { total = 40, checkpoint_every = 10, eval_every = 10, keep = 1, best = { metric = "f1", is = "highest" } }
"#;

struct World {
    root: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("train.jsonl"), "one\ntwo\n").unwrap();
        Self { root }
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("run")
    }

    fn context(&self) -> RunContext {
        let inputs = vec![RunInput::new("train", &self.root.path().join("train.jsonl")).unwrap()];
        RunContext { inputs, command: vec!["gradus".to_owned(), "train".to_owned()], cpu: "avx2".to_owned() }
    }

    fn create(&self) -> Result<Run> {
        Run::create(&self.folder(), &recipe(&[]), self.context())
    }

    /// A message with this world's own names taken out.
    fn said<T: std::fmt::Debug>(&self, result: Result<T>) -> String {
        let message = result.unwrap_err().to_string();
        let root = fs::canonicalize(self.root.path()).unwrap();
        message
            .replace(&root.display().to_string(), "ROOT")
            .replace(&self.root.path().display().to_string(), "ROOT")
    }
}

fn recipe(sets: &[&str]) -> Recipe {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Recipe::parse(RECIPE, "recipe.toml", &sets).unwrap()
}

fn checkpoint(step: u64) -> Checkpoint {
    let tensors = [("w".to_owned(), (vec![1], vec![step as f32]))].into();
    Checkpoint { step, tensors, state: json!({}) }
}

/// What a training loop does between two checkpoints.
fn train(run: &mut Run, from: u64, to: u64, f1: f64) {
    for step in from + 1..=to {
        run.log(&MetricsLine::now(step, "train", [("loss", 1.0 / step as f64)])).unwrap();
    }
    run.log(&MetricsLine::now(to, EVAL, [("f1", f1)])).unwrap();
    run.save(&checkpoint(to)).unwrap();
}

/// The metrics without the times, which differ between runs.
fn curve(folder: &Path) -> Vec<String> {
    let lines = metrics::read(&folder.join("metrics.jsonl")).unwrap();
    lines.iter().map(|line| format!("{} {} {:?}", line.step, line.split, line.values)).collect()
}

#[test]
fn a_new_run_says_what_it_is() {
    let world = World::new();
    let run = world.create().unwrap();
    let text = fs::read_to_string(world.folder().join("run.json")).unwrap();
    let root = fs::canonicalize(world.root.path()).unwrap().display().to_string();
    let text = text.replace(&root, "ROOT").replace(&world.root.path().display().to_string(), "ROOT");
    let filters = vec![(r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME"), (r#""platform": ".*""#, r#""platform": "…""#)];
    insta::with_settings!({filters => filters}, { insta::assert_snapshot!(text); });
    assert_eq!(Recipe::read(&world.folder().join("recipe.toml"), &[]).unwrap(), run.recipe);
}

#[test]
fn other_folders_are_refused() {
    let world = World::new();
    fs::create_dir(world.folder()).unwrap();
    fs::write(world.folder().join("thesis.tex"), "years of work").unwrap();
    insta::assert_snapshot!(world.said(world.create()), @"ROOT/run: this folder is not empty and holds no run (it has `thesis.tex`): choose another folder");
    insta::assert_snapshot!(world.said(Run::resume(&world.folder())), @"ROOT/run: there is no run in this folder: expected a run.json");
    fs::remove_file(world.folder().join("thesis.tex")).unwrap();
    drop(world.create().unwrap());
    insta::assert_snapshot!(world.said(world.create()), @"ROOT/run: there is a run in this folder already: resume it, or choose another folder");
}

#[test]
fn killed_while_it_was_made_it_can_be_made_again() {
    let world = World::new();
    drop(world.create().unwrap());
    fs::remove_file(world.folder().join("run.json")).unwrap();
    fs::write(world.folder().join(".unfinished-x"), "half").unwrap();
    world.create().unwrap();
    assert!(!world.folder().join(".unfinished-x").exists());
}

/// Each of these made a resumed run write to, cut or replace what is outside of it, or wait without end.
#[cfg(unix)]
#[test]
fn links_and_pipes_in_a_foreign_run_are_refused() {
    use std::os::unix::fs::symlink;
    let world = World::new();
    let mut run = world.create().unwrap();
    train(&mut run, 0, 10, 0.5);
    drop(run);
    let (folder, aside) = (world.folder(), world.root.path().join("aside"));
    let secret = world.root.path().join("precious");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("thesis.tex"), "years of work").unwrap();
    for name in
        ["recipe.toml", "run.json", "metrics.jsonl", "best", "README.md", "lock", "checkpoints", "adapter"]
    {
        let path = folder.join(name);
        let there = path.exists();
        if there {
            fs::rename(&path, &aside).unwrap();
        }
        for kind in ["link", "pipe", "other"] {
            match kind {
                "link" => symlink(if there { &aside } else { &secret }, &path).unwrap(),
                "pipe" => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
                _ if ["checkpoints", "adapter"].contains(&name) => fs::write(&path, "").unwrap(),
                _ => fs::create_dir(&path).unwrap(),
            }
            let message = world.said(Run::resume(&folder));
            assert!(message.contains(name) && message.contains(": expected a f"), "{kind}: {message}");
            if path.symlink_metadata().unwrap().is_dir() {
                fs::remove_dir(&path).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
        }
        if there {
            fs::rename(&aside, &path).unwrap();
        }
    }
    // A checkpoint that leads elsewhere was replaced, or thrown away, with all that was there.
    symlink(&secret, folder.join("checkpoints/step-000020")).unwrap();
    let message = world.said(Run::resume(&folder));
    assert!(message.contains("step-000020: is a symbolic link"), "{message}");
    fs::remove_file(folder.join("checkpoints/step-000020")).unwrap();
    assert_eq!(fs::read_to_string(secret.join("thesis.tex")).unwrap(), "years of work");
    Run::resume(&folder).unwrap();
}

#[test]
fn two_processes_do_not_write_one_run() {
    let world = World::new();
    let run = world.create().unwrap();
    insta::assert_snapshot!(world.said(Run::resume(&world.folder())), @"ROOT/run: another process is writing this run: wait for it, or stop it");
    insta::assert_snapshot!(world.said(world.create()), @"ROOT/run: another process is writing this run: wait for it, or stop it");
    drop(run);
    Run::resume(&world.folder()).unwrap();
}

#[test]
fn resumed_it_has_the_curve_of_one_that_never_stopped() {
    let whole = World::new();
    let mut run = whole.create().unwrap();
    train(&mut run, 0, 10, 0.5);
    train(&mut run, 10, 20, 0.4);
    train(&mut run, 20, 30, 0.6);

    let world = World::new();
    let mut run = world.create().unwrap();
    train(&mut run, 0, 10, 0.5);
    for step in 11..15 {
        run.log(&MetricsLine::now(step, "train", [("loss", f64::NAN)])).unwrap();
    }
    drop(run);
    // A kill in the middle of a line and of a checkpoint.
    let path = world.folder().join("metrics.jsonl");
    let mut text = fs::read_to_string(&path).unwrap();
    text += "{\"step\":15,";
    fs::write(&path, text).unwrap();
    fs::create_dir(world.folder().join("checkpoints/.unfinished-y")).unwrap();

    let ResumedRun { mut run, checkpoint: latest, warnings } = Run::resume(&world.folder()).unwrap();
    assert_eq!((latest, warnings), (Some(checkpoint(10)), Vec::new()));
    assert_eq!(run.best, Some((10, 0.5)));
    assert!(!world.folder().join("checkpoints/.unfinished-y").exists());
    train(&mut run, 10, 20, 0.4);
    train(&mut run, 20, 30, 0.6);
    assert_eq!(curve(&world.folder()), curve(&whole.folder()));
    assert_eq!(run.record().resumed.len(), 1);
}

#[test]
fn killed_before_the_first_checkpoint_it_starts_over() {
    let world = World::new();
    let mut run = world.create().unwrap();
    run.log(&MetricsLine::now(1, "train", [("loss", 1.0)])).unwrap();
    drop(run);
    let resumed = Run::resume(&world.folder()).unwrap();
    assert_eq!(resumed.checkpoint, None);
    assert!(curve(&world.folder()).is_empty());
}

#[test]
fn the_best_stays() {
    let world = World::new();
    let mut run = world.create().unwrap();
    for (step, f1) in [(10, 0.5), (20, 0.9), (30, 0.7), (40, 0.9)] {
        train(&mut run, step - 10, step, f1);
    }
    assert_eq!(run.best, Some((20, 0.9)));
    assert_eq!(fs::read_to_string(world.folder().join("best")).unwrap(), "step-000020\n");
    assert_eq!(checkpoint::steps(&world.folder().join("checkpoints")).unwrap(), [20, 40]);
    assert_eq!(run.load_best().unwrap(), Some(checkpoint(20)));
    drop(run);
    assert_eq!(Run::resume(&world.folder()).unwrap().run.best, Some((20, 0.9)));
}

#[test]
fn damaged_checkpoints_are_passed_over() {
    let world = World::new();
    let mut run = world.create().unwrap();
    train(&mut run, 0, 10, 0.9);
    train(&mut run, 10, 20, 0.95);
    drop(run);
    // Step 10 was neither among the last nor the best any more; only 20 is there.
    fs::write(world.folder().join("checkpoints/step-000020/state.json"), "{").unwrap();
    let resumed = Run::resume(&world.folder()).unwrap();
    assert_eq!((resumed.checkpoint, resumed.warnings.len(), resumed.run.best), (None, 1, None));
    assert!(!world.folder().join("best").exists());
}

#[test]
fn another_recipe_or_input_is_refused() {
    let world = World::new();
    let run = world.create().unwrap();
    run.follows(&recipe(&[])).unwrap();
    let mut said = vec![
        world.said(run.follows(&recipe(&["optimizer.learning_rate=1e-4"]))),
        world.said(run.follows(&recipe(&["data.limit=5", "seed=8"]))),
    ];
    drop(run);
    fs::write(world.root.path().join("train.jsonl"), "one\n").unwrap();
    said.push(world.said(Run::resume(&world.folder())));
    fs::write(world.root.path().join("train.jsonl"), "one\nTWO\n").unwrap();
    said.push(world.said(Run::resume(&world.folder())));
    fs::remove_file(world.root.path().join("train.jsonl")).unwrap();
    said.push(world.said(Run::resume(&world.folder())));
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn folders_are_replaced_as_a_whole() {
    let world = World::new();
    let run = world.create().unwrap();
    for text in ["one", "two"] {
        let path = run.write_folder("adapter", |at| fs::write(at.join("a"), text).map_err(io(at))).unwrap();
        assert_eq!(fs::read_to_string(path.join("a")).unwrap(), text);
    }
}

/// A run of 60 steps whose every step depends on all before it.
fn train_on(folder: &Path, context: RunContext) {
    let (mut run, latest) = if exists(folder) {
        let resumed = Run::resume(folder).unwrap();
        (resumed.run, resumed.checkpoint)
    } else {
        (
            Run::create(folder, &recipe(&["steps.total=60", "steps.checkpoint_every=20"]), context).unwrap(),
            None,
        )
    };
    let (done, mut weights) =
        latest.map_or((0, vec![0.5_f32; 64]), |latest| (latest.step, latest.tensors["w"].1.clone()));
    for step in done + 1..=60 {
        for (index, weight) in weights.iter_mut().enumerate() {
            *weight = (*weight * 3.7 * (1.0 - *weight) + index as f32 * 1e-3).fract();
        }
        run.log(&MetricsLine::now(step, "train", [("loss", f64::from(weights[0]))])).unwrap();
        if step % 3 == 0 {
            run.log(&MetricsLine::now(step, EVAL, [("f1", f64::from(weights[1]))])).unwrap();
            let tensors = [("w".to_owned(), (vec![64], weights.clone()))].into();
            run.save(&Checkpoint { step, tensors, state: json!({ "step": step }) }).unwrap();
        }
    }
}

#[test]
#[ignore = "the process that killed_at_any_instant kills"]
fn child() {
    if let Some(folder) = std::env::var_os("GRADUS_TEST_RUN") {
        train_on(Path::new(&folder), RunContext::default());
    }
}

#[test]
fn killed_at_any_instant() {
    let world = World::new();
    let whole = world.root.path().join("whole");
    train_on(&whole, RunContext::default());

    let killed = world.folder();
    let spawn = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "run::folder::tests::child"]).env("GRADUS_TEST_RUN", &killed);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let lines = || fs::read_to_string(killed.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
    let mut kills = 0;
    for round in 0..10 {
        let before = lines();
        let mut child = spawn();
        // Here at the start, there after several checkpoints.
        while child.try_wait().unwrap().is_none() && lines() < before + 4 * (round % 4) {
            std::thread::sleep(Duration::from_micros(200));
        }
        kills += u32::from(child.try_wait().unwrap().is_none() && lines() > 0);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(spawn().wait().unwrap().success());
    assert!(kills > 0, "no process was killed while it ran");
    assert_eq!(curve(&killed), curve(&whole));
    let [mine, theirs] = [&killed, &whole].map(|folder| fs::read_to_string(folder.join("best")).unwrap());
    assert_eq!(mine, theirs);
    for name in [mine.trim(), "step-000060"] {
        let [mine, theirs] =
            [&killed, &whole].map(|folder| checkpoint::load(&folder.join("checkpoints").join(name)).unwrap());
        assert_eq!(mine, theirs);
    }
    let left = fs::read_dir(killed.join("checkpoints")).unwrap().chain(fs::read_dir(&killed).unwrap());
    let unfinished =
        left.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(unfinished.count(), 0);
}
