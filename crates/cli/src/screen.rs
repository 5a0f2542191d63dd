//! Progress of running tasks: bars on a terminal, a line every ten seconds otherwise.

use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use longhaul_client::{Progress, Status, Task};
use serde_json::Value;

use crate::clock;
use crate::exit::Stop;
use crate::limits::LINE_EVERY;
use crate::out::{self, line};
use crate::pace::Pace;

/// Bars count whole numbers: so many for one of a task's own units.
const UNIT: f64 = 1_000.0;

/// The display of running tasks.
#[derive(Clone)]
pub(crate) enum Screen {
    Bars(MultiProgress),
    Lines,
    /// Each change as JSON, on the standard output.
    Json,
}

impl Screen {
    /// For people.
    pub(crate) fn new() -> Self {
        if stderr().is_terminal() { Self::Bars(MultiProgress::new()) } else { Self::Lines }
    }

    /// The display of one task.
    pub(crate) fn view(&self, name: &str) -> View {
        let name = if name.is_empty() { String::new() } else { format!("{} ", line(name)) };
        let bar = match self {
            Self::Bars(bars) => {
                let bar = bars.add(ProgressBar::no_length().with_style(waiting()).with_prefix(name.clone()));
                bar.enable_steady_tick(Duration::from_millis(120));
                Some(bar)
            }
            Self::Lines | Self::Json => None,
        };
        View { name, screen: self.clone(), bar, pace: Arc::default(), is_measured: false, shown: None, said: None }
    }

    /// Does something else with the terminal meanwhile.
    pub(crate) fn suspend<T>(&self, act: impl FnOnce() -> T) -> T {
        match self {
            Self::Bars(bars) => bars.suspend(act),
            Self::Lines | Self::Json => act(),
        }
    }

    /// Returns when the reader of the changes in JSON has gone.
    pub(crate) async fn reader_gone(&self) {
        match self {
            Self::Json => out::reader_gone().await,
            Self::Bars(_) | Self::Lines => std::future::pending().await,
        }
    }

    /// A line for the user.
    pub(crate) fn say(&self, text: &str) {
        self.suspend(|| out::say(text));
    }
}

/// The display of one task. The bar goes when this is dropped.
pub(crate) struct View {
    /// The name in front of each line; empty if there is only one task.
    name: String,
    screen: Screen,
    bar: Option<ProgressBar>,
    /// Shared with the bar, which shows it again all the time.
    pace: Arc<Mutex<Pace>>,
    is_measured: bool,
    /// The JSON that was written last.
    shown: Option<Value>,
    /// When a line was written last.
    said: Option<Instant>,
}

impl View {
    /// Shows how far a task is.
    ///
    /// # Errors
    /// If a change cannot be written.
    pub(crate) fn task(&mut self, task: &Task) -> Result<(), Stop> {
        if matches!(self.screen, Screen::Json) {
            let now = Value::Object(task.raw.clone());
            if self.shown.as_ref() != Some(&now) {
                out::json(&now)?;
                self.shown = Some(now);
            }
            return Ok(());
        }
        match (task.progress(), &task.message) {
            (Some(progress), _) => self.progress(&progress),
            (None, Some(message)) => self.not_measured(message),
            (None, None) if task.status == Status::InputRequired => self.not_measured("it asks something"),
            (None, None) => self.not_measured(task.status.name()),
        }
        Ok(())
    }

    /// Shows a task with unknown progress.
    fn not_measured(&mut self, message: &str) {
        if !self.is_measured {
            lock(&self.pace).begin(clock::instant());
        }
        self.message(message);
    }

    /// How much is done.
    pub(crate) fn progress(&mut self, progress: &Progress) {
        let total = progress.total.filter(|total| *total > 0.0);
        let counts = total.map_or_else(|| progress.done.to_string(), |total| format!("{}/{total}", progress.done));
        let message = progress.message.as_deref().unwrap_or_default();
        self.message(format!("{counts} {message}").trim_end());
        let (Some(bar), Some(total)) = (&self.bar, total) else { return };
        bar.set_length(units(total));
        bar.set_position(units(progress.done));
        lock(&self.pace).note(clock::instant(), progress.done, total);
        if !self.is_measured {
            self.is_measured = true;
            bar.set_style(measured(&self.pace));
        }
    }

    /// The present state.
    pub(crate) fn message(&mut self, message: &str) {
        let message = line(message);
        if let Some(bar) = &self.bar {
            bar.set_message(message);
        } else if matches!(self.screen, Screen::Lines) && self.is_due() {
            self.said = Some(clock::instant());
            out::say(&format!("{}{message}", self.name));
        }
    }

    /// The first line comes after the first ten seconds: what is quick needs none.
    fn is_due(&mut self) -> bool {
        let now = clock::instant();
        now.duration_since(*self.said.get_or_insert(now)) >= LINE_EVERY
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a bar that is wrong at its ends does no harm"
)]
fn units(count: f64) -> u64 {
    (count * UNIT).max(0.0) as u64
}

/// Before anything is known of how far it is.
fn waiting() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {prefix}{elapsed} {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn measured(pace: &Arc<Mutex<Pace>>) -> ProgressStyle {
    let style = ProgressStyle::with_template("{spinner} {prefix}[{bar:24}] {pace}{wide_msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let pace = Arc::clone(pace);
    style.progress_chars("=> ").with_key("pace", move |_state: &ProgressState, out: &mut dyn Write| {
        if let Some((rate, left)) = lock(&pace).at(clock::instant()) {
            // A failed write cannot be reported.
            let _unwritten = write!(out, "{}, {:#} left ", rate_in_words(rate), HumanDuration(left));
        }
    })
}

fn lock(pace: &Mutex<Pace>) -> MutexGuard<'_, Pace> {
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For example `2.0/s` or `1.5/min`: never zero.
fn rate_in_words(per_s: f64) -> String {
    match per_s {
        rate if rate >= 0.1 => format!("{rate:.1}/s"),
        rate if rate >= 0.1 / 60.0 => format!("{:.1}/min", rate * 60.0),
        rate => format!("{:.1}/h", (rate * 3_600.0).max(0.1)),
    }
}
