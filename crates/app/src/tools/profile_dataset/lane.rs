//! What one thread does: splits blocks and counts what they hold.

use super::column::{Column, Scratch};
use super::csv_records::CsvRecords;
use super::entries::Entries;
use super::error::ProfileError;
use super::grid::Grid;
use super::json_lines::JsonLines;
use super::sniff::Format;
use super::value::Syntax;

/// The counts of whole records, and the columns.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Records.
    pub rows: u64,
    /// Records whose number of fields differs from the number of columns.
    pub ragged: u64,
    /// Lines that are not a JSON object.
    pub malformed: u64,
    /// Lines of JSON that are not valid UTF-8.
    pub invalid_lines: u64,
    /// The columns, in the order of the source.
    pub columns: Vec<Column>,
}

impl Tally {
    /// The same columns without values.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if a sketch cannot be created.
    pub fn without_values(&self) -> Result<Self, ProfileError> {
        Ok(Self {
            columns: self.columns.iter().map(Column::without_values).collect::<Result<_, _>>()?,
            ..Self::default()
        })
    }

    /// Merges in another tally; columns are matched by their names.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if a sketch fails.
    pub fn merge(&mut self, other: Self) -> Result<(), ProfileError> {
        self.rows += other.rows;
        self.ragged += other.ragged;
        self.malformed += other.malformed;
        self.invalid_lines += other.invalid_lines;
        for (place, column) in other.columns.into_iter().enumerate() {
            // The order is the same except for columns that first occurred in this chunk.
            let same = |known: &Column| known.name == column.name;
            let place = match self.columns.get(place) {
                Some(known) if same(known) => Some(place),
                Some(_) | None => self.columns.iter().position(same),
            };
            match place.and_then(|place| self.columns.get_mut(place)) {
                Some(known) => known.merge(column)?,
                None => self.columns.push(column),
            }
        }
        Ok(())
    }
}

/// Counts blocks, one after the other.
#[derive(Debug)]
pub struct Lane {
    tally: Tally,
    splitter: Splitter,
    syntax: Syntax,
    grid: Grid,
    entries: Entries,
    scratch: Scratch,
}

#[derive(Debug)]
enum Splitter {
    Csv(CsvRecords),
    JsonLines(Box<JsonLines>),
}

impl Lane {
    /// Continues from `tally`. `null_values` are the texts that mean "no value" in CSV.
    #[must_use]
    pub fn new(format: Format, null_values: Vec<String>, tally: Tally) -> Self {
        let (splitter, syntax) = match format {
            Format::Csv { delimiter } => {
                (Splitter::Csv(CsvRecords::new(delimiter, tally.columns.len())), Syntax::Csv { null_values })
            }
            Format::JsonLines => {
                let names = tally.columns.iter().map(|column| column.name.clone());
                (Splitter::JsonLines(Box::new(JsonLines::with_names(names))), Syntax::Json)
            }
        };
        Self {
            tally,
            splitter,
            syntax,
            grid: Grid::default(),
            entries: Entries::default(),
            scratch: Scratch::default(),
        }
    }

    /// Counts the records of `block`, whose memory is exchanged.
    ///
    /// # Errors
    ///
    /// [`ProfileError::TooManyColumns`]; [`ProfileError::Internal`] if a sketch fails.
    pub fn absorb(&mut self, block: &mut Vec<u8>) -> Result<(), ProfileError> {
        let is_valid = std::str::from_utf8(block).is_ok();
        match &mut self.splitter {
            Splitter::Csv(records) => records.split(block, &mut self.grid),
            Splitter::JsonLines(lines) => {
                lines.split(block, &mut self.grid)?;
                let columns = lines.names().len();
                for name in lines.names().iter().skip(self.tally.columns.len()) {
                    self.tally.columns.push(Column::new(name.clone(), columns)?);
                }
            }
        }
        self.tally.rows += self.grid.rows as u64;
        self.tally.ragged += self.grid.ragged;
        self.tally.malformed += self.grid.malformed;
        self.tally.invalid_lines += self.grid.invalid_lines;
        let text = &self.grid.text;
        for (column, spans) in self.tally.columns.iter_mut().zip(&self.grid.columns) {
            let entries = self.entries.gather(text, spans);
            column.absorb(entries, text, &self.syntax, &mut self.scratch)?;
            if !is_valid {
                column.count_invalid_utf8(entries, text);
            }
        }
        Ok(())
    }

    /// What was counted.
    #[must_use]
    pub fn into_tally(self) -> Tally {
        self.tally
    }
}
