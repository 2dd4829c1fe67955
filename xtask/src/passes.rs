//! Passes over the tests: each runs some executables, and adds up what they report.

use std::fs::{self, File};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::command::mortal;
use crate::made::Made;
use crate::say::{Context, Failure, Outcome, print, say};
use crate::suites::Suite;

/// Tests that passed and failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    passed: usize,
    failed: usize,
}

/// Pass that may run beside another.
pub(crate) type Job<'a> = Box<dyn FnOnce() -> Outcome + Send + 'a>;

/// Results of all passes. They may run side by side, so each prints its output as a whole.
#[derive(Debug)]
pub(crate) struct Passes<'a> {
    made: &'a Made,
    total: Mutex<Count>,
}

impl<'a> Passes<'a> {
    pub(crate) fn new(made: &'a Made) -> Self {
        Self { made, total: Mutex::default() }
    }

    /// Runs commands that report as test executables do.
    pub(crate) fn run(&self, name: &str, commands: Vec<Command>) {
        let start = Instant::now();
        say(format_args!("== {name}"));
        let mut failed = false;
        for command in commands {
            let outcome = self.run_one(name, command);
            failed |= outcome.is_err();
            self.count(outcome);
        }
        let how = if failed { "failed: " } else { "" };
        say(format_args!("== {how}{name} ({} s)", start.elapsed().as_secs()));
    }

    /// Returns a pass to run later.
    pub(crate) fn job(&self, name: String, commands: Vec<Command>) -> Job<'_> {
        Box::new(move || {
            self.run(&name, commands);
            Ok(())
        })
    }

    /// Runs lists of passes side by side. The passes of a list run one after the other, because sandboxes look at what
    /// others of the same user leave. One that cannot start counts as a failure.
    pub(crate) fn side_by_side(&self, lists: [Vec<Job<'_>>; 2]) {
        let work = |jobs: Vec<Job<'_>>| {
            for job in jobs {
                if let Err(failure) = job() {
                    failure.print();
                    self.count(Err(Count { passed: 0, failed: 1 }));
                }
            }
        };
        let work = &work;
        thread::scope(|scope| {
            for jobs in lists {
                scope.spawn(move || work(jobs));
            }
        });
    }

    /// Counts a step without tests of its own: only its failure counts.
    pub(crate) fn step(&self, name: &str, outcome: Outcome) {
        say(format_args!("== {name}"));
        if let Err(failure) = outcome {
            failure.print();
            say(format_args!("== failed: {name}"));
            self.count(Err(Count { passed: 0, failed: 1 }));
        }
    }

    /// Returns what a command reports. A failure without a report, as of a crash, counts as one failure.
    fn run_one(&self, pass: &str, command: Command) -> Result<Count, Count> {
        let (code, said) = self.output(command).unwrap_or_else(|failure| {
            failure.print();
            (false, String::new())
        });
        let mut count = counted(&said);
        if !code && count.failed == 0 {
            count.failed = 1;
        }
        // One write, so that passes side by side do not mix their lines.
        print(format_args!("-- {pass}\n{}\n", said.trim_end()));
        if code { Ok(count) } else { Err(count) }
    }

    /// Runs a command with its output in a file: unlike a pipe, a process that outlives the command does not hold it open.
    fn output(&self, mut command: Command) -> Result<(bool, String), Failure> {
        let path = self.made.scratch("pass");
        let file = File::create(&path).context(format_args!("create {}", path.display()))?;
        let errors = file.try_clone().context("share the output of a pass")?;
        let status = command.stdin(Stdio::null()).stdout(file).stderr(errors).status();
        let code = status.context(crate::command::line(&command))?.success();
        let said = fs::read(&path).context(format_args!("read {}", path.display()))?;
        fs::remove_file(&path).context(format_args!("remove {}", path.display()))?;
        Ok((code, String::from_utf8_lossy(&said).into_owned()))
    }

    fn count(&self, outcome: Result<Count, Count>) {
        let (Ok(count) | Err(count)) = outcome;
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        total.passed += count.passed;
        total.failed += count.failed;
    }

    /// Prints the closing line.
    pub(crate) fn summary(self) -> ExitCode {
        let total = self.total.into_inner().unwrap_or_else(PoisonError::into_inner);
        print(format_args!("{} passed, {} failed\n", total.passed, total.failed));
        if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Adds up the result lines of test executables.
fn counted(said: &str) -> Count {
    let mut count = Count::default();
    for line in said.lines().filter(|line| line.starts_with("test result: ")) {
        let before =
            |word| line.split(word).next().and_then(|left| left.rsplit(' ').next()?.parse().ok());
        count.passed += before(" passed;").unwrap_or(0);
        count.failed += before(" failed;").unwrap_or(0);
    }
    count
}

/// Returns the command of a suite in place, as cargo runs it.
pub(crate) fn in_place(suite: &Suite, words: &[&str]) -> Command {
    let mut command = mortal(&suite.executable);
    command.arg("--quiet").args(words).current_dir(suite.package());
    command.env("CARGO_MANIFEST_DIR", suite.package()).env_remove("AGENT_SANDBOX_MOUNTS");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_adds_up_every_result_line() {
        let said = "running 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out\n\
            test result: FAILED. 30 passed; 1 failed; 7 filtered out\nnot a test result: 9 passed; 9 failed;\n";
        assert_eq!(counted(said), Count { passed: 32, failed: 1 });
        assert_eq!(counted("killed"), Count::default());
    }

    #[test]
    fn failure_without_a_report_counts_as_one() {
        let folder = std::env::temp_dir().join(format!("as-passes-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let made = Made::open(Some(folder.clone().into())).unwrap();
        let passes = Passes::new(&made);
        for (script, expected) in [
            ("true", Ok(Count::default())),
            ("exit 3", Err(Count { passed: 0, failed: 1 })),
            ("echo 'test result: ok. 2 passed; 0 failed;'", Ok(Count { passed: 2, failed: 0 })),
            (
                "echo 'test result: ok. 2 passed; 0 failed;'; kill -KILL $$",
                Err(Count { passed: 2, failed: 1 }),
            ),
            (
                "echo 'test result: FAILED. 2 passed; 3 failed;'; exit 1",
                Err(Count { passed: 2, failed: 3 }),
            ),
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            assert_eq!(passes.run_one("example", command), expected, "{script}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
