//! Tests against a real server, at the address in GRADUS_TEST_POSTGRES; `make test-store` starts one.

use std::process::Command;
use std::sync::atomic::AtomicUsize;

use tokio::sync::{RwLock, RwLockReadGuard};
use tokio_postgres::{Client, NoTls};

use super::*;
use crate::contract_tests::{
    Place, contract_tests, dead, elsewhere, failure, is_complete, named, spec, twice, workers,
};
use crate::task_runner::{TaskError, TaskRunnerSettings, run_tasks};

/// Held for writing by the test that restarts the server.
static SERVER: RwLock<()> = RwLock::const_new(());

/// The server's address; says so where there is none.
#[expect(clippy::print_stderr, reason = "a test says that it is skipped")]
fn server() -> Option<String> {
    let url = std::env::var("GRADUS_TEST_POSTGRES").ok();
    if url.is_none() {
        eprintln!("skipped: GRADUS_TEST_POSTGRES is not set");
    }
    url
}

/// A schema of its own.
struct Schema {
    url: String,
    name: String,
    admin: Client,
    _server: Option<RwLockReadGuard<'static, ()>>,
}

impl Schema {
    async fn make() -> Option<Self> {
        let url = server()?;
        let guard = SERVER.read().await;
        Some(Self::of(&url, Some(guard)).await)
    }

    async fn of(server: &str, guard: Option<RwLockReadGuard<'static, ()>>) -> Self {
        let name = format!("test_{:x}", RandomState::new().build_hasher().finish());
        let url = format!("{server}?schema={name}&application_name={name}");
        Self { url, admin: admin(server, &name).await, name, _server: guard }
    }

    async fn connect(&self) -> PostgresStore {
        PostgresStore::connect(&self.url).await.unwrap()
    }

    async fn connection(&self) -> Connection {
        Connection::open(&Address::parse(&self.url, &[]).unwrap().0).await.unwrap()
    }

    async fn change(&self, statements: &str) {
        self.admin.batch_execute(statements).await.unwrap();
    }

    async fn remove(self) {
        self.change(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name)).await;
    }
}

impl Place for Schema {
    async fn open(&self) -> Box<dyn Store> {
        Box::new(self.connect().await)
    }

    async fn silence(&self) {
        self.change("UPDATE gradus_jobs SET updated = updated - interval '2 minutes'").await;
    }
}

/// A plain connection that sees a schema.
async fn admin(server: &str, schema: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path = {schema}")).await.unwrap();
    client
}

contract_tests!(Schema::make);

/// Runs a job in two stores at once; each task is run once, and has its result.
async fn share(stores: [&PostgresStore; 2], tasks: usize) {
    let id = stores[0].begin(spec(tasks)).await.unwrap().id;
    let runs: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
    let each = |task: usize| {
        runs[task].fetch_add(1, Ordering::Relaxed);
        twice(task)
    };
    let settings = TaskRunnerSettings { concurrency: 16, ..TaskRunnerSettings::default() };
    let (one, two) = tokio::join!(
        run_tasks(stores[0], id, &settings, each, named, |_| true),
        run_tasks(stores[1], id, &settings, each, named, |_| true)
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(is_complete(&one) && is_complete(&two));
    assert_eq!(one.done + two.done, tasks);
    assert!(one.done > 0 && two.done > 0, "{one:?} {two:?}");
    assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1), "each task is run once");
    let expected: Vec<(usize, String)> = (0..tasks).map(|task| (task, (2 * task).to_string())).collect();
    assert_eq!(stores[0].results(id, 0..usize::MAX).await.unwrap(), expected);
    let counts = stores[1].job(id).await.unwrap().tasks;
    assert_eq!((counts.done, counts.total()), (tasks, tasks));
    assert_eq!(stores[1].workers(id).await.unwrap().iter().map(|worker| worker.done).sum::<usize>(), tasks);
    assert_eq!(stores[0].verify(id).await.unwrap(), 0);
}

