//! The records of several files joined by problem, as [`RecordJoin`] does, in memory that does not grow with their texts.
//!
//! Records are spooled as they come. What stays in memory is a hash of each problem, until all are read, and which
//! records are of one problem: 4 to 8 bytes a record. A problem's records are joined when they are asked for.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gradus_core::{Problem, Record, RecordJoin};

use crate::files::Item;
use crate::spool::{Spool, SpoolWriter};
use crate::{Error, Result};

/// A hash of what tells problems apart.
type ProblemKey = [u64; 2];

/// Records that are being joined.
pub struct JoinedWriter {
    spool: SpoolWriter,
    /// Numbers of the problems, in the order in which they first came.
    numbers: HashMap<ProblemKey, u32>,
    /// The problem of each record.
    problems: Vec<u32>,
    files: Vec<SourceFile>,
}

/// A file, and its first record.
struct SourceFile {
    path: Arc<Path>,
    first: u32,
}

impl JoinedWriter {
    /// Begins; what comes is kept on the disk of `folder`.
    pub fn create(folder: &Path) -> Result<Self> {
        Ok(Self {
            spool: SpoolWriter::create(folder)?,
            numbers: HashMap::new(),
            problems: Vec::new(),
            files: Vec::new(),
        })
    }

    /// Adds a record.
    ///
    /// # Panics
    ///
    /// After four billion records.
    pub fn add(&mut self, item: &Item) -> Result<()> {
        let record = u32::try_from(self.problems.len()).expect("fewer than four billion records");
        if self.files.last().is_none_or(|file| file.path != item.place.path) {
            self.files.push(SourceFile { path: item.place.path.clone(), first: record });
        }
        let new = self.numbers.len() as u32;
        self.problems.push(*self.numbers.entry(key(&item.record.problem)).or_insert(new));
        self.spool.push(&item.record)
    }

    /// Ends; two files that contradict each other are refused.
    pub fn finish(self) -> Result<JoinedRecords> {
        let Self { spool, numbers, problems, files } = self;
        let spool = spool.finish()?;
        let mut firsts = vec![0; numbers.len() + 1];
        drop(numbers);
        for problem in &problems {
            firsts[*problem as usize + 1] += 1;
        }
        for problem in 1..firsts.len() {
            firsts[problem] += firsts[problem - 1];
        }
        let order = (!problems.is_sorted()).then(|| in_order(&problems, &firsts));
        drop(problems);
        let joined = JoinedRecords { spool, firsts, order, files };
        if joined.files.len() > 1 {
            for index in 0..joined.len() {
                if joined.spans_files(index) {
                    joined.get(index)?;
                }
            }
        }
        Ok(joined)
    }
}

/// The records by problem, those of a problem in the order in which they came.
fn in_order(problems: &[u32], firsts: &[u32]) -> Vec<u32> {
    let mut next = firsts.to_vec();
    let mut order = vec![0; problems.len()];
    for (record, problem) in (0..).zip(problems) {
        let place = &mut next[*problem as usize];
        order[*place as usize] = record;
        *place += 1;
    }
    order
}

/// Joined records on disk, in the order in which their problems first came.
pub struct JoinedRecords {
    spool: Spool,
    /// Where the records of each problem begin, and the end of the last.
    firsts: Vec<u32>,
    /// The records by problem; none where they came so.
    order: Option<Vec<u32>>,
    files: Vec<SourceFile>,
}

