//! A progress bar that is silent in a pipe.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};

/// Progress of a known number of steps, drawn on standard error if that is a terminal.
///
/// Clones share one bar and may be used from several threads.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
    stopped: Arc<AtomicBool>,
}

impl Progress {
    /// A bar of `steps` steps with a label.
    #[must_use]
    pub fn new(steps: u64, label: impl Into<Cow<'static, str>>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::silent();
        }
        let bar = ProgressBar::new(steps);
        let template = "{prefix} [{bar:30}] {pos}/{len} {msg} ({eta})";
        bar.set_style(
            ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> "),
        );
        bar.set_prefix(label);
        Self {
            bar,
            stopped: Arc::default(),
        }
    }

    /// Never draws.
    #[must_use]
    pub fn silent() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            stopped: Arc::default(),
        }
    }

    /// Asks the workers to begin nothing new.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// True after [`Self::stop`].
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// One step more.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Sets the number of steps done.
    pub fn set(&self, steps: u64) {
        self.bar.set_position(steps);
    }

    /// Says what is being done.
    pub fn message(&self, message: impl Into<Cow<'static, str>>) {
        self.bar.set_message(message);
    }

    /// Steps done so far.
    #[must_use]
    pub fn steps_done(&self) -> u64 {
        self.bar.position()
    }

    /// Prints a line above the bar (nothing when silent).
    pub fn note(&self, line: impl AsRef<str>) {
        self.bar.println(line);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_over_threads() {
        let progress = Progress::silent();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let progress = progress.clone();
                scope.spawn(move || (0..100).for_each(|_| progress.step()));
            }
        });
        assert_eq!(progress.steps_done(), 400);
        progress.finish();
    }
}