#[tokio::test]
async fn two_stores_share_a_job() {
    let Some(schema) = Schema::make().await else { return };
    share([&schema.connect().await, &schema.connect().await], 2000).await;
    schema.remove().await;
}

/// Connections that are cut during a run.
const CUTS: usize = 30;

/// Cuts connections of a schema's stores that often, and restarts the server on the way.
async fn disturb(server: &str, name: &str, cuts: &AtomicUsize) {
    let mut client = admin(server, name).await;
    let mut restarted = false;
    while cuts.load(Ordering::Relaxed) < CUTS {
        let cut = client
            .query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE application_name = $1 ORDER BY random() LIMIT 1",
                &[&name],
            )
            .await
            .unwrap();
        let count = cuts.fetch_add(cut.len(), Ordering::Relaxed);
        if count >= 10 && !restarted {
            restarted = true;
            if let Some(folder) = std::env::var_os("GRADUS_TEST_POSTGRES_FOLDER") {
                drop(client);
                let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres_server.py");
                let mut command = Command::new("python3");
                command.arg(script).arg("--restart").arg(folder);
                let ended = tokio::task::spawn_blocking(move || command.status()).await.unwrap().unwrap();
                assert!(ended.success());
                client = admin(server, name).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(7 + 13 * (count as u64 % 5))).await;
    }
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_and_a_restart_change_nothing() {
    let Some(url) = server() else { return };
    let _alone = SERVER.write().await;
    let schema = Schema::of(&url, None).await;
    let stores = [schema.connect().await, schema.connect().await];
    let cuts = AtomicUsize::new(0);
    let work = async {
        let mut round = 0;
        // As many jobs as it takes.
        while round == 0 || cuts.load(Ordering::Relaxed) < CUTS {
            share([&stores[0], &stores[1]], 2000).await;
            for job in stores[0].jobs().await.unwrap() {
                stores[0].remove(job.id).await.unwrap();
            }
            round += 1;
        }
    };
    tokio::select! {
        () = work => {}
        () = disturb(&url, &schema.name, &cuts) => {}
    }
    assert!(cuts.load(Ordering::Relaxed) >= CUTS);
    drop(stores);
    // The schema's own connection has gone with the server.
    admin(&url, &schema.name)
        .await
        .batch_execute(&format!("DROP SCHEMA {} CASCADE", schema.name))
        .await
        .unwrap();
}

#[tokio::test]
async fn many_connect_at_once_to_an_empty_database() {
    let Some(schema) = Schema::make().await else { return };
    let stores = futures_util::future::join_all((0..20).map(|_| schema.connect())).await;
    let jobs = futures_util::future::join_all(stores.iter().map(|store| store.begin(spec(500)))).await;
    let jobs: Vec<Job> = jobs.into_iter().map(|job| job.unwrap()).collect();
    assert!(jobs.iter().all(|job| job.id == jobs[0].id && job.tasks.open == 500), "{jobs:?}");
    drop(stores);
    schema.remove().await;
}

#[tokio::test]
async fn errors_say_what_to_do_and_hold_no_password() {
    let Some(schema) = Schema::make().await else { return };
    let server = server().unwrap();
    let (who, place) = server.split_once('@').unwrap();
    let (user, password) = who.rsplit_once(':').unwrap();
    let (host, _) = place.split_once('/').unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, expected) in [
        (format!("{user}:wrong-{password}@{place}"), "check the user and the password"),
        (format!("{who}@{host}/missing"), "createdb missing"),
        (format!("{who}@{free}/postgres"), "refused"),
        (format!("{who}@{place}?sslmode=require"), "TLS"),
    ] {
        let error = PostgresStore::connect(&url).await.unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(said.contains(expected) && said.contains("@127.0.0.1"), "{expected}: {said}");
        assert!(!said.contains(password), "{said}");
    }
    drop(schema.connect().await);
    let read_only = format!("{}&options=-c%20default_transaction_read_only%3Don", schema.url);
    let store = PostgresStore::connect(&read_only).await.unwrap();
    let error = store.begin(spec(1)).await.unwrap_err().to_string();
    assert!(error.contains("name the server that takes writes"), "{error}");
    schema.change("UPDATE gradus_schema SET version = 7").await;
    let error = PostgresStore::connect(&schema.url).await.unwrap_err().to_string();
    assert!(error.contains("version 7") && error.contains("use a newer program"), "{error}");
    schema.remove().await;
}

