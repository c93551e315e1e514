//! Runs seeds without the rest of the binary: `simulate FIRST COUNT [STEPS] [--trace] [--shrink] [--validate] [--store-on-disk]`. The mutants' runner builds this for each mutant.

use quorate_simulation::command::{SimulateOptions, simulate};
use std::process::ExitCode;

fn main() -> ExitCode {
    let is_given = |flag: &str| std::env::args().any(|argument| argument == flag);
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let (Some(first_seed), Some(seeds)) = (numbers.first().copied(), numbers.get(1).copied()) else {
        eprintln!("usage: simulate FIRST COUNT [STEPS] [--trace] [--shrink] [--validate] [--store-on-disk]");
        return ExitCode::from(2);
    };
    let options = SimulateOptions {
        replicas: None,
        first_seed,
        seeds,
        steps: numbers.get(2).map_or(40, |steps| *steps as u32),
        crash_mode: None,
        keeps_store: is_given("--store-on-disk"),
        trace: is_given("--trace"),
        shrink: is_given("--shrink"),
        // A mutant must be caught by an oracle of the simulator, not by the core's own checks.
        validate: is_given("--validate"),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    match simulate(&options, &mut std::io::stdout(), &mut std::io::sink()) {
        Ok(summary) if summary.failures.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(1)
        }
    }
}
