//! Datasets in memory: read from any file that the command line reads, written in any format, and shown as a table.

use std::io::Write as _;
use std::path::PathBuf;

use gradus_core::steps::{SplitConfig, split};
use gradus_core::{Record, RecordJoin};
use gradus_data::files::{ReadOptions, Sink, Target, open_with};
use gradus_data::readers::{FieldMap, Format};
use gradus_view::LeftOut;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::error::raised;
use crate::json::{to_json, to_python};
use crate::notebook;
use crate::table;

/// Problems with their solutions, labels and scores.
#[pyclass(frozen, module = "gradus", sequence)]
pub(crate) struct Dataset {
    pub(crate) records: Vec<Record>,
    /// Invalid records that were left out, or what a model could not take.
    #[pyo3(get)]
    pub(crate) skipped: u64,
}

/// Records that a notebook shows.
const SHOWN: usize = 20;

#[pymethods]
impl Dataset {
    /// Reads files, folders of shards, or "-"; formats are recognized. Solutions that are text are split into steps. A
    /// format with a solution to each problem is read as solved problems, or with `solutions=False` as problems that
    /// have it as their reference.
    #[staticmethod]
    #[pyo3(signature = (*paths, format=None, map=None, problem=None, on_error="fail", solutions=true))]
    fn read(
        py: Python<'_>,
        paths: &Bound<'_, PyTuple>,
        format: Option<&str>,
        map: Option<&str>,
        problem: Option<String>,
        on_error: &str,
        solutions: bool,
    ) -> PyResult<Self> {
        let paths: Vec<PathBuf> = paths.extract()?;
        if paths.is_empty() {
            return Err(raised("Dataset.read needs the path of a file or folder"));
        }
        let options = ReadOptions { prefer_solutions: solutions, ..read_options(format, map, problem)? };
        let skips = skips(on_error)?;
        py.detach(|| read(&paths, options, skips)).map_err(raised)
    }

    /// Takes rows as dicts: of a list, or of a table of datasets, pandas, polars or pyarrow. Their format is recognized.
    #[staticmethod]
    #[pyo3(signature = (rows, *, format=None, map=None, on_error="fail"))]
    fn from_rows(
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        format: Option<&str>,
        map: Option<&str>,
        on_error: &str,
    ) -> PyResult<Self> {
        let options = read_options(format, map, None)?;
        let skips = skips(on_error)?;
        let mut file =
            tempfile::Builder::new().prefix("rows-").suffix(".jsonl").tempfile().map_err(raised)?;
        let mut any = false;
        for row in dicts(rows)?.try_iter()? {
            writeln!(file, "{}", to_json(&row?)?).map_err(raised)?;
            any = true;
        }
        if !any {
            return Ok(Self { records: Vec::new(), skipped: 0 });
        }
        file.flush().map_err(raised)?;
        let path = file.path().to_path_buf();
        py.detach(|| read(&[path], options, skips)).map_err(raised)
    }

    /// Writes a file; its name says the container, as with the command line's -o. Returns the number of rows.
    #[pyo3(signature = (path, *, format="gradus"))]
    fn write(&self, py: Python<'_>, path: PathBuf, format: &str) -> PyResult<u64> {
        let format = format_named(format)?;
        py.detach(|| self.written(path, format)).map_err(raised)
    }

    /// The records of several datasets, joined by problem: solutions of one problem come together.
    #[staticmethod]
    #[pyo3(signature = (*datasets))]
    fn merge(datasets: &Bound<'_, PyTuple>) -> PyResult<Self> {
        if datasets.is_empty() {
            return Err(raised("no datasets to merge: write Dataset.merge(first, second)"));
        }
        let (mut join, mut skipped) = (RecordJoin::default(), 0);
        for dataset in datasets {
            let dataset = dataset.cast::<Self>()?.get();
            join.begin_file();
            skipped += dataset.skipped;
            for record in &dataset.records {
                join.add(record.clone()).map_err(raised)?;
            }
        }
        Ok(Self { records: join.records, skipped })
    }

