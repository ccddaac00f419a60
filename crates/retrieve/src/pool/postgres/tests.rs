//! Tests against a real server, at the address in GRADUS_TEST_POSTGRES; `make test-store` starts one.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use gradus_core::contracts::{Answer, Embed, Embeddings, Usage};
use gradus_core::{Problem, Record};
use proptest::prelude::*;
use tokio_postgres::{Client, NoTls};

use crate::pool::{Encoder, PoolAddress, Progress, Settings};
use crate::source::Hit;
use crate::tests::contract::{Shelf, contract_tests, found, halved, many_settings, odd_records, targets};
use crate::tests::fake::{Words, record, records};
use crate::tests::pool::{encoder, settings};
use crate::two_stage;

/// The server's address; says so where there is none.
#[expect(clippy::print_stderr, reason = "a test says that it is skipped")]
fn server() -> Option<String> {
    let url = std::env::var("GRADUS_TEST_POSTGRES").ok();
    if url.is_none() {
        eprintln!("skipped: GRADUS_TEST_POSTGRES is not set");
    }
    url
}

/// A schema of its own, and a folder for pools to compare with.
struct Schema {
    url: String,
    name: String,
    folder: tempfile::TempDir,
}

impl Schema {
    async fn make() -> Option<Self> {
        let server = server()?;
        let name = format!("test_{:x}", RandomState::new().build_hasher().finish());
        let folder = tempfile::tempdir().unwrap();
        Some(Self { url: format!("{server}?schema={name}&application_name={name}"), name, folder })
    }

    /// A plain connection that sees the schema.
    async fn admin(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&server().unwrap(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("SET search_path = {}, public", self.name)).await.unwrap();
        client
    }

    async fn change(&self, statements: &str) {
        self.admin().await.batch_execute(statements).await.unwrap();
    }

    /// The tables of pools that there are.
    async fn tables(&self) -> Vec<String> {
        let sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1 AND tablename ~ '_[0-9]+' ORDER BY 1";
        let rows = self.admin().await.query(sql, &[&self.name]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    fn with(&self, name: &str, more: &str) -> PoolAddress {
        PoolAddress::from(format!("{}&pool={name}{more}", self.url).as_str())
    }
}

impl Shelf for Schema {
    fn pool(&self, name: &str) -> PoolAddress {
        self.with(name, "")
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        on_a_thread(async {
            let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name);
            let _ = self.admin().await.batch_execute(&drop).await;
        });
    }
}

/// Waits for a future in a runtime of its own, from within another one.
fn on_a_thread(future: impl Future<Output = ()> + Send) {
    let wait = || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
    };
    std::thread::scope(|scope| scope.spawn(wait).join().unwrap());
}

contract_tests!(Schema::make);

/// Builds the same pool in a folder and on the server.
async fn both(schema: &Schema, records: Vec<Record>, settings: &Settings) -> [PoolAddress; 2] {
    let pools = [schema.folder.pool("same"), schema.pool("same")];
    let model = Words::default();
    let mut reports = Vec::new();
    for pool in &pools {
        let records = records.clone();
        reports.push(pool.build(records, &encoder(&model), settings, Some(&halved), |_| true).await.unwrap());
    }
    assert_eq!(reports[0].counts, reports[1].counts);
    assert_eq!(reports[0].dropped, reports[1].dropped);
    assert_eq!(reports[0].embedded, reports[1].embedded);
    pools
}

#[tokio::test]
async fn references_are_those_of_a_folder_to_the_byte() {
    let Some(schema) = Schema::make().await else { return };
    // Several batches of records, copies among them.
    let all: Vec<Record> = (0..1400).map(|number| record(number % 700)).chain(odd_records()).collect();
    let [folder, server] = both(&schema, all, &settings()).await;
    let targets = targets(90);
    for settings in many_settings() {
        let expected = found(&folder, &targets, &settings).await;
        let actual = found(&server, &targets, &settings).await;
        for (expected, actual) in expected.targets.iter().zip(&actual.targets) {
            assert_eq!(
                serde_json::to_string(expected).unwrap(),
                serde_json::to_string(actual).unwrap(),
                "{settings:?}"
            );
        }
        assert_eq!(expected, actual);
    }
    let map =
        |pool: PoolAddress| async move { crate::map::questions(&*pool.open().unwrap(), 50).await.unwrap() };
    assert_eq!(map(folder).await, map(server).await);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn exact_search_equals_a_folders(
        numbers in prop::collection::vec(0_usize..60, 1..80),
        asked in prop::collection::vec(0_usize..90, 1..6),
        questions in 0_usize..12, database in 1_usize..12, steps in 0_usize..4,
        near in 0.8..1.0_f64, cosine in 0.5..1.1_f32,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let Some(schema) = Schema::make().await else { return };
            let all = numbers.iter().map(|&number| record(number)).collect();
            let [folder, server] = both(&schema, all, &settings()).await;
            let all = targets(90);
            let targets: Vec<_> = asked.iter().map(|&index| all[index % all.len()].clone()).collect();
            let settings =
                two_stage::Settings { questions, database, steps, near, cosine, ..Default::default() };
            assert_eq!(found(&folder, &targets, &settings).await, found(&server, &targets, &settings).await);
        });
    }
}

