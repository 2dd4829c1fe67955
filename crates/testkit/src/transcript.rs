//! Transcripts in Markdown pages, executed as printed.
//!
//! One shell in one [`World`] runs all ```` ```console ```` blocks of a page, in order. The home is shown as
//! `/home/you`. The shell starts in `/home/you/app`, a repository with one commit. Lines after `$ ` are commands. The
//! other lines are their output, which must match. Comments, which are invisible to readers, control the run:
//!
//! - `<!-- test: setup COMMANDS -->`, on one or several lines: commands that run here, must succeed, and whose output
//!   is ignored
//! - `<!-- test: file PATH -->`: the next block is written to this file
//! - `<!-- test: background -->`: the command of the next block runs until the page ends
//! - `<!-- test: suite NAME -->`: another suite runs the page
//! - `<!-- not run: REASON -->`: the next block is only shown
//!
//! Values that differ between runs are matched by their form: see [`matches`].

mod page;
mod placeholder;

use std::fmt::Write;
use std::time::Duration;

pub use page::{Block, Page, Part, Step};
pub use placeholder::matches;

use crate::world::World;

/// Time limit for one page.
const PATIENCE: Duration = Duration::from_secs(180);
/// Start of the line that the shell prints before each command.
const MARK: char = '\u{1e}';

impl Page {
    /// Runs the page in this world and compares what it prints.
    ///
    /// # Panics
    /// When a set-up command fails or an output differs, with every difference.
    #[track_caller]
    pub fn run(&self, world: &World) {
        let world = world.clone().dir("home/bin").dir("home/app").cwd("home/app");
        let script = format!("{}{}", prelude(&world), self.script());
        let world = world.file("transcript.sh", &script);
        let path = world.path("transcript.sh");
        let run = world.start(["bash".as_ref(), path.as_os_str()]).wait_up_to(PATIENCE);
        let home = world.path("home").display().to_string();
        let output = run.output().replace(&home, "/home/you");
        let mut outputs = output.split(MARK).skip(1).map(after_number);
        let mut wrong = String::new();
        for Step { line, command, expected } in self.steps() {
            let Some(actual) = outputs.next() else {
                panic!("{}:{line}: not reached, a set-up before it failed\n{run}", self.name)
            };
            if !matches(expected, actual.trim_end()) {
                let expected = expected.trim_end();
                let actual = actual.trim_end();
                let _ = write!(
                    wrong,
                    "{}:{line}: $ {command}\n--- the page shows\n{expected}\n--- it prints\n{actual}\n\n",
                    self.name
                );
            }
        }
        assert!(wrong.is_empty() && run.status().success(), "{wrong}{}", run.messages());
    }

    /// Returns the steps that run.
    fn steps(&self) -> impl Iterator<Item = &Step> {
        let blocks = self.parts.iter().filter_map(|part| match part {
            Part::Block(block) if block.not_run.is_none() => Some(block),
            _ => None,
        });
        blocks.flat_map(|block| &block.steps)
    }

    fn script(&self) -> String {
        let mut script = String::new();
        let mut number = 0;
        for part in &self.parts {
            match part {
                Part::Setup(commands) => {
                    let _ = write!(
                        script,
                        "exec 3>&1 >\"$T/setup\" 2>&1\nset -e\n{commands}\nset +e\nexec 1>&3 2>&1\n"
                    );
                }
                Part::File { path, text } => {
                    let _ = write!(
                        script,
                        "mkdir -p \"$(dirname {path})\"\ncat > {path} <<'END OF THE FILE'\n{text}END OF THE FILE\n"
                    );
                }
                Part::Block(Block { not_run: Some(_), .. }) => {}
                Part::Block(Block { steps, background, .. }) => {
                    for Step { command, expected, .. } in steps {
                        number += 1;
                        let _ = writeln!(script, "printf '\\036%s\\n' {number}");
                        let _ = if *background {
                            let lines = expected.lines().count();
                            write!(
                                script,
                                "set -m\n{{\n{command}\n}} >\"$T/{number}\" 2>&1 &\nset +m\nstarted $! {number} {lines}\n"
                            )
                        } else {
                            writeln!(script, "{command}")
                        };
                    }
                }
            }
        }
        script + "finished=1\n"
    }
}

fn after_number(output: &str) -> &str {
    output.split_once('\n').map_or("", |(_, rest)| rest)
}

/// Returns the prelude of a page's script: functions, variables, and a repository in the project.
fn prelude(world: &World) -> String {
    let root = world.path("").display().to_string();
    let binary = world.binary().display().to_string();
    format!(
        r#"exec 2>&1 </dev/null
T={root}/tmp; mkdir -p "$T" {root}/programs
ln -s {binary} {root}/programs/agent-sandbox
export PATH={root}/programs:$HOME/bin:$PATH XDG_RUNTIME_DIR=
unset XDG_RUNTIME_DIR
jobs_started=() finished=
# Waits until a background job has printed as many lines as the page shows.
started() {{
  jobs_started+=("$1")
  for _ in $(seq 200); do
    [ "$(grep -c '' "$T/$2")" -lt "$3" ] || break
    sleep 0.1
  done
  cat "$T/$2"
}}
# Writes a program that the page calls: its script is on standard input.
program() {{ cat > "$HOME/bin/$1"; chmod 755 "$HOME/bin/$1"; }}
ended() {{
  [ -n "$finished" ] || {{ printf '\nset-up failed:\n'; cat "$T/setup"; }} >&2
  for job in "${{jobs_started[@]}}"; do kill -- "-$job"; wait "$job"; done
  for name in $(agent-sandbox ps --json | sed -n 's/.*"name": "\([^"]*\)".*/\1/p'); do agent-sandbox rm --yes "$name"; done
  [ -n "$finished" ]
}} >"$T/ended" 2>&1
trap ended EXIT
git init --quiet --initial-branch=main && git commit --quiet --allow-empty --message start
"#
    )
}
