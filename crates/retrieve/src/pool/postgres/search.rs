//! What is asked of a pool on a server.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use gradus_data::dedup::Filing;
use gradus_kernels::vectors::dot;
use rayon::prelude::*;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::PostgresPool;
use super::rows::Vector;
use crate::error::{Error, Result};
use crate::pca::Pca;
use crate::pool::guard::{Duplicate, decide};
use crate::pool::{PoolManifest, unpack};
use crate::search::{Hit, sort, top_k};
use crate::source::{
    Lookup, MarkCounts, NamedSolution, Parts, PoolSource, Questions, SolutionView, StepView,
};

/// Bytes of vectors that exact search reads at once.
const SCANNED: usize = 8 << 20;
/// Queries that go to the index in one round trip.
const QUERIES: usize = 64;
/// Questions that the index proposes beyond those that are wanted: halves confuse neighbors of almost the same similarity.
const SPARE: usize = 16;
/// Rows that are asked for by number at once.
const ROWS: usize = 4096;
/// Targets whose copies are looked for at once.
const TARGETS: usize = 128;

/// How many questions an index of so many looks at, for a recall@10 of 98 %.
pub(super) fn ef_search(questions: usize) -> usize {
    match questions {
        0..=30_000 => 100,
        30_001..=300_000 => 200,
        300_001..=3_000_000 => 400,
        _ => 800,
    }
}

impl PoolSource for PostgresPool {
    fn place(&self) -> &Path {
        self.server.place()
    }

    fn manifest(&self) -> &PoolManifest {
        &self.manifest
    }

    fn components(&self) -> Option<&Pca> {
        self.components.as_ref()
    }

    fn is_approximate(&self) -> bool {
        self.ef_search.is_some()
    }

