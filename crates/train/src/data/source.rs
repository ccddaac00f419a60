//! One set of a recipe's data: its files, their format, and how much of them is read.

use std::path::PathBuf;

use gradus_core::{LabelChoice, Record, RecordJoin};
use gradus_data::files;
use gradus_data::readers::Format;

use super::left_out::{Examples, LeftOut};
use crate::{Error, Result};

/// The training or the evaluation set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataSource<'a> {
    /// Files or folders of shards.
    pub(crate) paths: &'a [PathBuf],
    /// The format's name. Default: detected from the first record.
    pub(super) format: Option<&'a str>,
    /// Read at most this many records.
    pub(crate) limit: Option<usize>,
    /// Whose step labels count. Default: the most trusted.
    pub(super) annotator: Option<&'a str>,
    /// Whether this is the training set.
    pub(crate) training: bool,
}

impl DataSource<'_> {
    /// The format that the recipe names, if it names one.
    pub(super) fn format(&self) -> Result<Option<Format>> {
        let known = |name: &str| {
            Format::from_name(name).ok_or_else(|| {
                Error::Data(format!("`format` in [data] is `{name}`: see gradus data formats"))
            })
        };
        self.format.map(known).transpose()
    }

    /// What `make` makes of the records, and all that was left out.
    pub(crate) fn examples<T>(
        &self,
        make: impl FnOnce(&[Record]) -> Result<Examples<T>>,
    ) -> Result<Examples<T>> {
        let (records, mut left_out) = self.records()?;
        let (found, also_left_out) = make(&records)?;
        left_out.join(&also_left_out);
        Ok((found, left_out))
    }

    /// All records, joined by problem, with each text of a problem once, and each solution with the one annotation that
    /// counts; the first bad one is an error that says where.
    pub(crate) fn records(&self) -> Result<Examples<Record>> {
        let mut join = RecordJoin::default();
        let mut file = None;
        for item in files::open(self.paths, self.format()?)?.take(self.limit.unwrap_or(usize::MAX)) {
            let item = item?;
            let path = item.place.path;
            if file.as_ref() != Some(&path) {
                join.begin_file();
                file = Some(path.clone());
            }
            join.add(item.record).map_err(|fault| Error::Data(format!("{}: {fault}", path.display())))?;
        }
        let mut records = join.records;
        let choice = LabelChoice::of(self.annotator);
        let mut left_out = LeftOut::default();
        for record in &mut records {
            left_out.add_several("solution with the text of an earlier one", record.unite_equal());
            for solution in &mut record.solutions {
                solution.annotations = solution.labels(&choice).cloned().into_iter().collect();
            }
        }
        if records.is_empty() {
            let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
            return Err(Error::Data(format!("{} has no records", names.join(", "))));
        }
        Ok((records, left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::{Annotation, LabelSource, Problem, Solution};

    #[test]
    fn files_are_joined_and_one_annotation_counts() {
        let folder = tempfile::tempdir().unwrap();
        let judge = LabelSource::Judge { model: "m".to_owned(), agreeing: 1, votes: 1 };
        let counted = LabelSource::MonteCarlo { model: "m".to_owned(), successes: 1, samples: 4 };
        let mut paths = Vec::new();
        for (name, source) in [("a.jsonl", counted), ("b.jsonl", judge)] {
            let solution = Solution {
                id: "p/0".to_owned(),
                problem_id: "p".to_owned(),
                steps: vec!["So.".to_owned()],
                annotations: vec![Annotation::from_first_error(1, None, &source)],
                ..Solution::default()
            };
            let problem = Problem { id: "p".to_owned(), text: "Why?".to_owned(), ..Problem::default() };
            let path = folder.path().join(name);
            let record = Record::new(problem, vec![solution]);
            std::fs::write(&path, serde_json::to_string(&record).unwrap()).unwrap();
            paths.push(path);
        }
        let used = |annotator| {
            let set = DataSource { paths: &paths, format: None, limit: None, annotator, training: true };
            let (records, _) = set.records().unwrap();
            let [record] = &records[..] else { panic!("one problem") };
            let [solution] = &record.solutions[..] else { panic!("one solution") };
            solution.annotations.iter().map(Annotation::source_name).collect::<Vec<_>>()
        };
        assert_eq!(used(None), ["judge m"]);
        assert_eq!(used(Some("monte-carlo")), ["monte-carlo m"]);
        assert!(used(Some("human")).is_empty());
    }
}