#[tokio::test]
async fn a_server_that_stays_away_is_told_after_the_patience() {
    let Some(schema) = Schema::make().await else { return };
    let server = server().unwrap();
    let (who, place) = server.split_once('@').unwrap();
    let (host, database) = place.split_once('/').unwrap();
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{who}@{}/{database}?schema={}", proxy.local_addr().unwrap(), schema.name);
    let host = host.to_owned();
    let carrier = tokio::spawn(async move {
        let (mut near, _) = proxy.accept().await.unwrap();
        drop(proxy);
        let mut far = tokio::net::TcpStream::connect(host).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    });
    let store = PostgresStore::connect_with_patience(&url, Duration::from_millis(200)).await.unwrap();
    store.jobs().await.unwrap();
    carrier.abort();
    for _ in 0..2 {
        let error = store.jobs().await.unwrap_err().to_string();
        assert!(error.contains("could not be reached") && error.contains("rerun to resume"), "{error}");
    }
    schema.remove().await;
}

#[tokio::test]
async fn leases_are_by_the_clock_of_the_server() {
    let Some(schema) = Schema::make().await else { return };
    let (one, two) = (schema.connect().await, schema.connect().await);
    let id = one.begin(spec(2)).await.unwrap().id;
    assert_eq!(one.claim(id, &elsewhere(), 1, 3600.0).await.unwrap(), Some(vec![0]));
    let ahead = "SELECT min(lease) BETWEEN now() AND now() + interval '1 hour' FROM gradus_tasks";
    assert!(schema.admin.query_one(ahead, &[]).await.unwrap().get::<_, bool>(0));
    assert_eq!(two.claim(id, &Worker::this(), 9, 60.0).await.unwrap(), Some(vec![1]));
    // An hour passes on the server, and nowhere else.
    schema.change("UPDATE gradus_tasks SET lease = lease - interval '1 hour' WHERE number = 0").await;
    assert_eq!(two.claim(id, &Worker::this(), 9, 60.0).await.unwrap(), Some(vec![0]));
    schema.remove().await;
}

#[tokio::test]
async fn calls_that_are_made_again_count_once() {
    let Some(schema) = Schema::make().await else { return };
    let store = schema.connect().await;
    let id = store.begin(spec(10)).await.unwrap().id;
    let claim = |token, worker: &Worker| Claim {
        job: id,
        worker: worker.to_string(),
        limit: 3,
        seconds: 60.0,
        token,
    };
    let this = Worker::this();
    for (token, worker, expected) in [
        (2, &this, [0, 1, 2]),
        (2, &this, [0, 1, 2]),
        (4, &this, [3, 4, 5]),
        (6, &elsewhere(), [6, 7, 8]),
        (4, &this, [3, 4, 5]),
    ] {
        // Each attempt is on a connection of its own.
        let taken = tasks::claim(&mut schema.connection().await, &claim(token, worker)).await.unwrap();
        assert_eq!(taken, Some(expected.to_vec()), "{token}");
    }
    assert_eq!(store.job(id).await.unwrap().tasks.leased, 9);
    // Fewer than are asked for: the second part of the claim is found again, too.
    store.renew(id, &elsewhere(), -1.0).await.unwrap();
    let mut last = claim(8, &this);
    last.limit = 9;
    for _ in 0..2 {
        let taken = tasks::claim(&mut schema.connection().await, &last).await.unwrap();
        assert_eq!(taken, Some(vec![6, 7, 8, 9]));
    }

    let back = async |token, why| {
        let mut connection = schema.connection().await;
        tasks::give_back(&mut connection, (id, 0), &failure(why), 5, token).await.unwrap()
    };
    assert!(back(100, "one").await);
    assert!(back(102, "two").await);
    assert!(back(100, "one again").await);
    let faults = store.faults(id, 0, 9).await.unwrap();
    assert_eq!((faults.len(), faults[0].attempts, &*faults[0].fault), (1, 2, "two"));

    let finished = || vec![Finished { job: id, task: 1, worker: this.to_string(), result: "1".to_owned() }];
    for _ in 0..2 {
        tasks::finish(&mut schema.connection().await, &finished()).await.unwrap();
    }
    assert_eq!(store.workers(id).await.unwrap().iter().map(|worker| worker.done).sum::<usize>(), 1);
    schema.remove().await;
}

