//! Finds the records in a stream of JSON, one at a time, whatever wraps them.
//!
//! Four containers occur in the wild: JSONL; one array; objects one after another, printed over many lines
//! (PRM800K's sample files); and one object of arrays, `{"id": [{…}, {…}], …}` (MR-Ben). A small scanner cuts
//! out the bytes of each record and serde_json parses them, so memory holds one record, never the file.
//! A broken line of JSONL costs that line; a cut inside an array ends the file.

use std::io::{self, BufRead, Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use gradus_core::json::JsonScanner;
use gradus_core::limits::Limit;
use memchr::{memchr, memchr_iter};
use serde::Deserialize;
use serde_json::Value;

use crate::{Error, Result, SourceLocation};
use gradus_core::Fault;

/// How much of the file the container is guessed from.
const SNIFF_BYTES: usize = 16 << 10;

/// How far the end of a line is looked for at once: a line may hold many records.
const WINDOW_BYTES: usize = 8 << 10;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Container {
    /// One record a line; a line is the unit of damage.
    Lines,
    /// Records one after another, line breaks anywhere.
    Stream,
    /// One array of records.
    Array,
    /// One object whose values are arrays of records.
    Map,
}

/// Where the scanner stands between two records of an array or map.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Expect {
    First,
    Separator,
}

/// Iterates over the records of one JSON stream with the line each starts on.
pub(crate) struct JsonRecords {
    input: Box<dyn BufRead + Send>,
    path: Arc<Path>,
    container: Container,
    expect: Expect,
    line: u64,
    record: Vec<u8>,
    /// Why the file cannot be read past a record that was refused.
    unreadable: Option<Error>,
    done: bool,
}

impl JsonRecords {
    /// The records of `input`, whose first line is `line` of the file.
    pub(crate) fn open(mut input: Box<dyn BufRead + Send>, path: Arc<Path>, mut line: u64) -> Result<Self> {
        let mut head = Vec::with_capacity(SNIFF_BYTES);
        let broken = |source: &io::Error| Error::Broken {
            place: SourceLocation { path: path.clone(), line },
            message: read_failure(source),
        };
        input.by_ref().take(SNIFF_BYTES as u64).read_to_end(&mut head).map_err(|e| broken(&e))?;
        let at = head.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        line += memchr_iter(b'\n', &head[..at]).count() as u64;
        if at == head.len() {
            return Err(Error::Empty { path: path.to_path_buf() });
        }
        let container = sniff(&head[at..]);
        let mut rest = Cursor::new(head);
        rest.set_position(at as u64);
        let mut records = Self {
            input: Box::new(rest.chain(input)),
            path,
            container,
            expect: Expect::First,
            line,
            record: Vec::new(),
            unreadable: None,
            done: false,
        };
        match container {
            Container::Array | Container::Map => {
                records.input.consume(1);
                if container == Container::Map {
                    records.enter_map_entry()?;
                }
            }
            Container::Lines | Container::Stream => {}
        }
        Ok(records)
    }

    fn place(&self) -> SourceLocation {
        SourceLocation { path: self.path.clone(), line: self.line }
    }

    fn broken(&self, message: impl Into<String>) -> Error {
        Error::Broken { place: self.place(), message: message.into() }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    /// Skips white space, counting lines, and shows the byte after it.
    fn peek_token(&mut self) -> Result<Option<u8>> {
        loop {
            match self.peek() {
                Err(source) => return Err(self.broken(read_failure(&source))),
                Ok(Some(byte)) if byte.is_ascii_whitespace() => {
                    self.line += u64::from(byte == b'\n');
                    self.input.consume(1);
                }
                Ok(token) => return Ok(token),
            }
        }
    }

    fn expect_token(&mut self, wanted: u8, what: &str) -> Result<()> {
        match self.peek_token()? {
            Some(byte) if byte == wanted => {
                self.input.consume(1);
                Ok(())
            }
            found => Err(self.broken(format!("expected {what}, found {}", describe(found)))),
        }
    }

    /// Reads `"key": [` of an object of arrays.
    fn enter_map_entry(&mut self) -> Result<()> {
        self.expect_token(b'"', "a key")?;
        let mut escaped = false;
        loop {
            let byte = match self.peek() {
                Ok(Some(byte)) => byte,
                Ok(None) => return Err(self.broken("the file ends inside a key")),
                Err(source) => return Err(self.broken(read_failure(&source))),
            };
            self.input.consume(1);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => break,
                _ => {}
            }
        }
        self.expect_token(b':', "`:`")?;
        self.expect_token(b'[', "an array of records")?;
        self.expect = Expect::First;
        Ok(())
    }

