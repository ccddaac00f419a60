//! A server for the tests of the page: one thread per connection, nothing but the routes of `gradus_label::requests`.
//!
//! ```text
//! label_server FOLDER PORT [RECORDS [PEOPLE_PER_ITEM]]
//! ```
//!
//! Makes the project out of RECORDS where FOLDER is not there yet. `LABEL_KEY` is the key that it asks for, if any. The program
//! `gradus serve --label` is for people; this one has no limits on anything.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use gradus_label::{Combine, Error, ErrorKind, ExportFormat, Labeling, Order, Project, Settings, page};
use serde::Serialize;
use serde::de::DeserializeOwned;

struct Answer {
    status: u16,
    kind: &'static str,
    body: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = Path::new(&arguments[0]);
    if !folder.exists() {
        let items = gradus_data::files::open(&[arguments[2].as_str().into()], None)?;
        let records = items.map(|item| item.map(|item| item.record)).collect::<Result<_, _>>()?;
        let people_per_item = arguments.get(3).map_or(Ok(1), |text| text.parse())?;
        let settings = Settings { order: Order::File, people_per_item, ..Settings::default() };
        Project::create(folder, records, settings)?;
    }
    let labeling = Arc::new(Labeling::open(folder)?.with_renderer(Box::new(rendered)));
    let listener = TcpListener::bind(("127.0.0.1", arguments[1].parse::<u16>()?))?;
    writeln!(std::io::stdout(), "http://{}", listener.local_addr()?)?;
    for stream in listener.incoming() {
        let labeling = labeling.clone();
        std::thread::spawn(move || stream.and_then(|stream| serve(&labeling, &stream)));
    }
    Ok(())
}

/// Text as HTML, with what stands between dollars as mathematics.
fn rendered(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let pieces = escaped.split('$').enumerate();
    pieces
        .map(
            |(at, piece)| {
                if at % 2 == 1 { format!("<math><mi>{piece}</mi></math>") } else { piece.to_owned() }
            },
        )
        .collect()
}

fn serve(labeling: &Labeling, stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "authorization" => key = value.trim().to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let answer = answer(labeling, &method, &target, &key, &body);
    let Answer { status, kind, body } = answer;
    let policy = page::POLICY;
    let head = format!(
        "HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nContent-Security-Policy: {policy}\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()))
}

fn answer(labeling: &Labeling, method: &str, target: &str, key: &str, body: &[u8]) -> Answer {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let page = |kind, text: &str| Answer { status: 200, kind, body: text.to_owned() };
    let wanted = std::env::var("LABEL_KEY").ok().map(|wanted| format!("Bearer {wanted}"));
    if path.starts_with("/v1/") && wanted.is_some_and(|wanted| wanted != key) {
        let body = r#"{"error":{"message":"a key is needed","code":"unauthorized"}}"#.to_owned();
        return Answer { status: 401, kind: "application/json", body };
    }
    match (method, path) {
        ("GET", "/label") => page("text/html; charset=utf-8", page::HTML),
        ("GET", "/label.js") => page("text/javascript; charset=utf-8", page::SCRIPT),
        ("GET", "/label.css") => page("text/css; charset=utf-8", page::STYLE),
        ("GET", "/v1/label/overview") => json(Ok(labeling.overview())),
        ("GET", "/v1/label/export") => exported(labeling, query),
        ("POST", "/v1/label/next") => json(parsed(body).and_then(|request| labeling.next(&request))),
        ("POST", "/v1/label/save") => json(parsed(body).and_then(|request| labeling.save(&request))),
        ("POST", "/v1/label/undo") => json(parsed(body).and_then(|request| labeling.undo(&request))),
        ("POST", "/v1/label/suggestions") => {
            json(parsed(body).and_then(|request| labeling.suggestions(&request)))
        }
        ("POST", "/v1/label/heartbeat") => {
            json(parsed(body).and_then(|request| labeling.heartbeat(&request)))
        }
        ("POST", "/v1/label/release") => json(parsed(body).and_then(|request| labeling.release(&request))),
        _ => Answer { status: 404, kind: "text/plain", body: "not found".to_owned() },
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Invalid(error.to_string()))
}

fn json<T: Serialize>(result: Result<T, Error>) -> Answer {
    let (status, body) = match result {
        Ok(answer) => (200, serde_json::to_string(&answer)),
        Err(error) => {
            let status = match error.kind() {
                ErrorKind::Invalid => 422,
                ErrorKind::NotFound => 404,
                ErrorKind::Conflict => 409,
                ErrorKind::Internal => 500,
            };
            (status, serde_json::to_string(&error.body()))
        }
    };
    Answer { status, kind: "application/json", body: body.expect("answers serialize to JSON") }
}

fn exported(labeling: &Labeling, query: &str) -> Answer {
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let format: Result<ExportFormat, _> = value("format").unwrap_or("gradus").parse();
    let combine: Result<Combine, _> = value("combine").unwrap_or("dawid_skene").parse();
    match format.and_then(|format| Ok(labeling.export(format, combine?))) {
        Ok(exported) => Answer { status: 200, kind: "application/x-ndjson", body: exported.to_json_lines() },
        Err(message) => json::<()>(Err(Error::Invalid(message))),
    }
}
