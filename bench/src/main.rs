//! Benchmarks of the sandbox: `bench NAME`, started by `./dev bench NAME`.
//!
//! Other load on the machine can only increase a measured time. So all subjects run once in each round, in random
//! order, and their minima are compared.
#![allow(clippy::print_stdout, reason = "prints its results on standard output")]

mod rounds;
mod sessions;
mod fixture;
mod subject;
mod peers;
mod own_part;
mod wrapped;
mod memory;
mod startup;
mod cow;
mod changes;
mod init;
mod proxy;
mod hostcmd;

use std::io;
use std::process::ExitCode;

use thiserror::Error;

/// Failure of a benchmark.
#[derive(Debug, Error)]
enum BenchError {
    #[error(
        "usage: bench startup [--rounds N] | bench cow [--quick] [--rounds N] | bench changes [--rounds N] | bench init [--rounds N] | bench proxy [--rounds N] | bench hostcmd | bench sessions [--rounds N]"
    )]
    Usage,
    #[error(
        "`AGENT_SANDBOX_BIN` or `AGENT_SANDBOX_STATIC` is not set to the binary to measure; run `./dev bench NAME`"
    )]
    NoBinary,
    #[error("cannot start `{0}`")]
    Start(String, #[source] io::Error),
    #[error("cannot measure `{0}`: {1}")]
    Fails(String, String),
    #[error("cannot read `{0}`")]
    Read(String, #[source] io::Error),
    #[error(transparent)]
    Plan(#[from] sandbox_core::plan::PlanError),
    #[error(transparent)]
    Bwrap(#[from] sandbox_core::render::find::FindError),
    #[error("cannot prepare a measurement")]
    System(#[from] io::Error),
}

const ROUNDS: usize = 60;
const COW_ROUNDS: usize = 5;
const COW_QUICK_ROUNDS: usize = 3;
const CHANGES_ROUNDS: usize = 10;
const PROXY_ROUNDS: usize = 5;
const SESSION_ROUNDS: usize = 20;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["startup"] => startup::run(ROUNDS),
        ["startup", "--rounds", count] => match count.parse() {
            Ok(rounds) if rounds > 0 => startup::run(rounds),
            _ => Err(BenchError::Usage),
        },
        ["init"] => init::run(ROUNDS),
        ["init", "--rounds", count] => match count.parse() {
            Ok(rounds) if rounds > 0 => init::run(rounds),
            _ => Err(BenchError::Usage),
        },
        ["cow"] => cow::run(COW_ROUNDS, false),
        ["cow", "--quick"] => cow::run(COW_QUICK_ROUNDS, true),
        ["cow", "--rounds", count] => match count.parse() {
            Ok(rounds) if rounds > 0 => cow::run(rounds, false),
            _ => Err(BenchError::Usage),
        },
        ["changes"] => changes::run(CHANGES_ROUNDS),
        ["changes", "--rounds", count] => match count.parse() {
            Ok(rounds) if rounds > 0 => changes::run(rounds),
            _ => Err(BenchError::Usage),
        },
        ["sessions"] => sessions::run(SESSION_ROUNDS),
        ["sessions", "--rounds", count] => match count.parse() {
            Ok(rounds) if rounds > 0 => sessions::run(rounds),
            _ => Err(BenchError::Usage),
        },
        ["hostcmd"] => hostcmd::run(ROUNDS),
        ["proxy"] => proxy::run(PROXY_ROUNDS),
        ["proxy", "--rounds", count] => match count.parse() {
            Ok(rounds) if rounds > 0 => proxy::run(rounds),
            _ => Err(BenchError::Usage),
        },
        [cow::INSIDE, task, amount] => amount
            .parse()
            .map_err(|_| BenchError::Usage)
            .and_then(|amount| cow::inside(task, amount)),
        [wrapped::INSIDE, count] => {
            count.parse().map_err(|_| BenchError::Usage).and_then(wrapped::inside)
        }
        _ => Err(BenchError::Usage),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut chain = vec![format!("error: {error}")];
            let mut source = std::error::Error::source(&error);
            while let Some(error) = source {
                chain.push(error.to_string());
                source = error.source();
            }
            println!("{}", chain.join(": "));
            ExitCode::FAILURE
        }
    }
}