    /// Moves to the first byte of the next record; false at the end.
    fn advance(&mut self) -> Result<bool> {
        loop {
            let token = self.peek_token()?;
            match (self.container, token) {
                (Container::Lines | Container::Stream, None) => return Ok(false),
                (Container::Lines | Container::Stream, Some(_)) => return Ok(true),
                (Container::Array | Container::Map, None) => {
                    return Err(self.broken(
                        "the file ends before the JSON array is closed: it is truncated, get it again",
                    ));
                }
                (Container::Array, Some(b']')) => {
                    self.input.consume(1);
                    return match self.peek_token()? {
                        None => Ok(false),
                        found => Err(self.broken(format!("{} after the end of the array", describe(found)))),
                    };
                }
                (Container::Map, Some(b']')) => {
                    self.input.consume(1);
                    match self.peek_token()? {
                        Some(b',') => {
                            self.input.consume(1);
                            self.enter_map_entry()?;
                        }
                        Some(b'}') => return Ok(false),
                        found => {
                            return Err(
                                self.broken(format!("expected `,` or `}}`, found {}", describe(found)))
                            );
                        }
                    }
                }
                (Container::Array | Container::Map, Some(b',')) if self.expect == Expect::Separator => {
                    self.input.consume(1);
                    self.expect = Expect::First;
                }
                (Container::Array | Container::Map, Some(_)) if self.expect == Expect::First => {
                    return Ok(true);
                }
                (_, found) => {
                    return Err(self.broken(format!("expected `,` or `]`, found {}", describe(found))));
                }
            }
        }
    }

    /// Copies one value into `self.record`. The input stands on its first byte.
    fn cut_out(&mut self) -> Result<()> {
        self.record.clear();
        let start = self.line;
        if self.peek().ok().flatten() != Some(b'{') {
            return self.refuse_non_object();
        }
        let mut scanner = JsonScanner::default();
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(source) => {
                    let message = read_failure(&source);
                    return Err(self.broken(message));
                }
            };
            if buffer.is_empty() {
                let fault = cut_off(&self.record);
                let place = SourceLocation { path: self.path.clone(), line: start };
                self.done = true;
                return Err(if self.container == Container::Lines {
                    Error::Record { place, fault }
                } else {
                    Error::Broken { place, message: format!("{fault}: the file is truncated, get it again") }
                });
            }
            let buffer = &buffer[..buffer.len().min(WINDOW_BYTES)];
            let line_end = if self.container == Container::Lines { memchr(b'\n', buffer) } else { None };
            let line = line_end.map_or(buffer, |end| &buffer[..=end]);
            let (used, closed) = scanner.scan(line);
            self.line += memchr_iter(b'\n', &line[..used]).count() as u64;
            self.record.extend_from_slice(&line[..used]);
            self.input.consume(used);
            let exceeded =
                [(Limit::RecordBytes, self.record.len() as u64), (Limit::RecordValues, scanner.values())];
            if let Some((limit, _)) = exceeded.into_iter().find(|(limit, found)| *found > limit.value()) {
                return self.refuse_large(start, limit, closed || line_end.is_some());
            }
            if closed {
                self.expect = Expect::Separator;
                return Ok(());
            }
            if line_end.is_some() {
                let place = SourceLocation { path: self.path.clone(), line: start };
                return Err(Error::Record { place, fault: cut_off(&self.record) });
            }
        }
    }

    /// A record beyond a limit. JSONL can go on with the next line, which nobody keeps in memory on the way.
    fn refuse_large(&mut self, start: u64, limit: Limit, is_read: bool) -> Result<()> {
        self.record = Vec::new();
        let place = SourceLocation { path: self.path.clone(), line: start };
        let message = format!("the record has {}", limit.exceeded());
        if self.container != Container::Lines {
            return Err(Error::Broken { place, message });
        }
        if !is_read {
            self.unreadable = self.skip_line().err();
        }
        Err(Error::Record { place, fault: Fault::new("", message) })
    }

    /// A record must be an object. JSONL can go on with the next line; other containers cannot.
    fn refuse_non_object(&mut self) -> Result<()> {
        let found = self.peek().ok().flatten();
        let message = format!("expected a record (a JSON object), found {}", describe(found));
        if self.container != Container::Lines {
            return Err(self.broken(message));
        }
        let place = self.place();
        self.skip_line()?;
        Err(Error::Record { place, fault: Fault::new("", message) })
    }

    fn skip_line(&mut self) -> Result<()> {
        match self.input.skip_until(b'\n') {
            Ok(_) => {
                self.line += 1;
                Ok(())
            }
            Err(source) => Err(self.broken(read_failure(&source))),
        }
    }
}