/// Vectors around a few hundred centers, by the number in the text.
struct Clusters(usize);

impl Embed for Clusters {
    fn embed(&self, texts: Vec<String>) -> Answer<'_, Embeddings> {
        let draw = |seed: u64, index: usize| {
            let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (index as u64) << 32;
            state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((state ^ state >> 31) >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        let mut values = Vec::new();
        for text in &texts {
            let number: u64 = text.split_whitespace().next_back().unwrap().parse().unwrap();
            values.extend(
                (0..self.0).map(|index| draw(number % 211, index) + 0.6 * draw(1_000_000 + number, index)),
            );
        }
        let usage = Usage { prompt_tokens: texts.len() as u64, completion_tokens: 0 };
        Box::pin(async move { Ok(Embeddings { dimension: self.0, values, truncated: 0, usage }) })
    }
}

/// A question that has the vector of its number, and a step that all share.
fn numbered(number: usize) -> Record {
    let problem = Problem {
        id: format!("q{number}"),
        text: format!("question {number}"),
        reference: vec!["step 1".to_owned()],
        ..Problem::default()
    };
    Record::new(problem, Vec::new())
}

/// How many of the expected hits were found, with the same similarities.
fn recall(found: &[Vec<Hit>], expected: &[Vec<Hit>]) -> f64 {
    let same = |(found, expected): (&Vec<Hit>, &Vec<Hit>)| {
        let exactly: HashSet<(u32, u32)> =
            expected.iter().map(|hit| (hit.row, hit.similarity.to_bits())).collect();
        found.iter().filter(|hit| exactly.contains(&(hit.row, hit.similarity.to_bits()))).count()
    };
    let hits: usize = found.iter().zip(expected).map(same).sum();
    hits as f64 / expected.iter().map(Vec::len).sum::<usize>() as f64
}

#[tokio::test]
async fn an_index_finds_nearly_all_and_its_similarities_are_exact() {
    let Some(schema) = Schema::make().await else { return };
    let model = Clusters(96);
    let encoder = Encoder { model: &model, name: "clusters", fingerprint: "clusters" };
    let indexed = Settings { graph_from: 1, batch: 1000, ..Settings::default() };
    let pool = schema.pool("indexed");
    pool.build((0..12_000).map(numbered), &encoder, &indexed, None, |_| true).await.unwrap();
    let (graph, exact) = (pool.open().unwrap(), schema.with("indexed", "&search=exact").open().unwrap());
    assert!(graph.is_approximate() && !exact.is_approximate());
    let queries: Vec<String> = (0..200).map(|number| format!("query {}", 50_000 + 37 * number)).collect();
    let queries = graph.project(model.embed(queries).await.unwrap().values);
    let barred = vec![[3, 70].as_slice(); 200];
    let found = graph.nearest(&queries, 10, &barred).await.unwrap();
    let expected = exact.nearest(&queries, 10, &barred).await.unwrap();
    assert!(found.iter().all(|found| found.len() == 10));
    let recall = recall(&found, &expected);
    assert!(recall >= 0.98, "recall@10 is {recall}");
}

#[tokio::test]
async fn of_two_builders_one_is_refused_and_a_dropped_one_is_as_if_killed() {
    let Some(schema) = Schema::make().await else { return };
    let pool = schema.pool("p");
    let model = Words::default();
    let named = encoder(&model);
    let settings = settings();
    let build = || pool.build(records(0..60), &named, &settings, Some(&halved), |_| true);
    let both = tokio::join!(build(), build(), build(), build());
    let both = [both.0, both.1, both.2, both.3];
    assert_eq!(both.iter().filter(|built| built.is_ok()).count(), 1, "{both:?}");
    for refused in both.iter().filter_map(|built| built.as_ref().err()) {
        let said = refused.to_string();
        assert!(said.contains("in use by another process") || said.contains("is there already"), "{said}");
    }
    let expected = found(&pool, &targets(60), &two_stage::Settings::default()).await;

    // Dropped at any point, a build that would replace the pool leaves it as it is.
    let replacing = Settings { replace: true, ..settings.clone() };
    let mut finished = false;
    for milliseconds in (0..).map(|round: u64| round * round * 3) {
        let again = pool.build(records(0..61), &named, &replacing, Some(&halved), |_| true);
        let ended = tokio::time::timeout(std::time::Duration::from_millis(milliseconds), again).await;
        match ended {
            Ok(built) => {
                built.unwrap();
                finished = true;
            }
            Err(_) => {
                let counts = pool.open().unwrap().manifest().counts;
                // It may have been dropped between its last two statements.
                if counts.questions == 60 {
                    let now = found(&pool, &targets(60), &two_stage::Settings::default()).await;
                    assert_eq!(now, expected);
                }
            }
        }
        if finished {
            break;
        }
        assert!(milliseconds < 60_000);
    }
    assert_eq!(pool.open().unwrap().manifest().counts.questions, 61);
    // Nothing is left of those that were dropped.
    assert_eq!(schema.tables().await.len(), 6, "{:?}", schema.tables().await);
}

#[tokio::test]
async fn who_reads_keeps_what_was_replaced() {
    let Some(schema) = Schema::make().await else { return };
    let pool = schema.pool("p");
    let model = Words::default();
    let replacing = Settings { replace: true, ..settings() };
    pool.build(records(0..20), &encoder(&model), &replacing, None, |_| true).await.unwrap();
    let reader = pool.open().unwrap();
    pool.build(records(20..50), &encoder(&model), &replacing, None, |_| true).await.unwrap();
    let search = two_stage::Settings::default();
    let old = two_stage::retrieve(&*reader, Some(&model), &targets(20), &search, |_, _| true).await.unwrap();
    assert!(old.targets.iter().all(|target| target.references.questions.len() == 2));
    assert_eq!(schema.tables().await.len(), 12);
    drop(reader);
    assert_eq!(pool.open().unwrap().manifest().counts.questions, 30);
    pool.add(records(50..60), &encoder(&model), &settings(), |_| true).await.unwrap();
    assert_eq!(pool.open().unwrap().manifest().counts.questions, 40);
    assert_eq!(schema.tables().await.len(), 6, "{:?}", schema.tables().await);
}

/// Each schema counts its builds from 1: a reader of another schema's first build keeps nothing of ours.
#[tokio::test]
async fn readers_of_another_schema_keep_nothing() {
    let Some(schema) = Schema::make().await else { return };
    let Some(other) = Schema::make().await else { return };
    let model = Words::default();
    let replacing = Settings { replace: true, ..settings() };
    for schema in [&schema, &other] {
        schema.pool("p").build(records(0..20), &encoder(&model), &replacing, None, |_| true).await.unwrap();
    }
    let reader = other.pool("p").open().unwrap();
    let search = two_stage::Settings::default();
    two_stage::retrieve(&*reader, Some(&model), &targets(20), &search, |_, _| true).await.unwrap();
    schema.pool("p").build(records(20..50), &encoder(&model), &replacing, None, |_| true).await.unwrap();
    assert_eq!(schema.tables().await.len(), 6, "{:?}", schema.tables().await);
    drop(reader);
}

#[tokio::test]
async fn a_cut_connection_is_made_again_by_a_search_and_ends_a_build() {
    let Some(schema) = Schema::make().await else { return };
    let pool = schema.pool("p");
    let model = Words::default();
    pool.build(records(0..20), &encoder(&model), &settings(), None, |_| true).await.unwrap();
    let cut = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{}'",
        schema.name
    );
    let reader = pool.open().unwrap();
    let search = two_stage::Settings::default();
    for _ in 0..3 {
        schema.change(&cut).await;
        let found = two_stage::retrieve(&*reader, Some(&model), &targets(20), &search, |_, _| true).await;
        assert_eq!(found.unwrap().targets.len(), targets(20).len());
    }
    let other = schema.pool("other");
    let mut batches = 0;
    let watch = |_: Progress| {
        batches += 1;
        if batches == 6 {
            on_a_thread(schema.change(&cut));
        }
        true
    };
    let error = other.build(records(0..200), &encoder(&model), &settings(), None, watch).await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("the connection was lost") && said.contains("rerun to resume"), "{said}");
    let report = other.build(records(0..200), &encoder(&model), &settings(), None, |_| true).await.unwrap();
    assert!(report.embedded.resumed > 0);
    assert_eq!(other.open().unwrap().manifest().counts.questions, 200);
}