    fn duplicates<'a>(
        &'a self,
        questions: &'a [&'a str],
        threshold: f64,
    ) -> Lookup<'a, Vec<Vec<(u32, Duplicate)>>> {
        Box::pin(async move {
            let filing = Filing::new(&self.manifest.guard);
            let sql = format!("SELECT key, question FROM {} WHERE key = ANY($1)", self.names.table("guard"));
            let mut all = Vec::with_capacity(questions.len());
            for questions in questions.chunks(TARGETS) {
                let keys: Vec<Vec<u64>> =
                    questions.par_iter().map(|question| filing.keys(question)).collect();
                let wanted: HashSet<i64> = keys.iter().flatten().map(|&key| key as i64).collect();
                let (wanted, sql): (Vec<i64>, String) = (wanted.into_iter().collect(), sql.clone());
                let rows = self.server.call(async move |c| c.query(&sql, &[&wanted]).await).await?;
                let mut filed: HashMap<u64, Vec<u32>> = HashMap::new();
                for row in &rows {
                    let key = self.get::<i64>(row, 0)? as u64;
                    filed.entry(key).or_default().push(self.number(row, 1)?);
                }
                let candidates = |keys: &Vec<u64>| {
                    let found = keys.iter().filter_map(|key| filed.get(key)).flatten().copied();
                    sorted(found.collect())
                };
                let candidates: Vec<Vec<u32>> = keys.iter().map(candidates).collect();
                let at_hand = self.fetch(&sorted(candidates.concat()), Parts::Texts).await?;
                let one = |(question, candidates): (&&str, &Vec<u32>)| {
                    let texts = candidates.iter().map(|&number| (number, at_hand.text(number)));
                    decide(question, texts, &self.manifest.guard, threshold)
                };
                all.par_extend(questions.par_iter().zip(&candidates).map(one));
            }
            Ok(all)
        })
    }

    fn solutions_of<'a>(&'a self, ids: &'a [&'a str]) -> Lookup<'a, Vec<NamedSolution>> {
        Box::pin(async move {
            let table = self.names.table("solutions");
            let sql = format!(
                "SELECT id, question, nth,
                     (SELECT count(*)::int FROM {table} o WHERE o.question = s.question)
                 FROM {table} s WHERE id = ANY($1)"
            );
            let ids: Vec<Vec<u8>> = ids.iter().map(|id| id.as_bytes().to_vec()).collect();
            let rows = self.server.call(async move |c| c.query(&sql, &[&ids]).await).await?;
            let one = |row: &Row| {
                let question = self.number(row, 1)?;
                let (nth, of) = (self.get::<i32>(row, 2)? as u32, self.get::<i32>(row, 3)? as u32);
                Ok(NamedSolution { id: self.text(row, 0)?, question, nth, of })
            };
            rows.iter().map(one).collect()
        })
    }

    fn nearest<'a>(
        &'a self,
        queries: &'a [f32],
        k: usize,
        barred: &'a [&'a [u32]],
    ) -> Lookup<'a, Vec<Vec<Hit>>> {
        Box::pin(async move {
            let k = k.min(self.manifest.counts.questions);
            match self.ef_search {
                None => self.scan(queries, k, barred).await,
                Some(ef_search) => self.walk(queries, k, barred, ef_search).await,
            }
        })
    }

    fn questions<'a>(&'a self, numbers: &'a [u32], parts: Parts) -> Lookup<'a, Box<dyn Questions + 'a>> {
        Box::pin(async move {
            let fetched: Box<dyn Questions> = Box::new(self.fetch(numbers, parts).await?);
            Ok(fetched)
        })
    }

    fn steps<'a>(&'a self, rows: &'a [u32]) -> Lookup<'a, Vec<(String, Vec<f32>)>> {
        Box::pin(async move {
            let mut steps = self.fetch_steps(&sorted(rows.to_vec())).await?;
            let one = |row: &u32| steps.remove(row).ok_or_else(|| self.missing("step text", *row));
            rows.iter().map(one).collect()
        })
    }

    fn each_text<'a>(&'a self, take: &'a mut (dyn FnMut(&str) + Send)) -> Lookup<'a, ()> {
        Box::pin(async move {
            let questions = self.manifest.counts.questions;
            for start in (0..questions).step_by(ROWS) {
                let numbers: Vec<u32> =
                    (start..questions.min(start + ROWS)).map(|number| number as u32).collect();
                let at_hand = self.fetch(&numbers, Parts::Texts).await?;
                numbers.iter().for_each(|&number| take(at_hand.text(number)));
            }
            Ok(())
        })
    }

    fn marks(&self) -> Lookup<'_, MarkCounts> {
        Box::pin(async move {
            let table = self.names.table("solutions");
            let sql = format!(
                "SELECT count(*) FILTER (WHERE step & 3 = 0), count(*) FILTER (WHERE step & 3 = 1),
                     count(*) FILTER (WHERE step & 3 = 2),
                     count(DISTINCT (question, nth)) FILTER (WHERE step & 3 = 1)
                 FROM {table}, unnest(steps) step"
            );
            let rows = self.server.call(async move |c| c.query(&sql, &[]).await).await?;
            let count = |column: usize| match rows.first() {
                Some(row) => Ok(self.get::<i64>(row, column)? as usize),
                None => Err(self.server.damaged("nothing was counted")),
            };
            Ok(MarkCounts {
                correct: count(0)?,
                incorrect: count(1)?,
                neutral: count(2)?,
                wrong_solutions: count(3)?,
            })
        })
    }

    fn bytes(&self) -> Lookup<'_, u64> {
        Box::pin(async move {
            let tables: Vec<String> =
                super::schema::KINDS.iter().map(|kind| self.names.table(kind)).collect();
            let sql =
                "SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest($1::text[]) name";
            let rows = self.server.call(async move |c| c.query(sql, &[&tables]).await).await?;
            rows.first().map_or(Ok(0), |row| Ok(self.get::<i64>(row, 0)?.unsigned_abs()))
        })
    }
}