impl JsonRecords {
    /// Moves to the next record, whose bytes [`Self::bytes`] then shows, and says on which line it starts.
    pub(crate) fn next_record(&mut self) -> Option<Result<u64>> {
        if self.done {
            return None;
        }
        if let Some(error) = self.unreadable.take() {
            self.done = true;
            return Some(Err(error));
        }
        match self.advance() {
            Ok(true) => {}
            Ok(false) => {
                self.done = true;
                return None;
            }
            Err(error) => {
                self.done = true;
                return Some(Err(error));
            }
        }
        let line = self.line;
        if let Err(error) = self.cut_out() {
            self.done |= !error.is_record();
            return Some(Err(error));
        }
        Some(Ok(line))
    }

    /// The bytes of the current record.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.record
    }

    /// The current record, which starts on `line`, as a tree.
    pub(crate) fn value(&self, line: u64) -> Result<(u64, Value)> {
        parse(&self.record).map(|value| (line, value)).map_err(|(lines_down, fault)| Error::Record {
            place: SourceLocation { path: self.path.clone(), line: line + lines_down },
            fault,
        })
    }
}

impl Iterator for JsonRecords {
    type Item = Result<(u64, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_record()?.and_then(|line| self.value(line)))
    }
}

/// Guesses the container from the first bytes after the white space.
fn sniff(head: &[u8]) -> Container {
    match head.first() {
        Some(b'[') => Container::Array,
        Some(b'{') if opens_map_of_records(head) => Container::Map,
        // A record that is complete on its first line makes it JSONL.
        Some(b'{') => match head.iter().position(|&byte| byte == b'\n') {
            Some(end) if serde_json::from_slice::<serde::de::IgnoredAny>(&head[..end]).is_err() => {
                if end < 3 || !looks_cut(&head[..end]) { Container::Stream } else { Container::Lines }
            }
            _ => Container::Lines,
        },
        _ => Container::Lines,
    }
}

/// True for a first line that holds more than an opening bracket or one printed field: then it is a damaged
/// line of JSONL, not the first line of an object printed over many lines.
fn looks_cut(line: &[u8]) -> bool {
    let body = line[1..].trim_ascii();
    !body.is_empty() && !matches!(body.last(), Some(b',' | b'{' | b'['))
}

/// `{"key": [{` where the inner records name their question: MR-Ben's container. RLHFlow's
/// `{"messages": [{"role": …` starts alike, so the inner field decides.
fn opens_map_of_records(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut rest = &text[1..];
    loop {
        let mut key = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        if !matches!(key.next(), Some(Ok(_))) {
            return false;
        }
        rest = &rest[key.byte_offset()..];
        for opening in [':', '['] {
            let Some(tail) = rest.trim_start().strip_prefix(opening) else { return false };
            rest = tail.trim_start();
        }
        match rest.strip_prefix(']').map(str::trim_start) {
            // An empty list says nothing: the next one decides.
            Some(tail) => match tail.strip_prefix(',') {
                Some(next) => rest = next,
                None => return false,
            },
            None => break,
        }
    }
    rest.starts_with('{') && rest.contains("\"Question_UUID\"")
}