    /// All records as dicts, in Gradus format.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.records)
    }

    /// A table of pyarrow with a row for each solution; nothing is copied.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))
    }

    /// A table of pandas with a row for each solution.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_arrow(slf)?.call_method0("to_pandas")
    }

    /// A table of polars with a row for each solution; nothing is copied.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }

    /// A `datasets.Dataset` with a row for each solution; nothing is copied.
    fn to_datasets<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("datasets")?.getattr("Dataset")?.call1((Self::to_arrow(slf)?,))
    }

    /// The Arrow C stream interface, which all of these read.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer casts by itself what it wants otherwise.
        let _ = requested_schema;
        table::stream(py, &self.records)
    }

    /// Solutions in all.
    #[getter]
    fn solutions(&self) -> usize {
        self.records.iter().map(|record| record.solutions.len()).sum()
    }

    /// Records: one for each problem.
    fn __len__(&self) -> usize {
        self.records.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        let count = self.records.len();
        let place = if index < 0 { index + count as isize } else { index };
        let record = usize::try_from(place).ok().and_then(|place| self.records.get(place));
        let missing = || pyo3::exceptions::PyIndexError::new_err(format!("record {index} of {count}"));
        to_python(py, record.ok_or_else(missing)?)
    }

    fn __repr__(&self) -> String {
        format!("Dataset({} problems, {} solutions)", self.records.len(), self.solutions())
    }

    /// How Jupyter shows it: the first records, as `gradus view` does.
    fn _repr_html_(&self) -> String {
        let shown = &self.records[..self.records.len().min(SHOWN)];
        let left_out = LeftOut { records: (self.records.len() - shown.len()) as u64, invalid: self.skipped };
        notebook::records("Dataset", shown, left_out)
    }
}

impl Dataset {
    fn written(&self, path: PathBuf, format: Format) -> Result<u64, String> {
        let mut sink = Sink::create(Target::new(&path)).map_err(|error| error.to_string())?;
        for record in &self.records {
            let written = format.write(record);
            if let Some(reason) = written.dropped.first() {
                let id = &record.problem.id;
                return Err(format!("problem `{id}` cannot be written as {}: {reason}", format.name()));
            }
            for row in &written.rows {
                sink.push(row).map_err(|error| error.to_string())?;
            }
        }
        sink.finish().map_err(|error| error.to_string())
    }
}

fn read(paths: &[PathBuf], options: ReadOptions, skips: bool) -> Result<Dataset, String> {
    let mut found = Dataset { records: Vec::new(), skipped: 0 };
    for item in open_with(paths, options).map_err(|error| error.to_string())? {
        match item {
            Ok(item) => found.records.push(in_steps(item.record)),
            Err(error) if error.is_record() && skips => found.skipped += 1,
            Err(error) if error.is_record() => {
                return Err(format!("{error} (use on_error=\"skip\" to skip such records)"));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(found)
}

/// Splits solutions that are text into steps. The text stays beside them.
fn in_steps(mut record: Record) -> Record {
    for solution in &mut record.solutions {
        if let Some(text) = solution.text.as_deref().filter(|_| solution.steps.is_empty()) {
            solution.steps = split(text, &SplitConfig::default()).steps().map(str::to_owned).collect();
        }
    }
    record
}

fn read_options(format: Option<&str>, map: Option<&str>, problem: Option<String>) -> PyResult<ReadOptions> {
    let format = format.map(format_named).transpose()?;
    let map: Option<FieldMap> = map.map(str::parse).transpose().map_err(raised)?;
    Ok(ReadOptions { format, map, problem, prefer_solutions: true })
}

fn format_named(name: &str) -> PyResult<Format> {
    let unknown = || {
        let names = Format::ALL.map(Format::name).join(", ");
        raised(format!("format `{name}` is not one of {names}"))
    };
    Format::from_name(name).ok_or_else(unknown)
}

pub(crate) fn skips(on_error: &str) -> PyResult<bool> {
    match on_error {
        "fail" => Ok(false),
        "skip" => Ok(true),
        _ => Err(raised(format!("on_error=`{on_error}` is neither \"fail\" nor \"skip\""))),
    }
}

/// The rows of a table as dicts; other things give theirs when they are iterated.
fn dicts<'py>(rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if rows.hasattr("iter_rows")? {
        let options = pyo3::types::PyDict::new(rows.py());
        options.set_item("named", true)?;
        return rows.call_method("iter_rows", (), Some(&options));
    }
    if rows.hasattr("to_pylist")? {
        return rows.call_method0("to_pylist");
    }
    if rows.hasattr("columns")? && rows.hasattr("to_dict")? {
        return rows.call_method1("to_dict", ("records",));
    }
    Ok(rows.clone())
}