impl PostgresPool {
    /// Exact search: reads the vectors in order, and looks at some while the next ones are on their way.
    async fn scan(&self, queries: &[f32], k: usize, barred: &[&[u32]]) -> Result<Vec<Vec<Hit>>> {
        let (total, kept) = (self.manifest.counts.questions, self.manifest.kept);
        let step = (SCANNED / (4 * kept)).max(1);
        let range = |start: usize| start..total.min(start + step);
        let mut best: Vec<Vec<Hit>> = vec![Vec::new(); queries.len() / kept];
        let mut next = Some(self.read(range(0)));
        let mut start = 0;
        while let Some(reading) = next.take() {
            let rows = reading.await.and_then(|rows| self.rows(&rows, range(start)))?;
            let first = start;
            start += step;
            // The call is on its way once it is made.
            next = (start < total).then(|| self.read(range(start)));
            let keep =
                |query: usize, row: u32, _: f32| barred[query].binary_search(&(first as u32 + row)).is_err();
            let found = top_k(&rows, kept, queries, k, keep);
            for (best, found) in best.iter_mut().zip(found) {
                best.extend(found.into_iter().map(|hit| Hit { row: hit.row + first as u32, ..hit }));
                sort(best);
                best.truncate(k);
            }
        }
        Ok(best)
    }

    /// Asks for the vectors of questions.
    fn read(&self, range: Range<usize>) -> impl Future<Output = Result<Vec<Row>>> + Send + use<> {
        let sql = format!(
            "SELECT number, vector FROM {} WHERE number >= $1 AND number < $2 ORDER BY number",
            self.names.table("question_vectors")
        );
        let (start, end) = (range.start as i32, range.end as i32);
        self.server.call(async move |connection| connection.query(&sql, &[&start, &end]).await)
    }

    /// The vectors of these questions, all of them.
    fn rows(&self, rows: &[Row], range: Range<usize>) -> Result<Vec<f32>> {
        let mut values = Vec::with_capacity(rows.len() * self.manifest.kept);
        let mut numbers = range.map(|number| number as u32);
        for row in rows {
            let number = self.number(row, 0)?;
            match numbers.next() {
                Some(expected) if expected == number => values.extend(self.vector(row, 1)?),
                expected => return Err(self.missing("the vector of question", expected.unwrap_or(number))),
            }
        }
        match numbers.next() {
            Some(number) => Err(self.missing("the vector of question", number)),
            None => Ok(values),
        }
    }

