//! Runs a recipe without the command line around it: `run_recipe RECIPE FOLDER [KEY=VALUE …]`; prints a line per evaluation.

use std::path::Path;

use gradus_train::run::Recipe;
use gradus_train::session::{self, Beginning, Numbers, Progress, Watch};

struct Lines;

#[allow(clippy::print_stdout, reason = "the program's only output")]
impl Watch for Lines {
    fn begins(&mut self, beginning: &Beginning) {
        println!("{beginning:?}");
    }

    fn steps(&mut self, progress: &Progress) {
        if progress.step.is_multiple_of(10) {
            println!("step {}/{} {:?}", progress.step, progress.steps, progress.numbers);
        }
    }

    fn evaluates(&mut self, step: u64, numbers: &Numbers) {
        println!("evaluation after step {step}: {numbers:?}");
    }

    fn saves(&mut self, _: u64, _: bool) {}
}

#[allow(clippy::print_stdout, reason = "the program's only output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, recipe, folder, sets @ ..] = &arguments[..] else {
        return Err("usage: run_recipe RECIPE FOLDER [KEY=VALUE …]".into());
    };
    let recipe = Recipe::read(Path::new(recipe), sets)?;
    let ending = session::train(&recipe, Path::new(folder), arguments.clone(), &mut Lines)?;
    println!("{ending:?}");
    Ok(())
}
