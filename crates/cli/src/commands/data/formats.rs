//! `gradus data formats`: supported dataset formats.

use anyhow::Result;
use gradus_data::readers::Format;
use serde_json::json;

use crate::arguments::JsonOption;
use crate::exit::Status;
use crate::terminal::printer::Printer;

pub(super) fn run(args: &JsonOption) -> Result<Status> {
    let printer = Printer::new(None);
    if args.json {
        let formats = Format::ALL.map(|format| json!({"name": format.name(), "about": format.about()}));
        printer.json(&formats)?;
    } else {
        let rows: Vec<_> = Format::ALL
            .iter()
            .map(|format| vec![format.name().to_owned(), format.about().to_owned()])
            .collect();
        printer.table(&["format", "description"], &rows)?;
    }
    Ok(Status::Done)
}
