//! Labeling projects, from the outside.
//!
//! `queue`: who gets what, and when. `saving`: labels, undo, conflicts. `durability`: kills, damage, locks. `numbers`: agreement,
//! estimates and export.

mod durability;
mod numbers;
mod queue;
mod saving;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gradus_core::{Annotation, LabelSource, Mark, Problem, Record, Solution};
use gradus_label::requests::{ItemRequest, NextRequest, PersonRequest, SaveRequest, Task};
use gradus_label::{Labeling, Project, Settings};

pub(crate) const PLUS: Option<Mark> = Some(Mark::Correct);
pub(crate) const ZERO: Option<Mark> = Some(Mark::Neutral);
pub(crate) const MINUS: Option<Mark> = Some(Mark::Incorrect);

/// A project folder and a clock that a test turns.
pub(crate) struct Scratch {
    _root: tempfile::TempDir,
    pub(crate) folder: PathBuf,
    seconds: Arc<AtomicU64>,
}

impl Scratch {
    /// A project of so many problems, each with one solution of three steps.
    pub(crate) fn new(items: usize, settings: Settings) -> Self {
        Self::of((0..items).map(record).collect(), settings)
    }

    pub(crate) fn of(records: Vec<Record>, settings: Settings) -> Self {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("project");
        Project::create(&folder, records, settings).unwrap();
        Self { _root: root, folder, seconds: Arc::new(AtomicU64::new(1000)) }
    }

    pub(crate) fn open(&self) -> Labeling {
        let seconds = self.seconds.clone();
        Labeling::open(&self.folder).unwrap().with_clock(move || seconds.load(Ordering::Relaxed) as f64)
    }

    pub(crate) fn wait(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.join("labels.journal")
    }
}

pub(crate) fn record(number: usize) -> Record {
    let problem_id = format!("p{number}");
    let steps = (0..3).map(|step| format!("Step {step} of {number}")).collect();
    let solution =
        Solution { id: format!("s{number}"), problem_id: problem_id.clone(), steps, ..Solution::default() };
    let problem = Problem { id: problem_id, text: format!("Problem {number}"), ..Problem::default() };
    Record::new(problem, vec![solution])
}

/// A record whose reward model gave these scores, and whose judges saw the first error here.
pub(crate) fn suggested(number: usize, scores: [f64; 3], judges: &[Option<usize>]) -> Record {
    let mut record = record(number);
    let solution = &mut record.solutions[0];
    solution.scores.insert("prm".to_owned(), scores.to_vec());
    for (index, error) in judges.iter().enumerate() {
        let source = LabelSource::Judge { model: format!("j{index}"), agreeing: 1, votes: 1 };
        solution.annotations.push(Annotation::from_first_error(3, *error, &source));
    }
    record
}

pub(crate) fn settings(people_per_item: usize) -> Settings {
    Settings { people_per_item, lease_seconds: 60, ..Settings::default() }
}

pub(crate) fn next(labeling: &Labeling, name: &str) -> Option<Task> {
    labeling.next(&NextRequest::of(name)).unwrap().task
}

pub(crate) fn after(labeling: &Labeling, name: &str, item: usize) -> Option<usize> {
    let request = NextRequest { after: Some(item), ..NextRequest::of(name) };
    labeling.next(&request).unwrap().task.map(|task| task.item)
}

pub(crate) fn this(name: &str, item: usize) -> ItemRequest {
    ItemRequest { annotator: name.to_owned(), item }
}

pub(crate) fn person(name: &str) -> PersonRequest {
    PersonRequest { annotator: name.to_owned() }
}

/// Finishes the next item of a person with these marks.
pub(crate) fn finish(labeling: &Labeling, name: &str, marks: [Option<Mark>; 3]) -> usize {
    let task = next(labeling, name).expect("an item");
    let save = SaveRequest { finished: true, ..task.save(name, marks.to_vec()) };
    labeling.save(&save).unwrap();
    task.item
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
