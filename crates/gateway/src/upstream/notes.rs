//! The last known facts about a process, for the error of its call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits;

/// The last known facts about a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    stderr: VecDeque<String>,
    /// A line of standard error that has no end yet.
    unfinished: Vec<u8>,
    why: Option<String>,
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes why the gateway ended it. The first reason is kept.
    pub(crate) fn because(&self, why: impl Into<String>) {
        self.lock().why.get_or_insert_with(|| why.into());
    }

    /// Keeps a line of standard error, and not more of the earlier ones than an error may show.
    pub(super) fn stderr(&self, line: String) {
        let lines = &mut self.lock().stderr;
        lines.push_back(line);
        let bytes = |lines: &VecDeque<String>| lines.iter().map(|line| line.len() + 1).sum::<usize>();
        while lines.len() > 1 && (lines.len() > limits::STDERR_LINES_MAX || bytes(lines) > limits::STDERR_BYTES_MAX) {
            lines.pop_front();
        }
    }

    /// Keeps what there is of the next line.
    pub(super) fn unfinished(&self, line: &[u8]) {
        let end = line.get(line.len().saturating_sub(limits::STDERR_LINE_BYTES_MAX)..).unwrap_or_default();
        end.clone_into(&mut self.lock().unfinished);
    }

    pub(super) fn why(&self) -> Option<String> {
        self.lock().why.clone()
    }

    pub(super) fn stderr_text(&self) -> String {
        let noted = self.lock();
        let unfinished = String::from_utf8_lossy(&noted.unfinished);
        let lines = noted.stderr.iter().map(String::as_str).chain([unfinished.trim()]);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        lines.join("\n")
    }
}