#[tokio::test]
async fn errors_say_what_to_do_and_hold_no_password() {
    let Some(schema) = Schema::make().await else { return };
    let server = server().unwrap();
    let (who, place) = server.split_once('@').unwrap();
    let (user, password) = who.rsplit_once(':').unwrap();
    let (host, _) = place.split_once('/').unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let name = &schema.name;
    schema
        .pool("there")
        .build(records(0..3), &encoder(&Words::default()), &settings(), None, |_| true)
        .await
        .unwrap();
    for (url, expected) in [
        (format!("{user}:wrong-{password}@{place}?pool=p"), "check the user and the password"),
        (format!("{who}@{host}/missing?pool=p"), "createdb missing"),
        (format!("{who}@{free}/postgres?pool=p"), "check that the server runs"),
        (format!("{who}@{place}?schema={name}"), "it names no pool"),
        (format!("{who}@{place}?schema={name}&pool=no/name"), "must be a name"),
        (format!("{who}@{place}?schema={name}&pool=p&search=fast"), "must be exact or hnsw"),
        (format!("{who}@{place}?schema={name}&pool=p&ef_search=0"), "must be 1 to 1000"),
        (
            format!("{who}@{place}?schema={name}&pool=p&search=exact&ef_search=9"),
            "no effect with search=exact",
        ),
        (format!("{who}@{place}?schema={name}&pool=p&pol=p"), "a setting that is not known"),
        (
            format!("{who}@{place}?schema={name}&pool=p"),
            "there is no pool `p` in the database (there are there): build it",
        ),
        (format!("{who}@{place}?schema=empty_{name}&pool=p"), "there are none in it"),
    ] {
        let address = PoolAddress::from(url.as_str());
        let error = address.open().err().unwrap();
        let said = format!("{error} {error:?} {address} {address:?}");
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(!said.contains(password), "{said}");
    }
    schema.change("UPDATE gradus_pool_schema SET version = 7").await;
    let error = schema.pool("there").open().err().unwrap().to_string();
    assert!(error.contains("version 7") && error.contains("use a newer program"), "{error}");
}

