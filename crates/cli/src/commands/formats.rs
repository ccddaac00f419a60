//! `gradus data formats`: what can be read and written.

use anyhow::Result;
use gradus_data::readers::Format;
use serde_json::json;

use super::Status;
use crate::args::Output;
use crate::printer::Printer;

pub(super) fn run(args: &Output) -> Result<Status> {
    let printer = Printer::new(None);
    if args.json {
        let formats = Format::ALL.map(|format| json!({"name": format.name(), "about": format.about()}));
        printer.json(&formats)?;
    } else {
        let rows: Vec<_> = Format::ALL
            .iter()
            .map(|format| vec![format.name().to_owned(), format.about().to_owned()])
            .collect();
        printer.table(&["format", "what it is"], &rows)?;
    }
    Ok(Status::Done)
}
