//! The output of a log or a metric, kept for a test.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// Lines that were written. Clones share them: one is the writer, another is read.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// The lines that were not taken yet, which stay.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8(self.lock().clone()).unwrap()
    }

    /// Takes the lines.
    #[must_use]
    pub fn take_text(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.lock())).unwrap()
    }

    /// Takes the lines, each of which has to be JSON.
    pub fn take(&self) -> Vec<Value> {
        self.take_text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
