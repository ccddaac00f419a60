//! Tables of comma- or tab-separated values (RFC 4180), in and out.
//!
//! The first line names the columns. A cell in quotes is a text. Another one is, too, but for what is surely something
//! else: an empty cell is null, a number in its plain form is a number, and `true` and `false` are booleans, unless the
//! column is of texts by its name, such as `answer`. A JSON list or object is one, in quotes or not. Where all names in
//! the first line are in quotes, so is everything, and quotes say nothing.
//!
//! What is read back is what was written: a text that would be something else gets quotes, and one that is a JSON list or
//! object is written as a JSON string.

use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::readers::{CHOICES, is_text_field, is_usual_field};
use crate::{Error, Result, SourceLocation};
use gradus_core::Fault;
use gradus_core::count::counted;
use gradus_core::json;
use gradus_core::limits::Limit;
use memchr::memchr_iter;

/// Rows that the columns of an output are taken from.
const INFER_ROWS: usize = 4096;

/// The separator of a table, judged by the file's name and its first line; none where it is no table.
pub(super) fn separator(path: &Path, head: &[u8]) -> Option<u8> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let stem = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    let end = line_end(head);
    let first = head.split(|&byte| byte == end).next().unwrap_or_default();
    if matches!(first.trim_ascii_start().first(), None | Some(b'{' | b'[')) {
        return None;
    }
    if stem.ends_with(".tsv") {
        return Some(b'\t');
    }
    let count = |wanted: u8| first.iter().filter(|&&byte| byte == wanted).count();
    let separator = [b',', b'\t', b';'].into_iter().max_by_key(|&byte| (count(byte), byte == b','))?;
    if stem.ends_with(".csv") {
        return Some(separator);
    }
    let cells = first.split(|&byte| byte == separator);
    let known = cells.filter_map(|cell| std::str::from_utf8(cell).ok());
    let known = known.filter(|cell| is_usual_field(cell.trim().trim_matches('"')));
    (known.count() >= 2).then_some(separator)
}

/// What ends a line of the table: a carriage return where no line feed follows the first one, as old programs on a Mac
/// write.
pub(super) fn line_end(head: &[u8]) -> u8 {
    let mut quoted = false;
    let mut ends = head.iter().enumerate().filter(|&(_, &byte)| {
        quoted ^= byte == b'"';
        !quoted && matches!(byte, b'\r' | b'\n')
    });
    let Some((at, b'\r')) = ends.next() else { return b'\n' };
    let next = head[at..].iter().find(|&&byte| byte != b'\r');
    if next.is_none_or(|&byte| byte == b'\n') { b'\n' } else { b'\r' }
}

/// Iterates over the rows of a table as JSON objects.
pub(super) struct CsvRows {
    input: Box<dyn BufRead + Send>,
    path: Arc<Path>,
    separator: u8,
    line_end: u8,
    columns: Vec<Column>,
    /// Quotes tell a text from something else.
    quotes_tell: bool,
    line: u64,
    done: bool,
}

/// A column's name, and whether it is a text by that.
struct Column {
    name: String,
    is_text: bool,
}

/// What a cell says, and whether it stands in quotes.
#[derive(Default)]
struct Cell {
    text: String,
    quoted: bool,
}

impl CsvRows {
    /// The rows of `input`, whose first line is `line` of the file.
    pub(super) fn open(
        input: Box<dyn BufRead + Send>,
        path: Arc<Path>,
        separator: u8,
        line_end: u8,
        line: u64,
    ) -> Result<Self> {
        let (columns, quotes_tell) = (Vec::new(), true);
        let mut rows = Self { input, path, separator, line_end, columns, quotes_tell, line, done: false };
        let Some(cells) = rows.cells()? else { return Err(Error::Empty { path: rows.path.to_path_buf() }) };
        rows.quotes_tell = !cells.iter().all(|cell| cell.quoted);
        // The answer to a question with choices may be the number of one.
        let has_choices = cells.iter().any(|cell| CHOICES.contains(&cell.text.as_str()));
        let column = |Cell { text: name, .. }| Column { is_text: !has_choices && is_text_field(&name), name };
        rows.columns = cells.into_iter().map(column).collect();
        let mut names = std::collections::HashSet::new();
        let mut named = rows.columns.iter().map(|column| &column.name).filter(|name| !name.is_empty());
        if let Some(twice) = named.find(|name| !names.insert(*name)) {
            let message = format!("two columns are called `{twice}`: rename one");
            return Err(rows.broken(line, message));
        }
        Ok(rows)
    }

    fn broken(&self, line: u64, message: impl Into<String>) -> Error {
        Error::Broken { place: SourceLocation { path: self.path.clone(), line }, message: message.into() }
    }

