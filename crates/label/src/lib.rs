//! Labeling of steps by several people: a library without HTTP, and the page that goes with it.
//!
//! - [`Project`]: a folder with the records to label, the settings and a journal of what people did
//! - [`Labeling`]: the service over it: next item, save, undo, suggestions, leases, overview, export
//! - [`requests`]: what it is asked and what it answers, as JSON
//! - [`order`]: which item comes next; [`agreement`]: how well people agree, and Dawid and Skene's estimate
//! - [`page`]: HTML, JavaScript and style sheet, which a server sends as they are
//!
//! Every change is in the journal, synced to disk, before the caller has its answer. A killed server therefore loses
//! nothing that it acknowledged, and a killed browser nothing that it sent.
//!
//! ```
//! use gradus_core::{Mark, Problem, Record, Solution};
//! use gradus_label::requests::{NextRequest, SaveRequest};
//! use gradus_label::{Labeling, Project, Settings};
//! let folder = tempfile::tempdir()?;
//! let folder = folder.path().join("project");
//! let problem = Problem { id: "p".into(), text: "What is 2 + 3?".into(), ..Problem::default() };
//! let steps = vec!["2 + 3 = 6".to_owned()];
//! let solution = Solution { id: "s".into(), problem_id: "p".into(), steps, ..Solution::default() };
//! Project::create(&folder, vec![Record::new(problem, vec![solution])], Settings::default())?;
//! let labeling = Labeling::open(&folder)?;
//! let task = labeling.next(&NextRequest::of("Ann"))?.task.expect("there is an item");
//! let save = SaveRequest { finished: true, ..task.save("Ann", vec![Some(Mark::Incorrect)]) };
//! assert_eq!(labeling.save(&save)?.revision, 1);
//! assert!(labeling.next(&NextRequest::of("Ann"))?.task.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod agreement;
mod error;
mod events;
mod export;
mod label;
pub mod order;
pub mod page;
mod project;
pub mod requests;
mod service;
mod state;

pub use error::{Error, ErrorBody, ErrorKind, Result};
pub use export::{Combine, ExportFormat, Exported};
pub use label::SolutionLabel;
pub use order::Order;
pub use project::{Created, Project, Settings};
pub use service::{Labeling, Renderer};
