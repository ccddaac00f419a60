//! One command per file, its arguments beside it. Each returns a status, never exits and prints through the printer.

mod annotate;
mod bench;
mod data;
mod embed;
mod generate;
mod grade;
mod jobs;
mod label;
mod models;
mod perplexity;
mod pool;
mod push;
mod sample;
mod score;
mod select;
mod serve;
mod solve;
mod steps;
mod synth;
mod train;
mod view;
mod work;

use std::io::Write;

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use gradus_store::Job;
use jobs::Next;

use crate::exit::Status;
use crate::job::TaskSource;
use crate::terminal::printer;

const EXIT_CODES: &str = "Exit codes:\n  0  success\n  1  success, but data check found problems or data dedup (without -o) \
found duplicates\n  2  invalid command line\n  3  invalid input or output\n  130  interrupted (Ctrl-C)";

/// Process supervision for reasoning language models: label, score, train and benchmark step-by-step solutions
#[derive(Debug, Parser)]
#[command(name = "gradus", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Convert, check, summarize, split and deduplicate datasets
    #[command(subcommand)]
    Data(data::DataCommand),
    /// Split solutions into steps
    Steps(steps::StepsArgs),
    /// Extract final answers and compare them with the gold answer
    Grade(grade::GradeArgs),
    /// Generate synthetic problems with step labels
    Synth(synth::SynthArgs),
    /// Sample solutions to problems from a model
    Sample(Box<sample::SampleArgs>),
    /// Label steps: Monte Carlo, LLM judge, reference solution, exact checks, consensus
    #[command(subcommand)]
    Annotate(Box<annotate::AnnotateCommand>),
    /// Label solution steps by people: create projects, see agreement, export
    #[command(subcommand)]
    Label(Box<label::LabelCommand>),
    /// List, show, resume, cancel and remove jobs
    #[command(subcommand)]
    Jobs(jobs::JobsCommand),
    /// Do the tasks of jobs that other machines began
    Work(Box<work::WorkArgs>),
    /// Score solution steps with a process reward model
    Score(Box<score::ScoreArgs>),
    /// Select one of several scored solutions to each problem
    Select(select::SelectArgs),
    /// Serve step scores, text and embeddings over HTTP
    Serve(Box<serve::ServeArgs>),
    /// Solve problems by best-of-N, voting, or search guided by a reward model
    Solve(Box<solve::args::SolveArgs>),
    /// Show records as a web page: steps, scores, labels, candidates
    View(view::ViewArgs),
    /// Generate text with a model
    Generate(Box<generate::GenerateArgs>),
    /// Compute text embeddings
    Embed(Box<embed::EmbedArgs>),
    /// Compute perplexity
    Perplexity(Box<perplexity::PerplexityArgs>),
    /// Build and query a retrieval index of solved problems
    #[command(subcommand)]
    Pool(Box<pool::PoolCommand>),
    /// Send files to the Hugging Face hub or an object store
    Push(push::PushArgs),
    /// Train reward models and critics from recipes
    #[command(subcommand)]
    Train(train::TrainCommand),
    /// Benchmark reward models and critics
    #[command(subcommand)]
    Bench(Box<bench::BenchCommand>),
    /// Download, list and inspect models
    #[command(subcommand)]
    Models(models::ModelsCommand),
    /// Print a shell completion script
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
}

/// The command of a job.
fn parse(job: &Job) -> Result<Arguments> {
    let words = std::iter::once("gradus").chain(job.command.iter().map(String::as_str));
    Arguments::try_parse_from(words)
        .with_context(|| format!("job {}: this version cannot parse its command", job.id))
}

/// Runs a command.
pub(crate) fn run(arguments: Arguments) -> Result<Status> {
    match arguments.command {
        Command::Data(command) => data::run(&command),
        Command::Steps(args) => steps::run(&args),
        Command::Grade(args) => grade::run(&args),
        Command::Synth(args) => synth::run(&args),
        Command::Sample(args) => sample::run(&args, TaskSource::Input),
        Command::Annotate(command) => annotate::run(&command, TaskSource::Input),
        Command::Label(command) => label::run(&command),
        Command::Jobs(command) => match jobs::run(&command)? {
            Next::Exit(status) => Ok(status),
            Next::Run(job) => {
                let arguments = parse(&job)?;
                printer::note(format!("gradus {}", jobs::escaped(&job.command)));
                run(arguments)
            }
        },
        Command::Work(args) => work::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Select(args) => select::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Solve(args) => solve::run(&args),
        Command::View(args) => view::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Embed(args) => embed::run(&args),
        Command::Perplexity(args) => perplexity::run(&args),
        Command::Pool(command) => pool::run(&command),
        Command::Push(args) => push::run(&args),
        Command::Train(command) => train::run(&command),
        Command::Bench(command) => bench::run(&command),
        Command::Models(command) => models::run(&command),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "gradus", &mut script);
            std::io::stdout().write_all(&script)?;
            Ok(Status::Done)
        }
    }
}
