//! Tools that the tests run.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use longhaul_core::ResultKind;
use longhaul_engine::{Attempt, AttemptEnd, Cleaned, Driven, Ended, ToolRunner};

use super::world::{Clean, Play};

/// A tool made of a closure, and a count of its runs.
pub(crate) struct Tool {
    play: Box<dyn Fn(Attempt) -> Play + Send + Sync>,
    runs: AtomicUsize,
    clean: Box<dyn Fn(Ended) -> Clean + Send + Sync>,
    cleanups: AtomicUsize,
}

/// A tool that does what `play` does.
pub(crate) fn tool<F>(play: impl Fn(Attempt) -> F + Send + Sync + 'static) -> Tool
where
    F: Future<Output = AttemptEnd> + Send + 'static,
{
    Tool {
        play: Box::new(move |attempt| Box::pin(play(attempt))),
        runs: AtomicUsize::new(0),
        clean: Box::new(|_ended| Box::pin(async { Cleaned::NoSuchTool })),
        cleanups: AtomicUsize::new(0),
    }
}

/// A tool that returns a result at once.
pub(crate) fn quick() -> Tool {
    tool(|_attempt| async { completed("\"done\"") })
}

/// A tool that never ends.
pub(crate) fn hangs() -> Tool {
    tool(|_attempt| std::future::pending())
}

/// A tool that sleeps for so long.
pub(crate) fn sleeps(ms: u64) -> Tool {
    tool(move |attempt| async move {
        attempt.sleep_ms(ms).await;
        completed("1")
    })
}

/// A tool that returns the answer to a question of this key.
pub(crate) fn asks(key: &'static str) -> Tool {
    tool(move |attempt| async move { completed(&attempt.ask(key, "{}".to_owned()).await) })
}

/// A tool that panics every time.
pub(crate) fn crashing() -> Tool {
    tool(|_attempt| async { AttemptEnd::Crashed { reason: "it panicked".to_owned() } })
}

impl Tool {
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    /// The same tool, whose cleanup does what `clean` does.
    pub(crate) fn cleaned_by<F>(self, clean: impl Fn(Ended) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Cleaned> + Send + 'static,
    {
        Self { clean: Box::new(move |ended| Box::pin(clean(ended))), ..self }
    }

    pub(crate) fn cleanups(&self) -> usize {
        self.cleanups.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl ToolRunner for Tool {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        self.runs.fetch_add(1, Ordering::Relaxed);
        match attempt.drive((self.play)(attempt.clone())).await {
            Driven::Ended(end) => end,
            Driven::Suspended(suspended) => AttemptEnd::Suspended(suspended),
        }
    }

    async fn clean(&self, ended: &Ended) -> Cleaned {
        self.cleanups.fetch_add(1, Ordering::Relaxed);
        (self.clean)(ended.clone()).await
    }
}

pub(crate) fn completed(result: &str) -> AttemptEnd {
    AttemptEnd::Completed { result: result.to_owned(), kind: ResultKind::Success }
}
