//! Progress bar on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::ui::Stdio;

/// Smallest number of steps for which a bar is shown.
const LONG: usize = 200;

/// Progress bar, or nothing.
pub(crate) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(crate) fn new(io: &Stdio<'_>, steps: usize) -> Self {
        if !io.interactive || steps < LONG {
            return Self(None);
        }
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} files, {eta} left");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
        Self(Some(bar.with_style(style)))
    }

    pub(crate) fn set(&self, done: usize) {
        if let Some(bar) = &self.0 {
            bar.set_position(done as u64);
        }
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}
