//! Lines of limited length.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// The outcome of a line that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlong {
    /// It ends the reading.
    Refused,
    /// Its rest is skipped.
    Cut,
}

/// One line, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its line break.
    Text(Vec<u8>),
    /// It is longer than allowed. Nothing is read after it.
    TooLong,
    /// Nothing comes any more.
    End,
}

/// Reads lines, and never keeps more than the allowed number of bytes.
#[derive(Debug)]
pub struct Lines<R> {
    read: BufReader<R>,
    line: Vec<u8>,
    bytes_max: usize,
    overlong: Overlong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads lines of at most `bytes_max` bytes.
    pub fn new(read: R, bytes_max: usize, overlong: Overlong) -> Self {
        Self { read: BufReader::new(read), line: Vec::new(), bytes_max, overlong }
    }

    /// The beginning of a line that is not complete yet.
    pub fn begun(&self) -> &[u8] {
        &self.line
    }

    /// Takes that beginning: the next line begins after it.
    pub fn take_begun(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.line)
    }

    /// A last line without a line break.
    fn rest(&mut self) -> Line {
        if self.line.is_empty() { Line::End } else { Line::Text(std::mem::take(&mut self.line)) }
    }

    /// The next line. If this is dropped before it returns, nothing is lost: what was read stays for the next call.
    pub async fn next(&mut self) -> Line {
        loop {
            let Ok(bytes) = self.read.fill_buf().await else {
                return Line::End;
            };
            if bytes.is_empty() {
                return self.rest();
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let text = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
            let room = self.bytes_max.saturating_sub(self.line.len());
            if text.len() > room && self.overlong == Overlong::Refused {
                return Line::TooLong;
            }
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            let read = end.map_or(bytes.len(), |end| end + 1);
            self.read.consume(read);
            if end.is_some() {
                return Line::Text(std::mem::take(&mut self.line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(text: &str, bytes_max: usize, overlong: Overlong) -> Vec<Line> {
        let mut lines = Lines::new(text.as_bytes(), bytes_max, overlong);
        let mut all = Vec::new();
        loop {
            match lines.next().await {
                Line::End => return all,
                Line::TooLong => {
                    all.push(Line::TooLong);
                    return all;
                }
                line @ Line::Text(_) => all.push(line),
            }
        }
    }

    fn text(text: &str) -> Line {
        Line::Text(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_are_read_to_the_last_one_without_a_line_break() {
        assert_eq!(all("one\n\ntwo", 3, Overlong::Refused).await, [text("one"), text(""), text("two")]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_ends_the_reading() {
        assert_eq!(all("one\nfour\nfive", 3, Overlong::Refused).await, [text("one"), Line::TooLong]);
    }

    #[tokio::test]
    async fn a_line_can_be_cut_instead() {
        assert_eq!(all("fourteen\none\n", 4, Overlong::Cut).await, [text("four"), text("one")]);
    }
}
