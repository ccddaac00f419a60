//! Runs a recipe without the command line around it: `run_recipe RECIPE FOLDER [KEY=VALUE …]`; prints a line per evaluation.

use std::path::Path;

use gradus_train::run::Recipe;
use gradus_train::{MetricValues, StepProgress, TrainingObserver, TrainingStart};

struct Lines;

#[allow(clippy::print_stdout, reason = "the program's only output")]
impl TrainingObserver for Lines {
    fn on_start(&mut self, start: &TrainingStart) {
        println!("{start:?}");
    }

    fn on_step(&mut self, progress: &StepProgress) {
        if progress.step.is_multiple_of(10) {
            println!("step {}/{} {:?}", progress.step, progress.steps, progress.metrics);
        }
    }

    fn on_evaluation(&mut self, step: u64, metrics: &MetricValues) {
        println!("evaluation after step {step}: {metrics:?}");
    }

    fn on_checkpoint(&mut self, _: u64, _: bool) {}
}

#[allow(clippy::print_stdout, reason = "the program's only output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, recipe, folder, sets @ ..] = &arguments[..] else {
        return Err("usage: run_recipe RECIPE FOLDER [KEY=VALUE …]".into());
    };
    let recipe = Recipe::read(Path::new(recipe), sets)?;
    let end = gradus_train::train(&recipe, Path::new(folder), arguments.clone(), &mut Lines)?;
    println!("{end:?}");
    Ok(())
}
