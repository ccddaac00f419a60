//! Records as an Arrow table with a row for each solution, handed over without a copy.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, ListBuilder, StringBuilder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, ListArray, RecordBatch, RecordBatchIterator, StringArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use gradus_core::{Annotation, FirstError, Mark, Problem, Record, Solution};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::raised;

/// The name that the Arrow C stream interface gives its capsules.
const NAME: &std::ffi::CStr = c"arrow_array_stream";

/// The table as a capsule of the Arrow C stream interface.
pub(crate) fn stream<'py>(py: Python<'py>, records: &[Record]) -> PyResult<Bound<'py, PyCapsule>> {
    let batch = py.detach(|| batch(records)).map_err(raised)?;
    let schema = batch.schema();
    let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    PyCapsule::new_with_value(py, stream, NAME)
}

fn batch(records: &[Record]) -> Result<RecordBatch, ArrowError> {
    let rows: Vec<(&Problem, &Solution)> = records
        .iter()
        .flat_map(|record| record.solutions.iter().map(|solution| (&record.problem, solution)))
        .collect();
    let text = |of: &dyn Fn(&Problem, &Solution) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(|(problem, solution)| of(problem, solution)).collect::<StringArray>())
    };
    let first = |solution: &Solution| solution.most_trusted().cloned();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("problem_id", text(&|problem, _| Some(problem.id.clone()))),
        ("problem", text(&|problem, _| Some(problem.question()))),
        ("answer", text(&|problem, _| problem.answer.clone())),
        ("solution_id", text(&|_, solution| Some(solution.id.clone()))),
        ("generator", text(&|_, solution| solution.generator.clone())),
        ("solution", text(&|_, solution| Some(solution.full_text()))),
        ("steps", texts(rows.iter().map(|(_, solution)| &solution.steps))),
        ("final_answer", text(&|_, solution| solution.answer.clone())),
        ("correct", booleans(rows.iter().map(|(_, solution)| solution.outcome.is_correct()))),
        ("labels", labels(rows.iter().map(|(_, solution)| first(solution)))),
        ("first_error", first_errors(rows.iter().map(|(_, solution)| first(solution)))),
        ("annotations", annotations(&rows)?),
        ("scores", scores(&rows)?),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, values)| values).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn texts<'a>(lists: impl Iterator<Item = &'a Vec<String>>) -> ArrayRef {
    let mut builder = ListBuilder::new(StringBuilder::new());
    lists.for_each(|list| builder.append_value(list.iter().map(Some)));
    Arc::new(builder.finish())
}

fn booleans(values: impl Iterator<Item = Option<bool>>) -> ArrayRef {
    Arc::new(values.collect::<BooleanArray>())
}

/// For each solution whether each step is right: null is unknown, and a neutral step is no error.
fn labels(annotations: impl Iterator<Item = Option<Annotation>>) -> ArrayRef {
    let mut builder = ListBuilder::new(BooleanBuilder::new());
    for annotation in annotations {
        let labels = annotation.map(|annotation| annotation.labels);
        builder.append_option(labels.map(|labels| {
            labels
                .into_iter()
                .map(|label| label.map(|label| label.mark != Mark::Incorrect))
                .collect::<Vec<_>>()
        }));
    }
    Arc::new(builder.finish())
}

/// For each solution its first wrong step, from 0: -1 where there is none, null where that is unknown.
fn first_errors(annotations: impl Iterator<Item = Option<Annotation>>) -> ArrayRef {
    let found = annotations.map(|annotation| match annotation?.first_error {
        FirstError::At(step) => Some(step as i64),
        FirstError::None => Some(-1),
        FirstError::Unknown => None,
    });
    Arc::new(found.collect::<Int64Array>())
}

/// What every annotator says.
fn annotations(rows: &[(&Problem, &Solution)]) -> Result<ArrayRef, ArrowError> {
    let lengths = rows.iter().map(|(_, solution)| solution.annotations.len());
    let all = || rows.iter().flat_map(|(_, solution)| &solution.annotations).cloned();
    let names: ArrayRef =
        Arc::new(all().map(|annotation| Some(annotation.source_name())).collect::<StringArray>());
    let columns = [
        ("annotator", names),
        ("labels", labels(all().map(Some))),
        ("first_error", first_errors(all().map(Some))),
    ];
    list_of_structs(lengths, columns)
}

/// What every reward model says.
fn scores(rows: &[(&Problem, &Solution)]) -> Result<ArrayRef, ArrowError> {
    let lengths = rows.iter().map(|(_, solution)| solution.scores.len());
    let all = || rows.iter().flat_map(|(_, solution)| &solution.scores);
    let names: ArrayRef = Arc::new(all().map(|(name, _)| Some(name)).collect::<StringArray>());
    let mut builder = ListBuilder::new(Float64Builder::new());
    all().for_each(|(_, scores)| builder.append_value(scores.iter().copied().map(Some)));
    let values: ArrayRef = Arc::new(builder.finish());
    list_of_structs(lengths, [("name", names), ("scores", values)])
}

fn list_of_structs<const N: usize>(
    lengths: impl Iterator<Item = usize>,
    columns: [(&str, ArrayRef); N],
) -> Result<ArrayRef, ArrowError> {
    let fields: Fields =
        columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true)).collect();
    let values = columns.into_iter().map(|(_, values)| values).collect();
    let items = StructArray::try_new(fields.clone(), values, None)?;
    let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
    Ok(Arc::new(ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), Arc::new(items), None)?))
}