impl JoinedRecords {
    /// How many problems there are.
    pub fn len(&self) -> usize {
        self.firsts.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leaves out the problems after the first `problems`.
    pub fn truncate(&mut self, problems: usize) {
        self.firsts.truncate(problems.saturating_add(1));
    }

    /// A problem with all its solutions.
    ///
    /// # Panics
    ///
    /// If there is no such problem.
    pub fn get(&self, index: usize) -> Result<Record> {
        let places = self.places(index);
        if places.len() == 1 {
            return self.spool.get(self.record_at(places.start));
        }
        let mut join = RecordJoin::default();
        let mut last = None;
        for place in places {
            let record = self.record_at(place);
            let file = self.file_of(record);
            if last != Some(file) {
                join.begin_file();
                last = Some(file);
            }
            let clash = |fault| Error::Contradiction { path: self.files[file].path.to_path_buf(), fault };
            join.add(self.spool.get(record)?).map_err(clash)?;
        }
        Ok(join.records.swap_remove(0))
    }

    fn places(&self, index: usize) -> Range<usize> {
        self.firsts[index] as usize..self.firsts[index + 1] as usize
    }

    fn record_at(&self, place: usize) -> usize {
        self.order.as_ref().map_or(place, |order| order[place] as usize)
    }

    fn file_of(&self, record: usize) -> usize {
        self.files.partition_point(|file| file.first as usize <= record) - 1
    }

    fn spans_files(&self, index: usize) -> bool {
        let places = self.places(index);
        self.file_of(self.record_at(places.start)) != self.file_of(self.record_at(places.end - 1))
    }
}

/// The key of a problem: as in [`RecordJoin`], its id, text and gold answer.
fn key(problem: &Problem) -> ProblemKey {
    let mut hasher = blake3::Hasher::new();
    let parts = [Some(&problem.id), Some(&problem.text), problem.answer.as_ref()];
    for part in parts.into_iter().flatten() {
        // The length keeps one part's end from being another's beginning.
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    let hash = hasher.finalize();
    let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| hash.as_bytes()[at + byte]));
    [half(0), half(8)]
}

#[cfg(test)]
mod tests {
    use gradus_core::Solution;
    use proptest::prelude::*;

    use super::*;
    use crate::SourceLocation;
    use crate::readers::Format;

    fn item(file: u8, problem: u8, solution: u8, answer: Option<&str>) -> Item {
        let id = format!("p{problem}");
        let answer = answer.map(str::to_owned);
        let solution = Solution {
            id: format!("{id}/{solution}"),
            problem_id: id.clone(),
            steps: vec![format!("step {solution}")],
            ..Solution::default()
        };
        let problem = Problem { id, text: "Why?".into(), answer, ..Problem::default() };
        let path: Arc<Path> = Path::new(&format!("file{file}")).into();
        Item {
            record: Record::new(problem, vec![solution]),
            place: SourceLocation { path, line: 1 },
            format: Format::Gradus,
            issues: Vec::new(),
            note: None,
        }
    }

    fn joined(items: &[Item]) -> Result<JoinedRecords> {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = JoinedWriter::create(folder.path())?;
        items.iter().try_for_each(|item| writer.add(item))?;
        writer.finish()
    }

    proptest! {
        #[test]
        fn records_are_joined_as_in_memory(
            rows in proptest::collection::vec((0..3_u8, 0..6_u8, 0..3_u8, proptest::option::of(Just("5"))), 0..60)
        ) {
            let mut rows = rows;
            rows.sort_by_key(|row| row.0);
            let items: Vec<Item> = rows.iter().map(|&(f, p, s, answer)| item(f, p, s, answer)).collect();
            let mut join = RecordJoin::default();
            for (index, item) in items.iter().enumerate() {
                if index == 0 || items[index - 1].place.path != item.place.path {
                    join.begin_file();
                }
                join.add(item.record.clone()).unwrap();
            }
            let found = joined(&items).unwrap();
            let found: Vec<Record> = (0..found.len()).map(|index| found.get(index).unwrap()).collect();
            prop_assert_eq!(found, join.records);
        }
    }

    #[test]
    fn records_of_many_blocks_come_back_in_any_order() {
        let text = "a step that fills its block. ".repeat(400);
        let items: Vec<Item> = (0..200_u8)
            .map(|problem| {
                let mut item = item(0, problem, 0, None);
                item.record.solutions[0].steps = vec![format!("{problem} {text}")];
                item
            })
            .collect();
        let found = joined(&items).unwrap();
        assert!(found.spool.blocks() > 4);
        for index in [199, 0, 100, 7, 199] {
            assert_eq!(found.get(index).unwrap(), items[index].record);
        }
    }

    #[test]
    fn files_that_contradict_each_other_are_refused_before_any_work() {
        let mut other = item(1, 0, 0, None);
        other.record.solutions[0].steps = vec!["another step".to_owned()];
        let error = joined(&[item(0, 0, 0, None), other]).err().unwrap().to_string();
        assert_eq!(error, "file1: the steps of solution p0/0 differ from those in an earlier file");
    }
}