#[tokio::test]
async fn a_database_without_pgvector_is_told() {
    let Some(schema) = Schema::make().await else { return };
    let (name, admin) = (&schema.name, schema.admin().await);
    admin.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD 'sesame'")).await.unwrap();
    admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let server = server().unwrap();
    let (_, place) = server.split_once('@').unwrap();
    let (host, _) = place.split_once('/').unwrap();
    let mut owner = server.rsplit_once('/').unwrap().0.to_owned();
    owner.push_str(&format!("/{name}"));
    let (client, connection) = tokio_postgres::connect(&owner, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE SCHEMA AUTHORIZATION {name}")).await.unwrap();
    drop(client);
    let pool = PoolAddress::from(format!("postgres://{name}:sesame@{host}/{name}?pool=p").as_str());
    let model = Words::default();
    let error = pool.build(records(0..3), &encoder(&model), &settings(), None, |_| true).await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("has no pgvector") && said.contains("CREATE EXTENSION vector"), "{said}");
    assert!(!said.contains("sesame"), "{said}");
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
    admin.batch_execute(&format!("DROP ROLE {name}")).await.unwrap();
}

#[tokio::test]
async fn hostile_rows_are_refused() {
    for (damage, expected) in [
        (
            "ALTER TABLE {t}question_vectors ALTER vector TYPE vector; UPDATE {t}question_vectors SET vector = '[1,2,3]' WHERE number = 3",
            "3 dimensions instead of 24",
        ),
        (
            "ALTER TABLE {t}question_vectors ALTER vector TYPE float4[] USING ARRAY['NaN'::float4]",
            "column vector cannot be read",
        ),
        ("DELETE FROM {t}question_vectors WHERE number = 7", "the vector of question 7 is missing"),
        (
            "ALTER TABLE {t}step_vectors ALTER vector TYPE vector; UPDATE {t}step_vectors SET vector = '[1]'",
            "1 dimensions instead of 24",
        ),
        ("DELETE FROM {t}questions WHERE number > 1", "is missing"),
        ("UPDATE {t}questions SET text = '\\xff'", "a text is no UTF-8"),
        ("UPDATE {t}solutions SET steps = ARRAY[3]", "a mark that no step has"),
        ("UPDATE {t}solutions SET steps = ARRAY[-4]", "step text 1073741823 is missing"),
        ("DELETE FROM {t}solutions WHERE nth = 0", "is damaged"),
        ("UPDATE {t}guard SET question = -9", "it names question -9"),
        ("UPDATE {t}guard SET question = 900", "it names question 900"),
        ("UPDATE gradus_pools SET manifest = replace(manifest, '24', '25')", "its checksum does not match"),
        ("UPDATE gradus_pools SET components = '\\x00'", "its components make no sense"),
        ("UPDATE gradus_pools SET components = NULL", "its components are missing"),
        ("UPDATE gradus_pools SET build = 77", "its tables are gone"),
    ] {
        let Some(schema) = Schema::make().await else { return };
        let pool = schema.pool("p");
        let model = Words::default();
        pool.build(records(0..20), &encoder(&model), &settings(), Some(&halved), |_| true).await.unwrap();
        let build = schema.tables().await[0].split('_').nth(2).unwrap().to_owned();
        schema.change(&damage.replace("{t}", &format!("gradus_pool_{build}_"))).await;
        let outcome = match pool.open() {
            Err(error) => Err(error),
            Ok(opened) => {
                let search = two_stage::Settings::default();
                two_stage::retrieve(&*opened, Some(&model), &targets(20), &search, |_, _| true).await
            }
        };
        let said = outcome.unwrap_err().to_string();
        assert!(said.contains(expected), "{damage}: {said}");
    }
}

