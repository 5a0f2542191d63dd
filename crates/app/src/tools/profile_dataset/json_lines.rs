//! A block of whole JSON lines, split into a [`Grid`]: one column per key of the outermost objects.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::ProfileError;
use super::grid::{Grid, Span};
use super::limits::{COLUMNS_MAX, NAME_BYTES_MAX};

/// Splits blocks of JSON lines, and collects the columns on the way.
#[derive(Debug, Default)]
pub struct JsonLines {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl JsonLines {
    /// Starts with these columns.
    #[must_use]
    pub fn with_names(names: impl IntoIterator<Item = String>) -> Self {
        let mut lines = Self::default();
        for name in names {
            lines.places.insert(name.clone(), lines.names.len());
            lines.names.push(name);
        }
        lines
    }

    /// The columns found so far, in the order in which they first occurred.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Fills `grid` from `block`, whose memory may be exchanged with the grid's. Lines that are not a JSON object are
    /// counted; blank ones are skipped. If a key occurs twice in an object, the last value counts.
    ///
    /// # Errors
    ///
    /// [`ProfileError::TooManyColumns`] with more keys than [`COLUMNS_MAX`].
    pub fn split(&mut self, block: &mut Vec<u8>, grid: &mut Grid) -> Result<(), ProfileError> {
        grid.reset(self.names.len());
        let mut unescaped = Vec::new();
        let mut line_start = 0;
        while line_start < block.len() {
            let rest = block.get(line_start..).unwrap_or_default();
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest.get(..length).unwrap_or_default();
            if !line.trim_ascii().is_empty() {
                let mut row =
                    Row { lines: self, grid, unescaped: &mut unescaped, block_length: block.len(), line_start };
                row.read(line)?;
            }
            line_start += length + 1;
        }
        block.extend_from_slice(&unescaped);
        std::mem::swap(block, &mut grid.text);
        Ok(())
    }

    /// The column of a key. Records mostly have their keys in the same order, so the next column is tried first.
    fn place(&mut self, key: &str, guess: usize) -> Result<usize, ProfileError> {
        if self.names.get(guess).is_some_and(|name| name == key) {
            return Ok(guess);
        }
        let key = cut(key, NAME_BYTES_MAX);
        if let Some(place) = self.places.get(key) {
            return Ok(*place);
        }
        if self.names.len() == COLUMNS_MAX {
            return Err(ProfileError::TooManyColumns { max: COLUMNS_MAX });
        }
        let place = self.names.len();
        self.names.push(key.to_owned());
        self.places.insert(key.to_owned(), place);
        Ok(place)
    }
}

/// The longest start of `text` that has at most `bytes_max` bytes and ends between characters.
#[must_use]
pub fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}

struct Row<'a> {
    lines: &'a mut JsonLines,
    grid: &'a mut Grid,
    unescaped: &'a mut Vec<u8>,
    block_length: usize,
    line_start: usize,
}

impl Row<'_> {
    fn read(&mut self, line: &[u8]) -> Result<(), ProfileError> {
        match std::str::from_utf8(line) {
            Ok(text) => self.read_text(text, Origin::Block),
            Err(_) => {
                self.grid.invalid_lines += 1;
                self.read_text(&String::from_utf8_lossy(line), Origin::Elsewhere)
            }
        }
    }

    fn read_text(&mut self, line: &str, origin: Origin) -> Result<(), ProfileError> {
        let mut values = Vec::new();
        let mut parser = serde_json::Deserializer::from_str(line);
        let object = parser.deserialize_map(Entries(&mut values));
        if object.is_err() || parser.end().is_err() {
            self.grid.malformed += 1;
            return Ok(());
        }
        let mut guess = 0;
        for (key, value) in values {
            let place = self.lines.place(&key, guess)?;
            guess = place + 1;
            let span = self.span(line, value.get(), &origin);
            self.put(place, span);
        }
        self.grid.rows += 1;
        Ok(())
    }

    fn put(&mut self, place: usize, span: Span) {
        if self.grid.columns.len() <= place {
            self.grid.columns.resize_with(place + 1, Vec::new);
        }
        if let Some(column) = self.grid.columns.get_mut(place) {
            column.resize(self.grid.rows, Span::MISSING);
            column.push(span);
        }
    }

    /// Where the value can be found: in the block or, if it had to be rewritten, after it.
    fn span(&mut self, line: &str, token: &str, origin: &Origin) -> Span {
        let has_escapes = token.starts_with('"') && memchr::memchr(b'\\', token.as_bytes()).is_some();
        let within = (token.as_ptr() as usize).checked_sub(line.as_ptr() as usize);
        match (origin, within) {
            (Origin::Block, Some(offset)) if !has_escapes => {
                let start = self.line_start + offset;
                Span::new(start, start + token.len())
            }
            (Origin::Block | Origin::Elsewhere, _) => self.append(token),
        }
    }

    fn append(&mut self, token: &str) -> Span {
        let start = self.block_length + self.unescaped.len();
        match serde_json::from_str::<String>(token) {
            Ok(text) => {
                self.unescaped.push(b'"');
                self.unescaped.extend_from_slice(text.as_bytes());
                self.unescaped.push(b'"');
            }
            Err(_) => self.unescaped.extend_from_slice(token.as_bytes()),
        }
        Span::new(start, self.block_length + self.unescaped.len())
    }
}