#[tokio::test]
async fn a_damaged_row_costs_its_task() {
    for damage in [
        "UPDATE gradus_results SET result = '5' WHERE number = 2",
        "UPDATE gradus_results SET hash = '5' WHERE number = 2",
        "UPDATE gradus_results SET number = 99 WHERE number = 2",
        "DELETE FROM gradus_results WHERE number = 2",
        "UPDATE gradus_tasks SET number = 99 WHERE number = 2",
        "UPDATE gradus_tasks SET number = -7 WHERE number = 2",
        "DELETE FROM gradus_tasks WHERE number = 2",
        "UPDATE gradus_tasks SET state = 0 WHERE number = 2",
        "UPDATE gradus_tasks SET state = 1 WHERE number = 2",
        "UPDATE gradus_tasks SET state = 1, worker = 'elsewhere', lease = 'infinity' WHERE number = 2",
    ] {
        let Some(schema) = Schema::make().await else { return };
        let store = schema.connect().await;
        let id = store.begin(spec(6)).await.unwrap().id;
        run_tasks(&store, id, &workers(), twice, named, |_| true).await.unwrap();
        schema.change(damage).await;
        store.begin(spec(6)).await.unwrap();
        store.verify(id).await.unwrap();
        assert_eq!(store.job(id).await.unwrap().tasks.done, 5, "{damage}");
        let asked = std::cell::RefCell::new(Vec::new());
        let each = |task: usize| {
            asked.borrow_mut().push(task);
            async move { Ok::<_, TaskError>((2 * task).to_string()) }
        };
        assert!(is_complete(&run_tasks(&store, id, &workers(), each, named, |_| true).await.unwrap()));
        assert_eq!(*asked.borrow(), [2], "{damage}");
        let expected: Vec<(usize, String)> = (0..6).map(|task| (task, (2 * task).to_string())).collect();
        assert_eq!(store.results(id, 0..usize::MAX).await.unwrap(), expected, "{damage}");
        assert_eq!(store.verify(id).await.unwrap(), 0, "{damage}");
        assert_eq!(store.job(id).await.unwrap().tasks.done, 6, "{damage}");
        schema.remove().await;
    }
}

/// A store that is made in one runtime is used in others, as the command line does.
#[test]
fn a_store_outlives_the_runtime_that_made_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let Some(schema) = runtime().block_on(Schema::make()) else { return };
    let store = runtime().block_on(schema.connect());
    let id = runtime().block_on(store.begin(spec(3))).unwrap().id;
    assert_eq!(runtime().block_on(store.claim(id, &dead(), 3, 60.0)).unwrap(), Some(vec![0, 1, 2]));
    drop(store);
    let server = server().unwrap();
    runtime().block_on(async {
        let drop = format!("DROP SCHEMA {} CASCADE", schema.name);
        admin(&server, &schema.name).await.batch_execute(&drop).await.unwrap();
    });
}
