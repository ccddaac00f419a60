//! How much one process can ask for at once: `cargo run --release -p gradus-llm --example load`
//!
//! Options: `--in-flight` (1000 requests), `--rounds` (10 requests for each of them), `--latency` (1 s), `--cache FOLDER`
//! (keeps answers there; a second run then sends nothing). The server is the scripted one, in a process of its own (this
//! program with `--serve`), and answers each request after exactly that time. The ideal rate is requests in flight /
//! latency; the start, with a connection for each request, is part of what is measured. Ends with status 1 below 95 % of
//! the ideal rate or beyond 300 MB of memory. Memory, processor time and the limit on open files are read from `/proc`,
//! so they are missing outside Linux.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gradus_core::contracts::{Generate, GenerateRequest, Message, Prompt};
use gradus_llm::scripted::server::{Act, Server, replies};
use gradus_llm::{Cache, Chat, Endpoint, Http};

/// About as long as a prompt with a problem and the steps of a solution.
const PROMPT_WORDS: usize = 400;
/// About as long as a solution.
const ANSWER_WORDS: usize = 200;
const LEAST_SHARE: f64 = 0.95;
const MOST_MEGABYTES: f64 = 300.0;

fn main() -> ExitCode {
    let number = |name: &str, default: f64| {
        let mut words = std::env::args().skip_while(|word| word != name).skip(1);
        words
            .next()
            .map_or(default, |word| word.parse().unwrap_or_else(|_| panic!("{name} {word} is no number")))
    };
    let latency = number("--latency", 1.0);
    let (in_flight, rounds) = (number("--in-flight", 1000.0) as usize, number("--rounds", 10.0) as usize);
    if let Some(limit) = proc("limits", "Max open files").filter(|limit| *limit < in_flight as f64 + 50.0) {
        eprintln!(
            "{in_flight} connections need as many open files, the limit is {limit}: ulimit -n {}",
            in_flight + 50
        );
        return ExitCode::from(2);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    if std::env::args().any(|word| word == "--serve") {
        runtime.block_on(serve(Duration::from_secs_f64(latency)));
        return ExitCode::SUCCESS;
    }

    let program = std::env::current_exe().expect("a program knows where it is");
    let mut server = Command::new(program)
        .args(["--serve", "--latency", &latency.to_string(), "--in-flight", &in_flight.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started again");
    let mut url = String::new();
    BufReader::new(server.stdout.take().expect("it was piped"))
        .read_line(&mut url)
        .expect("the server says where it is");

    let endpoint = Endpoint { concurrency: in_flight, ..Endpoint::new(url.trim(), "scripted") };
    let mut http = Http::open(&endpoint).expect("loopback can be opened");
    if let Some(folder) = std::env::args().skip_while(|word| word != "--cache").nth(1) {
        http = http.with_cache(Cache::open(folder.as_ref(), None).expect("the folder can be used"));
    }
    let started = Instant::now();
    let failed = runtime.block_on(send(&http, in_flight, in_flight * rounds));
    let seconds = started.elapsed().as_secs_f64();
    // The server ends when its standard input does.
    drop(server.stdin.take());
    server.wait().ok();

    let requests = in_flight * rounds;
    let ideal = in_flight as f64 / latency;
    let rate = requests as f64 / seconds;
    let times = http.latency();
    let megabytes = proc("status", "VmHWM:").map(|kilobytes| kilobytes * 1024.0 / 1e6);
    println!("{requests} requests, {in_flight} in flight, {latency} s each: {seconds:.2} s");
    println!("{rate:.1} requests/s, {:.1} % of the ideal {ideal:.0}", 100.0 * rate / ideal);
    println!("latency median {:.3} s, p99 {:.3} s, longest {:.3} s", times.median, times.p99, times.max);
    println!("memory {} MB, processor {} s", shown(megabytes), shown(processor_seconds()));
    println!(
        "failed {failed}, retried {}, from the cache {}",
        http.counters().retries,
        http.counters().cached
    );
    let good =
        rate >= LEAST_SHARE * ideal && megabytes.is_none_or(|found| found < MOST_MEGABYTES) && failed == 0;
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn serve(latency: Duration) {
    let answer = vec!["word"; ANSWER_WORDS].join(" ");
    let replies = replies(move |_, _, _| answer.clone());
    let late = move |number: usize, seen: &_| match replies(number, seen) {
        Act::Say(200, _, body) => Act::Late(latency, body),
        other => other,
    };
    let server = Server::start(late).await;
    println!("{}", server.url);
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.ok();
}

/// Asks `requests` times, `in_flight` at once, and says how often there was no answer.
async fn send(http: &Http, in_flight: usize, requests: usize) -> usize {
    let model = Arc::new(Chat::new(http.clone()));
    let (next, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let problem = vec!["word"; PROMPT_WORDS].join(" ");
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..in_flight {
        let (model, next, failed, problem) = (model.clone(), next.clone(), failed.clone(), problem.clone());
        workers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return;
                }
                let prompt = Prompt::Chat(vec![Message::new("user", format!("{number} {problem}"))]);
                let request = GenerateRequest { seed: number as u64, ..GenerateRequest::new(prompt, 512) };
                if let Err(error) = model.generate(request).await {
                    failed.fetch_add(1, Ordering::Relaxed);
                    eprintln!("{error}");
                }
            }
        });
    }
    workers.join_all().await;
    failed.load(Ordering::Relaxed)
}

/// The first number behind `name` in a file of `/proc/self`.
fn proc(file: &str, name: &str) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// User and system time, which Linux counts in hundredths of a second.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name, which may hold spaces.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?) / 100.0)
}

fn shown(value: Option<f64>) -> String {
    value.map_or("unknown".to_owned(), |value| format!("{value:.1}"))
}