    /// The cells of the next row; line breaks inside quotes are part of a cell.
    fn cells(&mut self) -> Result<Option<Vec<Cell>>> {
        let start = self.line;
        let most = Limit::RecordBytes.value();
        let (mut row, mut quotes) = (Vec::new(), 0);
        loop {
            let before = row.len();
            let room = (most + 1).saturating_sub(before as u64);
            let read = self.input.by_ref().take(room).read_until(self.line_end, &mut row);
            let read = read.map_err(|source| Error::io(&*self.path, source))?;
            if read == 0 && row.is_empty() {
                return Ok(None);
            }
            if row.len() as u64 > most {
                self.done = true;
                let message =
                    format!("the row has {} (or a quote is never closed)", Limit::RecordBytes.exceeded());
                return Err(self.broken(start, message));
            }
            self.line += u64::from(row[before..].ends_with(&[self.line_end]));
            quotes += memchr_iter(b'"', &row[before..]).count();
            let closed = quotes % 2 == 0;
            if closed && row.trim_ascii().is_empty() {
                row.clear();
                continue;
            }
            if closed {
                break;
            }
            if read == 0 {
                self.done = true;
                return Err(self.broken(start, "a quote is opened and never closed"));
            }
        }
        if memchr_iter(self.separator, &row).count() as u64 >= Limit::RecordValues.value() {
            self.done = true;
            return Err(self.broken(start, format!("the row has {}", Limit::RecordValues.exceeded())));
        }
        let Ok(row) = std::str::from_utf8(&row) else {
            self.done = true;
            return Err(self.broken(start, "the text is not valid UTF-8: convert the file to UTF-8"));
        };
        Ok(Some(split(row.trim_end_matches(['\r', '\n']), char::from(self.separator))))
    }
}

/// The cells of a row whose quotes are closed.
fn split(row: &str, separator: char) -> Vec<Cell> {
    let mut cells = vec![Cell::default()];
    let (mut quoted, mut letters) = (false, row.chars().peekable());
    while let Some(letter) = letters.next() {
        let cell = cells.last_mut().expect("there is always a cell");
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.text.push('"');
            }
            '"' => {
                cell.quoted |= cell.text.is_empty();
                quoted = !quoted;
            }
            letter if letter == separator && !quoted => cells.push(Cell::default()),
            letter => cell.text.push(letter),
        }
    }
    cells
}

impl Iterator for CsvRows {
    type Item = Result<(u64, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let line = self.line;
        let cells = match self.cells() {
            Ok(cells) => cells?,
            Err(error) => {
                self.done = true;
                return Some(Err(error));
            }
        };
        if cells.len() != self.columns.len() {
            let message = format!(
                "{}, but the first line names {}",
                counted(cells.len(), "cell"),
                counted(self.columns.len(), "column")
            );
            let place = SourceLocation { path: self.path.clone(), line };
            return Some(Err(Error::Record { place, fault: Fault::new("", message) }));
        }
        // A column without a name is an index that nobody asked for.
        let named = self.columns.iter().zip(cells).filter(|(column, _)| !column.name.is_empty());
        let quotes_tell = self.quotes_tell;
        let row = named.map(|(column, cell)| {
            let quoted = cell.quoted && quotes_tell;
            match value_of(Cell { quoted, ..cell }, column.is_text) {
                Ok(value) => Ok((column.name.clone(), value)),
                Err(message) => Err(Fault::new(&column.name, message)),
            }
        });
        let row: std::result::Result<Map<String, Value>, Fault> = row.collect();
        let place = SourceLocation { path: self.path.clone(), line };
        Some(row.map(|row| (line, row.into())).map_err(|fault| Error::Record { place, fault }))
    }
}

/// What a cell holds; JSON with too many values is refused.
fn value_of(Cell { text, quoted }: Cell, is_text: bool) -> std::result::Result<Value, String> {
    if text.is_empty() && !quoted {
        return Ok(Value::Null);
    }
    if text.starts_with(['{', '[']) {
        json::check_values(text.as_bytes()).map_err(|limit| format!("has {limit}"))?;
    }
    if let Some(value) = list_or_object(&text) {
        // Such as the interval [1, 2].
        let of_numbers = value.as_array().is_some_and(|items| items.iter().any(Value::is_number));
        return Ok(if is_text && of_numbers { text.into() } else { value });
    }
    if let Some(text) = text_in_json(&text) {
        return Ok(text.into());
    }
    let plain = if quoted || is_text { None } else { number_or_boolean(&text) };
    Ok(plain.unwrap_or_else(|| text.into()))
}

fn number_or_boolean(text: &str) -> Option<Value> {
    match text {
        "true" | "True" => Some(true.into()),
        "false" | "False" => Some(false.into()),
        _ => {
            let number = serde_json::from_str::<serde_json::Number>(text).ok()?;
            (number.to_string() == text).then_some(Value::Number(number))
        }
    }
}

fn list_or_object(text: &str) -> Option<Value> {
    if text.starts_with(['{', '[']) { serde_json::from_str(text).ok() } else { None }
}

/// A text that would be read as something else, out of the JSON string that stands for it.
fn text_in_json(cell: &str) -> Option<String> {
    let text: String = if cell.starts_with('"') { serde_json::from_str(cell).ok()? } else { return None };
    needs_json(&text).then_some(text)
}

fn needs_json(text: &str) -> bool {
    list_or_object(text).is_some() || text_in_json(text).is_some()
}

