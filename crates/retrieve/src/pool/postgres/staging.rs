//! Records on their way into the tables of a build.
//!
//! The server knows which texts it has: a batch of records asks for the keys of its own, numbers what is new, and copies it
//! into the tables, in one transaction. So questions and step texts have the numbers that a folder gives them, and no more
//! than a batch is in memory. Only one process builds a pool of some name at a time.

use std::collections::{HashMap, HashSet};

use gradus_core::{LabelChoice, Mark, Record};
use gradus_data::dedup::DedupConfig;
use gradus_postgres::{Attempt, Connection};
use rayon::prelude::*;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use super::schema::Names;
use super::{Holds, Server};
use crate::embed::{Key, key};
use crate::error::{Error, Result};
use crate::pool::draft::{Counted, Dropped, counted, name};
use crate::pool::manifest::Counts;
use crate::pool::{guard, pack};

/// Records in a batch, and bytes of their texts, more or less.
const RECORDS: usize = 1000;
const BYTES: usize = 4 << 20;

/// What is being staged.
pub(super) struct Staging<'a> {
    pub(super) server: &'a Server,
    pub(super) names: Names,
    pub(super) labels: LabelChoice,
    pub(super) guard: DedupConfig,
    pub(super) counts: Counts,
    pub(super) dropped: Dropped,
}

/// A batch in rows.
#[derive(Default)]
struct Batch {
    questions: Vec<QuestionRow>,
    steps: Vec<StepRow>,
    solutions: Vec<SolutionRow>,
    guard: Vec<(i64, i32)>,
}

struct QuestionRow {
    number: i32,
    key: Vec<u8>,
    id: Vec<u8>,
    text: Vec<u8>,
}

struct StepRow {
    number: i32,
    key: Vec<u8>,
    text: Vec<u8>,
}

struct SolutionRow {
    question: i32,
    nth: i32,
    id: Vec<u8>,
    steps: Vec<i32>,
    name: Vec<u8>,
}

/// A solution whose texts have numbers.
struct Numbered<'a> {
    question: u32,
    id: &'a str,
    steps: Vec<(u32, Mark)>,
    name: Key,
}

impl Staging<'_> {
    /// Stages all records.
    pub(super) async fn add(&mut self, records: &mut dyn Iterator<Item = Record>) -> Result<()> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for record in records {
            bytes += size(&record);
            batch.push(record);
            if batch.len() >= RECORDS || bytes >= BYTES {
                self.stage(&batch).await?;
                batch.clear();
                bytes = 0;
            }
        }
        self.stage(&batch).await
    }

    async fn stage(&mut self, records: &[Record]) -> Result<()> {
        let (labels, dropped) = (&self.labels, &mut self.dropped);
        let records: Vec<(&Record, Counted<'_>)> =
            records.iter().filter_map(|record| Some((record, counted(record, labels, dropped)?))).collect();
        if records.is_empty() {
            return Ok(());
        }
        let questions = || records.iter().map(|(_, counted)| key(&counted.question));
        let steps = || {
            let solutions = records.iter().flat_map(|(_, counted)| &counted.solutions);
            solutions.flat_map(|solution| &solution.steps).map(|(text, _)| *text)
        };
        let known_questions = self.numbers("questions", questions().collect()).await?;
        let known_steps = self.numbers("steps", steps().map(key).collect()).await?;

        let mut batch = Batch::default();
        let mut step_numbers = known_steps;
        for text in steps() {
            let next = self.counts.step_texts;
            let key = key(text);
            let number = *step_numbers.entry(key).or_insert(next as u32);
            if number as usize == next {
                let (number, text) = (number as i32, text.as_bytes().to_vec());
                batch.steps.push(StepRow { number, key: key.to_vec(), text });
                self.counts.step_texts += 1;
            }
        }
        let mut question_numbers = known_questions.clone();
        let (first, mut new_texts) = (self.counts.questions, Vec::new());
        let mut solutions: Vec<Numbered<'_>> = Vec::new();
        for (record, counted) in &records {
            let next = self.counts.questions;
            let key = key(&counted.question);
            let number = *question_numbers.entry(key).or_insert(next as u32);
            if number as usize == next {
                let (id, text) =
                    (record.problem.id.as_bytes().to_vec(), counted.question.as_bytes().to_vec());
                batch.questions.push(QuestionRow { number: number as i32, key: key.to_vec(), id, text });
                new_texts.push(counted.question.as_str());
                self.counts.questions += 1;
            }
            for solution in &counted.solutions {
                let steps: Vec<(u32, Mark)> = solution
                    .steps
                    .iter()
                    .map(|(text, mark)| (step_numbers[&self::key(text)], *mark))
                    .collect();
                let name = name(number as usize, &steps);
                solutions.push(Numbered { question: number, id: &solution.id, steps, name });
            }
        }
        let names: Vec<Vec<u8>> = solutions.iter().map(|solution| solution.name.to_vec()).collect();
        let known: Vec<i32> = known_questions.values().map(|&number| number as i32).collect();
        let (mut seen, mut next_nth) = self.known_solutions(names, known).await?;
        for Numbered { question, id, steps, name } in solutions {
            if !seen.insert(name) {
                self.dropped.known_solutions += 1;
                continue;
            }
            let nth = next_nth.entry(question).or_default();
            let packed = steps.iter().map(|&(row, mark)| pack(row, mark) as i32).collect();
            batch.solutions.push(SolutionRow {
                question: question as i32,
                nth: *nth as i32,
                id: id.as_bytes().to_vec(),
                steps: packed,
                name: name.to_vec(),
            });
            *nth += 1;
            self.counts.solutions += 1;
            self.counts.steps += steps.len();
        }
        let filed = guard::file(new_texts.par_iter().copied(), first, &self.guard);
        self.counts.guard_keys += filed.len();
        batch.guard = filed.into_iter().map(|(key, question)| (key as i64, question as i32)).collect();
        let Counts { questions, steps, step_texts, .. } = self.counts;
        if step_texts >= 1 << 30 || questions >= 1 << 31 || u32::try_from(steps).is_err() {
            return Err(Error::Data(format!("{steps} steps are more than a pool can number: build several")));
        }
        let names = self.names.clone();
        self.server.call(async move |connection| copy(connection, &names, &batch).await).await
    }

    /// The numbers of texts that there are.
    async fn numbers(&self, kind: &str, keys: HashSet<Key>) -> Result<HashMap<Key, u32>> {
        let sql = format!("SELECT key, number FROM {} WHERE key = ANY($1)", self.names.table(kind));
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        let rows = self.server.call(async move |connection| connection.query(&sql, &[&keys]).await).await?;
        let one = |row: &tokio_postgres::Row| {
            let key = Key::try_from(row.get::<_, &[u8]>(0)).ok()?;
            Some((key, row.get::<_, i32>(1) as u32))
        };
        let numbers: Option<_> = rows.iter().map(one).collect();
        numbers.ok_or_else(|| self.server.damaged("a key has another length than keys have"))
    }

    /// Those of the solutions that there are, and how many these questions have.
    async fn known_solutions(
        &self,
        names: Vec<Vec<u8>>,
        questions: Vec<i32>,
    ) -> Result<(HashSet<Key>, HashMap<u32, u32>)> {
        let table = self.names.table("solutions");
        let there = format!("SELECT name FROM {table} WHERE name = ANY($1)");
        let counts =
            format!("SELECT question, count(*)::int FROM {table} WHERE question = ANY($1) GROUP BY question");
        let (there, counts) = self
            .server
            .call(async move |connection| {
                let there = connection.query(&there, &[&names]).await?;
                Ok((there, connection.query(&counts, &[&questions]).await?))
            })
            .await?;
        let there = there.iter().filter_map(|row| Key::try_from(row.get::<_, &[u8]>(0)).ok()).collect();
        let counts = counts.iter().map(|row| (row.get::<_, i32>(0) as u32, row.get::<_, i32>(1) as u32));
        Ok((there, counts.collect()))
    }
}

