//! The `gradus` program: one command per file in `commands/`.
//!
//! Exit codes: 0 done; 1 done, and the data has problems (`data check`) or duplicates (`data dedup` without `-o`);
//! 2 the command line is wrong; 3 the input or output is unusable; 130 interrupted with Ctrl-C.

mod args;
mod ask;
mod commands;
mod generator;
mod input;
mod interrupt;
mod job;
mod journal;
mod local;
mod paint;
mod printer;
mod progress;
mod references;

use std::process::ExitCode;

use clap::Parser;

/// Models allocate and free large buffers all the time, which the system's allocator gives back and faults in again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    gradus_engine::keep_freed_memory();
    let arguments = args::Arguments::parse();
    interrupt::install();
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // A damaged Parquet file makes the Arrow crates panic; the reader catches that and says so in a sentence.
        let of_arrow = |file: &str| file.contains("arrow-") || file.contains("parquet-");
        if !panic.location().is_some_and(|place| of_arrow(place.file())) {
            usual(panic);
        }
    }));
    match commands::run(arguments) {
        Ok(status) => status.into(),
        // A reader such as `head` that has seen enough is not an error.
        Err(error) if printer::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            printer::error(&error);
            match error.downcast_ref::<commands::Usage>() {
                Some(_) => commands::Status::Misused.into(),
                None => commands::Status::Unusable.into(),
            }
        }
    }
}