    /// Search through the index: it proposes by halves, and the vectors in f32 decide.
    async fn walk(
        &self,
        queries: &[f32],
        k: usize,
        barred: &[&[u32]],
        ef_search: usize,
    ) -> Result<Vec<Vec<Hit>>> {
        let (total, kept) = (self.manifest.counts.questions, self.manifest.kept);
        let (half, product) = (self.names.half(kept), self.names.of_extension("<#>"));
        let vector = self.names.of_extension("vector");
        let sql: Arc<str> = format!(
            "SELECT number, vector FROM {}
             ORDER BY (vector::{half}) OPERATOR({product}) ($1::{vector}::{half}) LIMIT $2::bigint",
            self.names.table("question_vectors")
        )
        .into();
        let mut found = Vec::with_capacity(barred.len());
        let queries: Vec<&[f32]> = queries.chunks_exact(kept).collect();
        for (queries, barred) in queries.chunks(QUERIES).zip(barred.chunks(QUERIES)) {
            let most = barred.iter().map(|barred| barred.len()).max().unwrap_or(0);
            let limit = (k + most + SPARE) as i64;
            // What is wanted beyond the first walk is found by walking on.
            let begin = format!(
                "BEGIN; SET LOCAL hnsw.ef_search = {}; SET LOCAL hnsw.iterative_scan = relaxed_order;
                 SET LOCAL enable_seqscan = off",
                (limit as usize).max(ef_search).min(1000)
            );
            let asked: Vec<Vector> = queries.iter().map(|query| Vector(query.to_vec())).collect();
            let sql = Arc::clone(&sql);
            let answers = self.server.call(async move |connection| {
                let parameters: Vec<[&(dyn tokio_postgres::types::ToSql + Sync); 2]> =
                    asked.iter().map(|vector| [vector as _, &limit as _]).collect();
                let calls: Vec<(&str, gradus_postgres::Parameters<'_>)> =
                    parameters.iter().map(|parameters| (&*sql, &parameters[..])).collect();
                connection.transaction(&begin, &calls).await
            });
            for ((rows, query), barred) in answers.await?.iter().zip(queries).zip(barred) {
                let mut hits = Vec::with_capacity(rows.len());
                for row in rows {
                    let number = self.number(row, 0)?;
                    if barred.binary_search(&number).is_err() {
                        hits.push(Hit { row: number, similarity: dot(&self.vector(row, 1)?, query) });
                    }
                }
                sort(&mut hits);
                hits.truncate(k);
                if hits.len() < k.min(total.saturating_sub(barred.len())) {
                    // The graph does not lead to as many.
                    hits = self.scan(query, k, &[barred]).await?.pop().unwrap_or_default();
                }
                found.push(hits);
            }
        }
        Ok(found)
    }

    /// Fetches questions, each named once, in ascending order.
    async fn fetch(&self, numbers: &[u32], parts: Parts) -> Result<Fetched> {
        let mut fetched = Fetched { kept: self.manifest.kept, ..Fetched::default() };
        let (questions, vectors) = (self.names.table("questions"), self.names.table("question_vectors"));
        let solutions = self.names.table("solutions");
        for numbers in numbers.chunks(ROWS) {
            let wanted: Vec<i32> = numbers.iter().map(|&number| number as i32).collect();
            let sql = match parts {
                Parts::Vectors => format!(
                    "SELECT number, id, text, vector FROM {questions} JOIN {vectors} USING (number)
                     WHERE number = ANY($1)"
                ),
                _ => format!("SELECT number, id, text FROM {questions} WHERE number = ANY($1)"),
            };
            for row in self.server.by_numbers(sql, wanted.clone()).await? {
                let vector = if parts == Parts::Vectors { self.vector(&row, 3)? } else { Vec::new() };
                let question = FetchedQuestion {
                    id: self.text(&row, 1)?,
                    text: self.text(&row, 2)?,
                    vector,
                    solutions: Vec::new(),
                };
                fetched.questions.insert(self.number(&row, 0)?, question);
            }
            if let Some(missing) = numbers.iter().find(|number| !fetched.questions.contains_key(number)) {
                return Err(self.missing("question", *missing));
            }
            if parts != Parts::Solutions {
                continue;
            }
            let sql = format!(
                "SELECT question, nth, id, steps FROM {solutions} WHERE question = ANY($1) ORDER BY question, nth"
            );
            for row in self.server.by_numbers(sql, wanted).await? {
                let question = fetched.questions.get_mut(&self.number(&row, 0)?);
                let Some(question) = question else {
                    return Err(self.server.damaged("a solution is of no question"));
                };
                if self.get::<i32>(&row, 1)? as usize != question.solutions.len() {
                    return Err(self.server.damaged("solutions are missing"));
                }
                let steps = self.get::<Vec<i32>>(&row, 3)?.into_iter().map(|step| step as u32).collect();
                question.solutions.push((self.text(&row, 2)?, steps));
            }
            if let Some(number) = numbers.iter().find(|number| fetched.questions[number].solutions.is_empty())
            {
                return Err(self.missing("the solutions of question", *number));
            }
        }
        let of_questions = fetched.questions.values().flat_map(|question| &question.solutions);
        let steps: Vec<u32> = of_questions.flat_map(|(_, steps)| steps).copied().collect();
        if steps.iter().any(|step| unpack(*step).is_none()) {
            return Err(self.server.damaged("a step has a mark that no step has"));
        }
        let wanted = sorted(steps.into_iter().map(|step| step >> 2).collect());
        fetched.steps = self.fetch_steps(&wanted).await?;
        Ok(fetched)
    }

    /// Fetches step texts with their vectors, each named once, in ascending order.
    async fn fetch_steps(&self, numbers: &[u32]) -> Result<HashMap<u32, (String, Vec<f32>)>> {
        let (steps, vectors) = (self.names.table("steps"), self.names.table("step_vectors"));
        let mut fetched = HashMap::new();
        for numbers in numbers.chunks(ROWS) {
            let wanted: Vec<i32> = numbers.iter().map(|&number| number as i32).collect();
            let sql = format!(
                "SELECT number, text, vector FROM {steps} JOIN {vectors} USING (number) WHERE number = ANY($1)"
            );
            for row in self.server.by_numbers(sql, wanted).await? {
                let number = self.get::<i32>(&row, 0)? as u32;
                fetched.insert(number, (self.text(&row, 1)?, self.vector(&row, 2)?));
            }
            if let Some(missing) = numbers.iter().find(|number| !fetched.contains_key(number)) {
                return Err(self.missing("step text", *missing));
            }
        }
        Ok(fetched)
    }

    fn get<'a, T: FromSql<'a>>(&self, row: &'a Row, column: usize) -> Result<T> {
        row.try_get(column).map_err(|error| {
            let name = row.columns().get(column).map_or("", |column| column.name());
            let cause =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            self.server.damaged(&format!("column {name} cannot be read: {cause}"))
        })
    }

    /// The number of a question.
    fn number(&self, row: &Row, column: usize) -> Result<u32> {
        let number: i32 = self.get(row, column)?;
        let found =
            u32::try_from(number).ok().filter(|&found| (found as usize) < self.manifest.counts.questions);
        found.ok_or_else(|| self.server.damaged(&format!("it names question {number}, which there is not")))
    }

    fn text(&self, row: &Row, column: usize) -> Result<String> {
        let text = String::from_utf8(self.get(row, column)?);
        text.map_err(|_| self.server.damaged("a text is no UTF-8"))
    }

    fn vector(&self, row: &Row, column: usize) -> Result<Vec<f32>> {
        let Vector(vector) = self.get(row, column)?;
        let (found, kept) = (vector.len(), self.manifest.kept);
        if found != kept {
            return Err(self.server.damaged(&format!("a vector has {found} dimensions instead of {kept}")));
        }
        if !vector.iter().all(|value| value.is_finite()) {
            return Err(self.server.damaged("a vector has a value that is no finite number"));
        }
        Ok(vector)
    }

    fn missing(&self, what: &str, number: u32) -> Error {
        self.server.damaged(&format!("{what} {number} is missing"))
    }
}

/// Numbers in ascending order, each once.
fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Questions that were fetched.
#[derive(Default)]
struct Fetched {
    kept: usize,
    questions: HashMap<u32, FetchedQuestion>,
    steps: HashMap<u32, (String, Vec<f32>)>,
}

struct FetchedQuestion {
    id: String,
    text: String,
    vector: Vec<f32>,
    /// Ids, and each step's number and mark.
    solutions: Vec<(String, Vec<u32>)>,
}

impl Questions for Fetched {
    fn text(&self, question: u32) -> &str {
        &self.questions[&question].text
    }

    fn id(&self, question: u32) -> &str {
        &self.questions[&question].id
    }

    fn vector(&self, question: u32) -> &[f32] {
        let vector = &self.questions[&question].vector;
        assert_eq!(vector.len(), self.kept, "the vector of question {question} was not asked for");
        vector
    }

    fn solutions(&self, question: u32) -> Vec<SolutionView<'_>> {
        let solutions = self.questions[&question].solutions.iter().enumerate();
        let views = solutions.map(|(nth, (id, steps))| {
            let steps = steps.iter().map(|&step| {
                let (text, vector) = &self.steps[&(step >> 2)];
                let mark = unpack(step).expect("marks were checked when they were fetched");
                StepView { row: step >> 2, text, mark, vector }
            });
            SolutionView { nth: nth as u32, id, steps: steps.collect() }
        });
        views.collect()
    }
}