/// Time and memory of a pool of 100,000 questions, 128 dimensions, in a folder and on a server: `make bench-pool`. Each
/// measurement is a process of its own.
#[tokio::test]
#[ignore = "a measurement: make bench-pool"]
#[expect(clippy::print_stdout, reason = "a measurement is printed")]
async fn speed() {
    const STAGES: [&str; 5] =
        ["build folder", "build server", "search folder", "search exact", "search hnsw"];
    let Some(server) = server() else { return };
    let root = std::env::temp_dir().join("gradus-bench-pool");
    let Ok(stage) = std::env::var("GRADUS_MEASURE") else {
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(&root).unwrap();
        for stage in STAGES {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            command.args(["--ignored", "--exact", "--nocapture", "pool::postgres::tests::speed"]);
            assert!(command.env("GRADUS_MEASURE", stage).status().unwrap().success());
        }
        return std::fs::remove_dir_all(&root).unwrap();
    };
    let model = Clusters(128);
    let encoder = Encoder { model: &model, name: "clusters", fingerprint: "clusters" };
    let settings = Settings { graph_from: 1, batch: 1000, replace: true, ..Settings::default() };
    let on_server =
        |more: &str| PoolAddress::from(format!("{server}?schema=bench_pool&pool=p{more}").as_str());
    let folder = PoolAddress::from(&*root.join("p"));
    let began = std::time::Instant::now();
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.map_or_else(String::new, |line| format!("peak memory{line}"))
    };
    let pool = match stage.as_str() {
        "build folder" | "build server" => {
            let exact = Settings { graph_from: usize::MAX, ..settings.clone() };
            let (pool, settings) =
                if stage == "build folder" { (&folder, &exact) } else { (&on_server(""), &settings) };
            pool.build((0..100_000).map(numbered), &encoder, settings, None, |_| true).await.unwrap();
            let bytes = pool.open().unwrap().bytes().await.unwrap() / 1_000_000;
            return println!(
                "{stage}: {:.1} s, {bytes} MB stored, {}",
                began.elapsed().as_secs_f64(),
                peak()
            );
        }
        "search folder" => folder.open().unwrap(),
        "search exact" => on_server("&search=exact").open().unwrap(),
        _ => on_server("").open().unwrap(),
    };
    let opened = began.elapsed();
    let queries: Vec<String> = (0..400).map(|number| format!("query {}", 500_000 + 37 * number)).collect();
    let queries = pool.project(model.embed(queries).await.unwrap().values);
    let began = std::time::Instant::now();
    let found = pool.nearest(&queries, 10, &vec![[].as_slice(); 400]).await.unwrap();
    let together = began.elapsed();
    let mut alone = Vec::new();
    for query in queries.chunks(128).take(20) {
        let began = std::time::Instant::now();
        pool.nearest(query, 10, &[&[]]).await.unwrap();
        alone.push(began.elapsed().as_secs_f64());
    }
    alone.sort_by(f64::total_cmp);
    let (memory, expected) =
        (peak(), folder.open().unwrap().nearest(&queries, 10, &vec![[].as_slice(); 400]).await);
    println!(
        "{stage}: opened in {:.3} s, one query {:.1} ms (median of 20), 400 queries {:.2} s, recall@10 {:.4}, {memory}",
        opened.as_secs_f64(),
        1000.0 * alone[10],
        together.as_secs_f64(),
        recall(&found, &expected.unwrap()),
    );
    if stage == STAGES[4] {
        let (client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("DROP SCHEMA bench_pool CASCADE").await.unwrap();
    }
}
