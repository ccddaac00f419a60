//! A labeling project on disk: what is labeled, how, and what people did.
//!
//! ```text
//! FOLDER/project.json     settings, and the hash of the records
//! FOLDER/records.jsonl    what is labeled, in our format; written once
//! FOLDER/labels.journal   what people did, a line each with its hash; only ever appended to
//! ```

use std::path::{Path, PathBuf};

use gradus_annotate::reference::ERROR_CATEGORIES;
use gradus_core::{Record, Solution, time};
use gradus_durable::{check_plain, read_plain, replace_folder, replace_plain_file};
use serde::{Deserialize, Serialize};

use crate::{Error, Order, Result};

const VERSION: u32 = 1;
const SETTINGS: &str = "project.json";
const RECORDS: &str = "records.jsonl";
const JOURNAL: &str = "labels.journal";
/// Bytes of the settings at most.
const SETTINGS_BYTES: u64 = 1 << 20;

/// How a project is labeled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What it is called on the page.
    pub name: String,
    /// Which item comes first.
    pub order: Order,
    /// Below this a reward model's score suggests an error.
    pub threshold: f64,
    /// How many different people label each item.
    pub people_per_item: usize,
    /// Error categories; SPARE's unless others are given.
    pub categories: Vec<String>,
    /// How long an item stays with a person whose page gives no sign.
    pub lease_seconds: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: String::new(),
            order: Order::default(),
            threshold: 0.5,
            people_per_item: 1,
            categories: ERROR_CATEGORIES.map(str::to_owned).to_vec(),
            lease_seconds: 600,
        }
    }
}

impl Settings {
    fn check(&self) -> Result<()> {
        let wrong = match () {
            () if self.people_per_item == 0 => "people_per_item is 0: at least one person labels an item",
            () if !(0.0..=1.0).contains(&self.threshold) => "threshold: expected 0 to 1",
            () if self.lease_seconds == 0 => "lease_seconds is 0: expected at least 1",
            () => return Ok(()),
        };
        Err(Error::Invalid(wrong.to_owned()))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectFile {
    gradus_label: u32,
    created: String,
    records_blake3: String,
    settings: Settings,
}

/// What became of the records of a new project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Created {
    /// Problems with something to label.
    pub problems: usize,
    /// Solutions to label.
    pub items: usize,
    /// Solutions that another one of their problem equals word for word: labeled once.
    pub united: usize,
    /// Solutions without steps, which are left out.
    pub without_steps: usize,
}

/// A labeling project, read from its folder.
#[derive(Debug, Clone)]
pub struct Project {
    /// Where it lies.
    pub folder: PathBuf,
    /// How it is labeled.
    pub settings: Settings,
    /// What is labeled.
    pub records: Vec<Record>,
    /// The items: each a solution, by the places of its record and of it there.
    items: Vec<(usize, usize)>,
}

impl Project {
    /// Makes a project in a folder that is not there yet. Solutions of one problem that are equal become one.
    pub fn create(folder: &Path, records: Vec<Record>, mut settings: Settings) -> Result<Created> {
        settings.check()?;
        if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) || folder.is_file() {
            let message = "is already there: name a new folder, or remove it first".to_owned();
            return Err(Error::Project { path: folder.to_owned(), message });
        }
        if settings.name.is_empty() {
            settings.name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        let mut created = Created::default();
        let mut lines = Vec::new();
        for mut record in records {
            created.united += record.unite_equal();
            let all = record.solutions.len();
            record.solutions.retain(|solution| !solution.steps.is_empty());
            created.without_steps += all - record.solutions.len();
            if record.solutions.is_empty() {
                continue;
            }
            created.problems += 1;
            created.items += record.solutions.len();
            serde_json::to_writer(&mut lines, &record).expect("a record serializes to JSON");
            lines.push(b'\n');
        }
        if created.items == 0 {
            return Err(Error::Invalid("there is no solution with steps to label".to_owned()));
        }
        let file = ProjectFile {
            gradus_label: VERSION,
            created: time::now(),
            records_blake3: blake3::hash(&lines).to_hex().to_string(),
            settings,
        };
        let mut about = serde_json::to_vec_pretty(&file).expect("settings serialize to JSON");
        about.push(b'\n');
        replace_folder(folder, |inside| {
            replace_plain_file(&inside.join(RECORDS), &lines)?;
            replace_plain_file(&inside.join(SETTINGS), &about)
        })?;
        Ok(created)
    }

    /// Reads a project's settings and records, which must be as they were written.
    pub fn open(folder: &Path) -> Result<Self> {
        let wrong = |name: &str, message: String| Error::Project { path: folder.join(name), message };
        check_plain(folder, &[SETTINGS, RECORDS, JOURNAL], &[])?;
        let about =
            read_plain(&folder.join(SETTINGS), SETTINGS_BYTES).map_err(|error| match error.is_missing() {
                true => Error::Project {
                    path: folder.to_owned(),
                    message: "is no labeling project: make one with `gradus label create`".to_owned(),
                },
                false => error.into(),
            })?;
        let file: ProjectFile =
            serde_json::from_slice(&about).map_err(|error| wrong(SETTINGS, error.to_string()))?;
        if file.gradus_label != VERSION {
            let message = format!("version {} is not supported: expected {VERSION}", file.gradus_label);
            return Err(wrong(SETTINGS, message));
        }
        file.settings.check().map_err(|error| wrong(SETTINGS, error.to_string()))?;
        let bytes = read_plain(&folder.join(RECORDS), u64::MAX)?;
        if *blake3::hash(&bytes).to_hex() != *file.records_blake3 {
            let message = "has changed since the project was made: restore it, since labels go by its order";
            return Err(wrong(RECORDS, message.to_owned()));
        }
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let records: std::result::Result<Vec<Record>, _> = lines.map(serde_json::from_slice).collect();
        let records = records.map_err(|error| wrong(RECORDS, error.to_string()))?;
        let items = records.iter().enumerate();
        let items = items.flat_map(|(at, record)| (0..record.solutions.len()).map(move |index| (at, index)));
        let items = items.collect();
        Ok(Self { folder: folder.to_owned(), settings: file.settings, records, items })
    }

    /// How many items there are.
    pub fn items(&self) -> usize {
        self.items.len()
    }

    /// An item: its record, and the solution in it.
    pub fn item(&self, item: usize) -> Option<(&Record, &Solution)> {
        let (record, solution) = *self.items.get(item)?;
        Some((&self.records[record], &self.records[record].solutions[solution]))
    }

    /// The places of all items: of the record, and of the solution in it.
    pub(crate) fn places(&self) -> &[(usize, usize)] {
        &self.items
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.join(JOURNAL)
    }
}
