//! Results as a table of ratios, with targets.

use std::time::Duration;

use testkit::Engine;

use super::candidate::Candidate;
use super::task::TASKS;
use crate::rounds::Times;

/// Results of one candidate.
#[derive(Default)]
struct Column {
    tasks: Vec<Vec<Duration>>,
    unmount: Vec<Duration>,
    memory: Option<f64>,
    stored_small: Option<f64>,
    stored_large: Option<f64>,
}

pub(crate) struct Results<'a> {
    candidates: &'a [Candidate],
    columns: Vec<Column>,
}

impl<'a> Results<'a> {
    pub(crate) fn new(candidates: &'a [Candidate]) -> Self {
        let column = || Column { tasks: vec![Vec::new(); TASKS.len()], ..Column::default() };
        Self { candidates, columns: candidates.iter().map(|_| column()).collect() }
    }

    pub(crate) fn time(&mut self, candidate: usize, task: usize, time: Duration) {
        self.columns[candidate].tasks[task].push(time);
    }

    pub(crate) fn unmount(&mut self, candidate: usize, time: Duration) {
        self.columns[candidate].unmount.push(time);
    }

    pub(crate) fn memory(&mut self, candidate: usize, memory: Option<f64>) {
        let column = &mut self.columns[candidate];
        column.memory = column.memory.into_iter().chain(memory).reduce(f64::max);
    }

    pub(crate) fn stored(&mut self, candidate: usize, small: bool, ratio: f64) {
        let column = &mut self.columns[candidate];
        if small { column.stored_small = Some(ratio) } else { column.stored_large = Some(ratio) }
    }

    fn best(&self, candidate: usize, task: usize) -> f64 {
        Times::of(self.columns[candidate].tasks[task].clone()).min()
    }

    fn median(&self, candidate: usize, task: usize) -> f64 {
        Times::of(self.columns[candidate].tasks[task].clone()).median()
    }

    /// Returns the ratio of a task's minima in two candidates.
    fn ratio(&self, candidate: usize, of: usize, task: usize) -> f64 {
        self.best(candidate, task) / self.best(of, task)
    }

    fn index(&self, wanted: impl Fn(&Candidate) -> bool) -> Option<usize> {
        self.candidates.iter().position(wanted)
    }

    pub(crate) fn print(&self) {
        print!("{:26} {:>10}", "minimum, as a ratio", "native ms");
        self.candidates.iter().skip(1).for_each(|candidate| print!(" {:>15}", candidate.name));
        println!(" {:>8}", "target");
        for (number, task) in TASKS.iter().enumerate() {
            print!("{:26} {:10.0}", task.name, self.best(0, number));
            (1..self.candidates.len())
                .for_each(|candidate| print!(" {:>15}", shown(self.ratio(candidate, 0, number))));
            println!(" {:>8}", task.target.map_or("-".into(), |target| format!("{target:.1}")));
        }
        println!();
        print!("{:26} {:>10}", "median, as a ratio", "native ms");
        println!();
        for (number, task) in TASKS.iter().enumerate() {
            print!("{:26} {:10.0}", task.name, self.median(0, number));
            (1..self.candidates.len()).for_each(|candidate| {
                print!(" {:>15}", shown(self.median(candidate, number) / self.median(0, number)));
            });
            println!();
        }
        println!();
        self.line("unmount, ms", |column| Some(Times::of(column.unmount.clone()).median()));
        self.line("daemon's peak, MB", |column| column.memory);
        self.line("stored / written, small", |column| column.stored_small);
        self.line("stored / written, large", |column| column.stored_large);
        println!();
        self.verdicts();
    }

    fn line(&self, name: &str, value: impl Fn(&Column) -> Option<f64>) {
        print!("{name:26} {:>10}", "");
        for column in self.columns.iter().skip(1) {
            print!(" {:>15}", value(column).map_or("-".into(), |value| format!("{value:.2}")));
        }
        println!();
    }

    /// Prints the targets and whether they are met.
    fn verdicts(&self) {
        let bare = self.index(|candidate| candidate.engine == Engine::BareOverlay);
        for (number, candidate) in self
            .candidates
            .iter()
            .enumerate()
            .filter(|(_, candidate)| candidate.engine == Engine::Overlay)
        {
            let Some(bare) = bare else { continue };
            let ratios = (0..TASKS.len())
                .map(|task| self.ratio(number, bare, task))
                .filter(|ratio| !ratio.is_nan());
            let ratios: Vec<f64> = ratios.map(f64::ln).collect();
            #[allow(clippy::cast_precision_loss, reason = "a handful of tasks")]
            let mean = (ratios.iter().sum::<f64>() / ratios.len() as f64).exp();
            verdict(&format!("{} / bare overlay, all tasks", candidate.name), mean, 1.05);
        }
        let Some(ours) = self.index(|candidate| candidate.engine == Engine::AgentFs) else {
            return;
        };
        for (number, task) in TASKS.iter().enumerate() {
            if let Some(target) = task.target {
                verdict(
                    &format!("agentfs engine, {}", task.name),
                    self.ratio(ours, 0, number),
                    target,
                );
            }
        }
        let column = &self.columns[ours];
        for (name, value, target) in [
            ("daemon's peak, MB", column.memory, 60.0),
            ("stored / written, small", column.stored_small, 1.4),
            ("stored / written, large", column.stored_large, 1.15),
        ] {
            if let Some(value) = value {
                verdict(&format!("agentfs engine, {name}"), value, target);
            }
        }
    }
}

/// Formats a ratio, or `-` if there is none.
fn shown(ratio: f64) -> String {
    if ratio.is_nan() { "-".into() } else { format!("{ratio:.2}") }
}

fn verdict(what: &str, value: f64, limit: f64) {
    let held = if value <= limit { "met" } else { "MISSED" };
    println!("{what:48} {value:6.2} (at most {limit}) {held}");
}
