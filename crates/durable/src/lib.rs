//! Durability: whenever the process or the machine stops, a file is there whole or not at all.
//!
//! - [`replace_file`] and [`PendingFile`]: a file appears under its name when all of it is on disk
//! - [`replace_folder`]: the same for a folder; [`remove_folder`]: no half of it is left
//! - [`move_file`], [`move_folder`]: the last step alone, for what is filled over several runs
//! - [`lock_file`]: one writer at a time, as long as its process lives
//! - [`open_plain`], [`plain_path`], [`replace_plain_file`], …: in a folder that came from elsewhere nothing leads out of it
//! - [`Journal`]: results appended one by one, found again after a kill; [`AppendFile`]: the same without a format
//! - [`EventLog`]: events in their order, which nobody can compute again
//! - [`on_damage`]: who is told that something kept was damaged
//!
//! Everything is written beside its destination under a temporary name that begins with `.gradus-unfinished-` and ends at
//! random, so that two writers never share one, then synced to disk and renamed. A missing folder is made. What a killed
//! process leaves behind is recognized by [`is_unfinished`], and the next writer of the same destination removes it;
//! [`remove_unfinished`] is for a process that is about to end. Symbolic links stay: what they lead to is replaced.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("report.json");
//! gradus_durable::replace_file(&path, b"{}")?;
//! assert_eq!(std::fs::read(&path)?, b"{}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod append;
mod damage;
mod error;
mod event_log;
mod file;
mod folder;
mod journal;
mod leftover;
mod lock;
mod plain;
mod unfinished;

pub use append::AppendFile;
pub use damage::{on_damage, report_change, report_damage, report_damaged};
pub use error::{Error, Result};
pub use event_log::{EventLog, LoggedEvents};
pub use file::{PendingFile, move_file, replace_file, replace_plain_file};
pub use folder::{move_folder, remove_folder, replace_folder};
pub use journal::{ContentHash, Journal, journal_key};
pub use lock::lock_file;
pub use plain::{check_plain, is_plain_name, open_plain, plain_path, read_plain, remove_plain};
pub use unfinished::{is_unfinished, remove_unfinished};