/// Writes JSON objects as a table. The columns are those of the first [`INFER_ROWS`] rows.
pub(super) struct CsvSink<W: Write> {
    output: W,
    separator: u8,
    columns: Option<Vec<String>>,
    waiting: Vec<Value>,
}

impl<W: Write> CsvSink<W> {
    pub(super) fn new(output: W, separator: u8) -> Self {
        Self { output, separator, columns: None, waiting: Vec::new() }
    }

    pub(super) fn push(&mut self, row: Value) -> std::result::Result<(), String> {
        if self.columns.is_some() {
            return self.write(&row);
        }
        self.waiting.push(row);
        if self.waiting.len() >= INFER_ROWS { self.start() } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> std::result::Result<W, String> {
        self.start()?;
        Ok(self.output)
    }

    fn start(&mut self) -> std::result::Result<(), String> {
        if self.columns.is_some() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.waiting);
        let mut columns: Vec<String> = Vec::new();
        for name in rows.iter().filter_map(Value::as_object).flat_map(Map::keys) {
            if !columns.contains(name) {
                columns.push(name.clone());
            }
        }
        let cells: Vec<String> = columns.iter().map(|name| quoted(name, self.separator)).collect();
        self.line(&cells).map_err(|error| error.to_string())?;
        self.columns = Some(columns);
        rows.iter().try_for_each(|row| self.write(row))
    }

    fn write(&mut self, row: &Value) -> std::result::Result<(), String> {
        let columns = self.columns.as_deref().unwrap_or_default();
        let Value::Object(row) = row else { return Err("a row of a table is an object".to_owned()) };
        if let Some(name) = row.keys().find(|name| !columns.contains(name)) {
            return Err(format!("column `{name}` is missing from the rows before: write JSONL instead"));
        }
        let cell = |name: &String| match row.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(json @ Value::String(text)) if needs_json(text) => quoted(&json.to_string(), self.separator),
            Some(Value::String(text)) if text.is_empty() || number_or_boolean(text).is_some() => {
                format!("\"{text}\"")
            }
            Some(Value::String(text)) => quoted(text, self.separator),
            Some(other) => quoted(&other.to_string(), self.separator),
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        self.line(&cells).map_err(|error| error.to_string())
    }

    fn line(&mut self, cells: &[String]) -> io::Result<()> {
        let separator = char::from(self.separator).to_string();
        writeln!(self.output, "{}", cells.join(&separator))
    }
}

fn quoted(text: &str, separator: u8) -> String {
    if text.contains(['"', '\n', '\r', char::from(separator)]) || text.trim() != text {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(table: &str) -> Vec<Value> {
        let input = Box::new(io::Cursor::new(table.to_owned().into_bytes()));
        let end = line_end(table.as_bytes());
        let rows = CsvRows::open(input, Arc::from(Path::new("t.csv")), b',', end, 1).unwrap();
        rows.map(|row| row.unwrap().1).collect()
    }

    #[test]
    fn what_is_read_back_is_what_was_written() {
        let texts = [
            "14", "-1.5", "true", "False", "", "null", " 14", "[1, 2]", "{}", "\"[1]\"", "\"so\"",
            "a,\"b\"\nc",
        ];
        let mut rows: Vec<Value> = texts.iter().map(|text| json!({"x": text, "answer": text})).collect();
        rows.extend([json!({"x": 14, "answer": null}), json!({"x": [1, "[2]"], "answer": ["5", "five"]})]);
        rows.extend([json!({"x": true, "answer": "5"}), json!({"x": {"y": 1.5}, "answer": "5"})]);
        let mut sink = CsvSink::new(Vec::new(), b',');
        rows.iter().for_each(|row| sink.push(row.clone()).unwrap());
        let table = String::from_utf8(sink.finish().unwrap()).unwrap();
        assert_eq!(read(&table), rows, "{table}");
    }

    #[test]
    fn lines_end_as_on_any_system() {
        let rows = [json!({"question": "2+3?", "note": "a\n\nb"}), json!({"question": "1+1?", "note": "c"})];
        for end in ["\n", "\r\n", "\r\r\n", "\r"] {
            let table = ["question,note", "2+3?,\"a\n\nb\"", "1+1?,c", ""].join(end);
            assert_eq!(read(&table), rows, "{table:?}");
        }
    }

    #[test]
    fn names_and_quotes_say_what_is_text() {
        let rows = |table: &str| read(table).remove(0);
        assert_eq!(rows("id,answer,label\n7,14,3\n"), json!({"id": "7", "answer": "14", "label": 3}));
        assert_eq!(rows("question,answer\nWhich?,\"[1, 2]\"\n")["answer"], "[1, 2]", "an interval");
        assert_eq!(rows("question,label\nWhich?,\"3\"\n")["label"], "3");
        // Everything is in quotes, or the answer is one of several choices.
        assert_eq!(rows("\"question\",\"label\"\n\"Which?\",\"3\"\n")["label"], 3);
        assert_eq!(rows("question,choices,answer\nWhich?,\"[\"\"1\"\",\"\"2\"\"]\",1\n")["answer"], 1);
    }
}