/// Parses one record; on failure says how many lines below its start, and what is wrong.
fn parse(bytes: &[u8]) -> std::result::Result<Value, (u64, Fault)> {
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    if std::str::from_utf8(bytes).is_err() {
        return Err((0, invalid_utf8(bytes)));
    }
    // The slow way again, to learn the field.
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut track = serde_path_to_error::Track::new();
    let Err(error) = Value::deserialize(serde_path_to_error::Deserializer::new(&mut json, &mut track)) else {
        return Err((0, Fault::new("", "the record is not valid JSON")));
    };
    // `?` stands for a key that was not read to its end.
    let path = track.path().to_string();
    let field = path.trim_end_matches('?').trim_end_matches('.').to_owned();
    let lines_down = (error.line() as u64).saturating_sub(1);
    let bad_line = bytes.split(|&byte| byte == b'\n').nth(lines_down as usize).unwrap_or_default();
    let at = error.column().saturating_sub(1).min(bad_line.len());
    let token = &bad_line[at.saturating_sub(1)..];
    let not_a_number = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| {
        [at.saturating_sub(1), at].iter().any(|&from| bad_line[from..].starts_with(word.as_bytes()))
    });
    let message = match not_a_number {
        Some(word) => {
            format!("`{word}` is not valid JSON: write a finite number, or null where the format allows it")
        }
        None if (token.is_empty() || error.is_eof()) && field.is_empty() => {
            "the record is cut off in the middle".to_owned()
        }
        None if token.is_empty() || error.is_eof() => "the record is cut off inside this field".to_owned(),
        None if error.to_string().starts_with("recursion limit") => {
            let outermost = field.split(['[', '.']).next().unwrap_or_default().to_owned();
            return Err((lines_down, Fault::new(outermost, "is nested more than 128 levels deep")));
        }
        None => {
            let reason = error.to_string();
            format!("not valid JSON: {}", reason.split(" at line").next().unwrap_or(&reason))
        }
    };
    Err((lines_down, Fault::new(field, message)))
}

/// Names the field that holds the invalid bytes.
fn invalid_utf8(bytes: &[u8]) -> Fault {
    let message = "the text is not valid UTF-8: convert the file to UTF-8";
    let field = serde_json::from_str::<Value>(&String::from_utf8_lossy(bytes))
        .ok()
        .and_then(|value| find_replacement(&value, String::new()))
        .unwrap_or_default();
    Fault::new(field, message)
}

fn find_replacement(value: &Value, path: String) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\u{FFFD}').then_some(path),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(i, item)| find_replacement(item, format!("{path}[{i}]")))
        }
        Value::Object(map) => map.iter().find_map(|(key, item)| {
            let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            if key.contains('\u{FFFD}') { Some(inner) } else { find_replacement(item, inner) }
        }),
        _ => None,
    }
}

/// The fault of a record whose brackets are not closed where it ends.
fn cut_off(bytes: &[u8]) -> Fault {
    match parse(bytes.trim_ascii_end()) {
        Err((_, fault)) => fault,
        Ok(_) => Fault::new("", "the record is cut off in the middle"),
    }
}

fn describe(found: Option<u8>) -> String {
    match found {
        None => "the end of the file".to_owned(),
        Some(byte) if byte.is_ascii_graphic() => format!("`{}`", byte as char),
        Some(byte) => format!("byte 0x{byte:02x}"),
    }
}

fn read_failure(source: &io::Error) -> String {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    match source.kind() {
        UnexpectedEof => "the compressed data ends early: the file is truncated, get it again".to_owned(),
        // The decoders' own kinds; the operating system's have others.
        InvalidData | InvalidInput | Other => {
            format!("the compressed data is damaged ({source}): get the file again")
        }
        _ => format!("cannot read on: {source}"),
    }
}