/// Whether a line is read in place in the block.
enum Origin {
    Block,
    Elsewhere,
}

/// Collects the keys and values of an object without building the values.
struct Entries<'a, 'de>(&'a mut Vec<(Cow<'de, str>, &'de RawValue)>);

impl<'de> Visitor<'de> for Entries<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            // An object of more keys than there may be columns cannot be profiled anyway.
            if self.0.len() > 4 * COLUMNS_MAX {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            self.0.push((key, map.next_value()?));
        }
        Ok(())
    }
}

/// A key, borrowed unless it has escapes (a plain `Cow` would always be copied).
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (JsonLines, Grid) {
        let mut lines = JsonLines::default();
        let mut grid = Grid::default();
        let mut block = text.as_bytes().to_vec();
        lines.split(&mut block, &mut grid).unwrap();
        (lines, grid)
    }

    fn column(grid: &Grid, place: usize) -> Vec<String> {
        grid.columns[place].iter().map(|span| String::from_utf8_lossy(span.of(&grid.text)).into_owned()).collect()
    }

    #[test]
    fn keys_become_columns_in_the_order_in_which_they_first_occur() {
        let (lines, grid) = split("{\"a\":1,\"b\":\"x\"}\n\n{\"b\":null,\"c\":[1,{\"d\":2}],\"a\":2.5}\r\n{}\n");
        assert_eq!(lines.names(), ["a", "b", "c"]);
        assert_eq!(column(&grid, 0), ["1", "2.5"]);
        assert_eq!(column(&grid, 1), ["\"x\"", "null"]);
        assert_eq!(column(&grid, 2), ["", "[1,{\"d\":2}]"]);
        assert_eq!((grid.rows, grid.malformed), (3, 0));
    }

    #[test]
    fn escaped_strings_are_the_same_values_as_plain_ones() {
        let (_, grid) = split("{\"a\":\"\\u0041\\n\"}\n{\"\\u0061\":\"A\"}\n");
        assert_eq!(column(&grid, 0), ["\"A\n\"", "\"A\""]);
    }

    #[test]
    fn lines_that_are_not_an_object_are_counted_and_leave_no_trace() {
        let (lines, grid) = split("[1]\n{\"a\":1\n{\"a\":1} x\n7\n{\"a\":3}");
        assert_eq!((grid.rows, grid.malformed), (1, 4));
        assert_eq!(lines.names(), ["a"]);
        assert_eq!(column(&grid, 0), ["3"]);
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let (_, grid) = split("{\"a\":1,\"a\":2}\n{\"a\":3}");
        assert_eq!(column(&grid, 0), ["2", "3"]);
    }

    #[test]
    fn too_many_keys_are_refused() {
        let mut text = String::from("{");
        for key in 0..=COLUMNS_MAX {
            text.push_str(&format!("\"k{key}\":1,"));
        }
        text.push_str("\"z\":1}");
        let outcome = JsonLines::default().split(&mut text.into_bytes(), &mut Grid::default());
        assert!(matches!(outcome, Err(ProfileError::TooManyColumns { .. })));
    }
}
