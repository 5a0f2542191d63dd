//! Progress that a tool reports.

use std::future::IntoFuture;
use std::pin::Pin;

use longhaul_core::Progress;

use super::{Run, TaskContext};

impl TaskContext {
    /// Reports how far the work is. The report appears in the status message of the task, or in a progress notification
    /// if the caller of a plain call asked for them. Numbers of any type will do. Nothing happens until the report is
    /// awaited.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # async fn tool(task: TaskContext) {
    /// let files = ["a.csv", "b.csv"];
    /// for (done, file) in files.iter().enumerate() {
    ///     task.progress(done).of(files.len()).message(*file).await;
    /// }
    /// # }
    /// ```
    pub fn progress(&self, done: impl Amount) -> ProgressReport<'_> {
        ProgressReport { task: self, progress: Progress { done: done.amount(), total: None, message: None } }
    }
}

/// How far the work is, made by [`TaskContext::progress`] and sent by `.await`.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// # use longhaul::TaskContext;
/// # async fn tool(task: TaskContext) {
/// task.progress(3).await;
/// task.progress(3).of(12).message("reading March").await;
/// # }
/// ```
#[must_use = "progress is reported when this is awaited"]
#[derive(Clone)]
pub struct ProgressReport<'a> {
    task: &'a TaskContext,
    progress: Progress,
}

impl ProgressReport<'_> {
    /// How much there is in all, in the same unit as what is done.
    pub fn of(mut self, total: impl Amount) -> Self {
        self.progress.total = Some(total.amount());
        self
    }

    /// The current work of the tool, as text for users. An empty message is left out.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.progress.message = Some(message.into()).filter(|message| !message.is_empty());
        self
    }

    /// A number that is not finite, such as the result of a division by zero, means nothing to a client.
    async fn send(mut self) {
        if !self.progress.done.is_finite() {
            return;
        }
        self.progress.total = self.progress.total.filter(|total| total.is_finite());
        match &self.task.0.run {
            Run::Task(_) => self.task.0.attempt.progress(self.progress),
            Run::Plain(call) => call.progress(self.progress).await,
        }
    }
}

impl<'a> IntoFuture for ProgressReport<'a> {
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl std::fmt::Debug for ProgressReport<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.progress.fmt(f)
    }
}

/// A number that [progress](TaskContext::progress) can be reported in: any integer of up to 64 bits, or a float.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// use longhaul::Amount;
///
/// assert_eq!((3_usize.amount(), 0.5_f32.amount()), (3.0, 0.5));
/// ```
pub trait Amount {
    /// The number as the protocol writes it. Integers above 2^53 are rounded.
    fn amount(self) -> f64;
}

macro_rules! exact_amounts {
    ($($number:ty),*) => {
        $(impl Amount for $number {
            fn amount(self) -> f64 {
                self.into()
            }
        })*
    };
}

macro_rules! rounded_amounts {
    ($($number:ty),*) => {
        $(impl Amount for $number {
            fn amount(self) -> f64 {
                self as f64
            }
        })*
    };
}

exact_amounts!(u8, u16, u32, i8, i16, i32, f32, f64);
rounded_amounts!(u64, i64, usize, isize);