fn size(record: &Record) -> usize {
    let steps = record.solutions.iter().flat_map(|solution| &solution.steps);
    let texts = steps.chain(&record.problem.reference).map(String::len);
    record.problem.text.len() + texts.sum::<usize>()
}

/// Copies a batch, in one transaction.
async fn copy(connection: &mut Connection<Holds>, names: &Names, batch: &Batch) -> Attempt<()> {
    connection.batch("BEGIN").await?;
    let (bytes, int) = (Type::BYTEA, Type::INT4);
    let questions = batch.questions.iter();
    let questions = questions.map(|row| [&row.number as &Sql, &row.key, &row.id, &row.text]);
    let types = [int.clone(), bytes.clone(), bytes.clone(), bytes.clone()];
    copy_rows(connection, &names.table("questions"), &types, questions).await?;
    let steps = batch.steps.iter().map(|row| [&row.number as &Sql, &row.key, &row.text]);
    copy_rows(connection, &names.table("steps"), &[int.clone(), bytes.clone(), bytes.clone()], steps).await?;
    let solutions = batch.solutions.iter();
    let solutions = solutions.map(|row| [&row.question as &Sql, &row.nth, &row.id, &row.steps, &row.name]);
    let types = [int.clone(), int.clone(), bytes.clone(), Type::INT4_ARRAY, bytes];
    copy_rows(connection, &names.table("solutions"), &types, solutions).await?;
    let guard = batch.guard.iter().map(|(key, question)| [key as &Sql, question]);
    copy_rows(connection, &names.table("guard"), &[Type::INT8, int], guard).await?;
    connection.batch("COMMIT").await
}

/// A value of a row.
pub(super) type Sql = dyn ToSql + Sync;

/// Copies rows into a table, in PostgreSQL's binary format.
pub(super) async fn copy_rows<'a, const N: usize>(
    connection: &mut Connection<Holds>,
    table: &str,
    types: &[Type; N],
    rows: impl Iterator<Item = [&'a Sql; N]>,
) -> Attempt<()> {
    let sink = connection.client().copy_in(&format!("COPY {table} FROM STDIN (FORMAT binary)")).await?;
    let mut writer = std::pin::pin!(BinaryCopyInWriter::new(sink, types));
    for row in rows {
        writer.as_mut().write(&row).await?;
    }
    writer.finish().await?;
    Ok(())
}
