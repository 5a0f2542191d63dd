//! The standard error of a process. Its lines go to the log, as many as one server may have. The last ones are kept for
//! the error of a call.

use tokio::io::{AsyncRead, AsyncReadExt};

use super::notes::Notes;
use super::quota::Quota;
use crate::limits;

/// The lines of a terminal: the text after a carriage return replaces the text before it.
#[derive(Default)]
struct Screen {
    line: Vec<u8>,
    /// Whether the next byte begins the line again.
    is_returned: bool,
}

impl Screen {
    /// Shows a byte. Returns a line that is complete with it.
    fn show(&mut self, byte: u8) -> Option<String> {
        match byte {
            b'\n' => return self.take(),
            b'\r' => self.is_returned = true,
            _ => {
                if std::mem::take(&mut self.is_returned) {
                    self.line.clear();
                }
                self.line.push(byte);
                if self.line.len() > 2 * limits::STDERR_LINE_BYTES_MAX {
                    // Its end says why a process ended.
                    self.line.drain(..limits::STDERR_LINE_BYTES_MAX);
                }
            }
        }
        None
    }

    fn take(&mut self) -> Option<String> {
        self.is_returned = false;
        let line = std::mem::take(&mut self.line);
        let end = line.get(line.len().saturating_sub(limits::STDERR_LINE_BYTES_MAX)..).unwrap_or_default();
        let text = String::from_utf8_lossy(end).trim_end().to_owned();
        Some(text).filter(|text| !text.is_empty())
    }
}

/// Reads until the process has ended.
pub(super) async fn log(server: String, mut stderr: impl AsyncRead + Unpin, notes: Notes, quota: Quota) {
    let (mut screen, mut bytes) = (Screen::default(), vec![0; limits::STDERR_LINE_BYTES_MAX]);
    let keep = |line: String| {
        if quota.take(&server) {
            tracing::info!(server, line, "standard error of a server");
        }
        notes.stderr(line);
    };
    while let Ok(read) = stderr.read(&mut bytes).await
        && read > 0
    {
        bytes.get(..read).unwrap_or_default().iter().filter_map(|byte| screen.show(*byte)).for_each(keep);
        // The line so far may be the last that the process writes.
        notes.unfinished(&screen.line);
    }
    screen.take().into_iter().for_each(keep);
    notes.unfinished(&[]);
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn said(text: &str) -> String {
        let notes = Notes::default();
        log("s".to_owned(), text.as_bytes(), notes.clone(), Quota::default()).await;
        notes.stderr_text()
    }

    #[tokio::test]
    async fn the_end_of_what_was_said_is_kept() {
        let bar = "\rworking: 12 %".repeat(7_000);
        assert_eq!(said(&format!("begin\n{bar}\rthe disk is full\n")).await, "begin\nthe disk is full");
        assert_eq!(said(&format!("{bar}\rthe disk is full")).await, "the disk is full");
        assert_eq!(said("one\r\ntwo\r\n").await, "one\ntwo");
        let long = said(&format!("{}the disk is full", "x".repeat(100_000))).await;
        assert!(long.ends_with("the disk is full") && long.len() <= limits::STDERR_LINE_BYTES_MAX, "{}", long.len());
        let all = said(&format!("{}\n", "x".repeat(4_000)).repeat(100)).await;
        assert!(all.len() <= limits::STDERR_BYTES_MAX, "{}", all.len());
    }
}
