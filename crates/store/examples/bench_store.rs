//! Tasks per second of the stores, beside a plain queue in the same PostgreSQL.
//!
//! Run with `make bench-store`, which starts a server; without one only SQLite is measured.
//!
//! Each worker is a process with a store of its own. It runs tasks that do nothing but give 300 bytes, through
//! `run_tasks`, until none is open. The plain queue is what common PostgreSQL queues do: a transaction for each task, which
//! locks the next open row with `FOR UPDATE SKIP LOCKED` and marks it done with its result. Time counts from the first
//! worker's start of work to the last one's end.

use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use gradus_store::{
    JobSpec, PostgresStore, Result, SqliteStore, Store, TaskError, TaskRunnerSettings, run_tasks,
};

/// Tasks of a measurement.
const TASKS: usize = 20_000;

/// Tasks of the plain queue, which is slower.
const QUEUED: usize = 4_000;

/// Tasks in flight of one worker.
const CONCURRENCY: usize = 256;

const WORKERS: [usize; 3] = [1, 8, 64];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work", place, tasks] => runtime.block_on(work(place, tasks.parse().expect("a number"))),
        ["queue", place] => runtime.block_on(queue::work(place)),
        _ => runtime.block_on(measure()),
    }
}

async fn open(place: &str) -> Result<Box<dyn Store>> {
    if place.starts_with("postgres") {
        return Ok(Box::new(PostgresStore::connect(place).await?));
    }
    Ok(Box::new(SqliteStore::open(place.as_ref())?))
}

fn spec(tasks: usize) -> JobSpec {
    JobSpec { kind: "bench".to_owned(), fingerprint: "bench".to_owned(), tasks, ..JobSpec::default() }
}

/// One worker: prints when it began and ended, in seconds since 1970, and what it did.
#[expect(clippy::print_stdout, reason = "the parent process reads it")]
async fn work(place: &str, tasks: usize) {
    let store = open(place).await.expect("a store");
    let job = store.jobs().await.expect("jobs")[0].id;
    let settings = TaskRunnerSettings { concurrency: CONCURRENCY, ..TaskRunnerSettings::default() };
    let began = now();
    let nothing = |_| async { Ok::<_, TaskError>("x".repeat(300)) };
    let ended = run_tasks(&*store, job, &settings, nothing, |task| task.to_string(), |_| true).await;
    let done = ended.expect("a run").done;
    assert!(done <= tasks);
    println!("{began} {} {done}", now());
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Runs workers at the same time; tasks per second, or why a worker failed.
fn together(workers: usize, arguments: &[&str], tasks: usize) -> String {
    let program = std::env::current_exe().expect("this program");
    let start = || {
        Command::new(&program)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process")
    };
    let started: Vec<_> = (0..workers).map(|_| start()).collect();
    let (mut first, mut last, mut done, mut failed) = (f64::MAX, 0.0_f64, 0.0, None);
    for worker in started {
        let ended = worker.wait_with_output().expect("its end");
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            failed = said.lines().find(|line| line.starts_with("a run")).map(str::to_owned);
            failed = failed.or(Some("a worker failed".to_owned()));
            continue;
        }
        let said = String::from_utf8(ended.stdout).expect("numbers");
        let numbers: Vec<f64> = said.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        (first, done) = (first.min(numbers[0]), done + numbers[2]);
        // One that found nothing to do waited for the others.
        last = if numbers[2] > 0.0 { last.max(numbers[1]) } else { last };
    }
    if let Some(failed) = failed {
        return failed;
    }
    assert_eq!(done as usize, tasks, "each task is done once");
    format!("{:.0}", tasks as f64 / (last - first))
}

#[expect(clippy::print_stdout, reason = "the table is the outcome")]
async fn measure() {
    let folder = tempfile::tempdir().expect("a folder");
    println!("| store | workers | tasks/s |\n|---|---|---|");
    for workers in WORKERS {
        let path = folder.path().join(format!("{workers}.sqlite"));
        let path = path.to_str().expect("a path");
        drop(open(path).await.expect("a store").begin(spec(TASKS)).await.expect("a job"));
        let speed = together(workers, &["work", path, &TASKS.to_string()], TASKS);
        println!("| SQLite | {workers} | {speed} |");
    }
    let Ok(server) = std::env::var("GRADUS_TEST_POSTGRES") else {
        println!("skipped: GRADUS_TEST_POSTGRES is not set");
        return;
    };
    for workers in WORKERS {
        let url = format!("{server}?schema=bench_{workers}");
        drop(open(&url).await.expect("a store").begin(spec(TASKS)).await.expect("a job"));
        let speed = together(workers, &["work", &url, &TASKS.to_string()], TASKS);
        println!("| PostgreSQL | {workers} | {speed} |");
    }
    for workers in WORKERS {
        queue::fill(&server).await;
        let speed = together(workers, &["queue", &server], QUEUED);
        println!("| plain queue in PostgreSQL | {workers} | {speed} |");
    }
    let began = Instant::now();
    let store = open(&format!("{server}?schema=bench_many")).await.expect("a store");
    let job = store.begin(spec(1_000_000)).await.expect("a job");
    println!("a job of 1,000,000 tasks in PostgreSQL: made in {:.1} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    store.job(job.id).await.expect("a job");
    println!("its tasks are counted in {:.1} ms", 1e3 * began.elapsed().as_secs_f64());
}

/// The queue that others are.
mod queue {
    use tokio_postgres::{Client, NoTls};

    use super::{QUEUED, now};

    async fn connect(server: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(server, NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client
    }

    pub(super) async fn fill(server: &str) {
        let tables = format!(
            "DROP TABLE IF EXISTS plain_queue;
             CREATE TABLE plain_queue(id bigserial PRIMARY KEY, state text NOT NULL DEFAULT 'open', result text);
             CREATE INDEX ON plain_queue(id) WHERE state = 'open';
             INSERT INTO plain_queue(state) SELECT 'open' FROM generate_series(1, {QUEUED});"
        );
        connect(server).await.batch_execute(&tables).await.expect("a table");
    }

    #[expect(clippy::print_stdout, reason = "the parent process reads it")]
    pub(super) async fn work(server: &str) {
        let mut client = connect(server).await;
        let next =
            "SELECT id FROM plain_queue WHERE state = 'open' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
        let next = client.prepare(next).await.expect("a statement");
        let done = "UPDATE plain_queue SET state = 'done', result = $2 WHERE id = $1";
        let done = client.prepare(done).await.expect("a statement");
        let (began, result, mut count) = (now(), "x".repeat(300), 0);
        loop {
            let transaction = client.transaction().await.expect("a transaction");
            let Some(row) = transaction.query_opt(&next, &[]).await.expect("a row") else { break };
            let id: i64 = row.get(0);
            transaction.execute(&done, &[&id, &result]).await.expect("an update");
            transaction.commit().await.expect("a commit");
            count += 1;
        }
        println!("{began} {} {count}", now());
    }
}
