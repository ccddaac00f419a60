//! The `gradus` program: one command per file in `commands/`.
//!
//! Exit codes: 0 success; 1 success, but `data check` found problems or `data dedup` without `-o` duplicates;
//! 2 invalid command line; 3 invalid input or output; 130 interrupted with Ctrl-C.

mod alignment;
mod arguments;
mod commands;
mod cost;
mod exit;
mod input;
mod job;
mod journal;
mod output;
mod prompting;
mod references;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use terminal::{interrupt, printer};

/// Models allocate and free large buffers all the time, which the system's allocator gives back and faults in again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    gradus_engine::keep_freed_memory();
    let arguments = commands::Arguments::parse();
    interrupt::install();
    gradus_durable::on_damage(|text| printer::note(text));
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // A damaged Parquet file makes the Arrow crates panic; the reader catches that and says so in a sentence.
        let of_arrow = |file: &str| file.contains("arrow-") || file.contains("parquet-");
        if !panic.location().is_some_and(|place| of_arrow(place.file())) {
            usual(panic);
        }
    }));
    let limits = gradus_core::limits::check_environment().map_err(|words| exit::Usage(words).into());
    match limits.and_then(|()| commands::run(arguments)) {
        Ok(status) => status.into(),
        // A reader such as `head` that has seen enough is not an error.
        Err(error) if printer::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            printer::error(&error);
            exit::Status::of(&error).into()
        }
    }
}
