//! Everything that is known about one column: exact counts, and sketches of bounded size.

use serde::{Deserialize, Serialize};

use super::distinct::Distinct;
use super::entries::Entry;
use super::error::ProfileError;
use super::frequent::{Frequent, FrequentRecord};
use super::limits::Precision;
use super::moments::Moments;
use super::quantiles::{Quantiles, QuantilesRecord};
use super::text_bounds::TextBounds;
use super::value::{Kind, Syntax, text_of};

/// How many values of each kind a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct KindCounts {
    /// Integers.
    pub integer: u64,
    /// Other numbers.
    pub number: u64,
    /// `true` and `false`.
    pub boolean: u64,
    /// ISO 8601 days.
    pub date: u64,
    /// ISO 8601 days with a time.
    pub datetime: u64,
    /// Other texts.
    pub string: u64,
    /// JSON arrays and objects.
    pub nested: u64,
}

impl KindCounts {
    /// All values that are not null.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.integer + self.number + self.boolean + self.date + self.datetime + self.string + self.nested
    }

    const fn add(&mut self, other: &Self) {
        self.integer += other.integer;
        self.number += other.number;
        self.boolean += other.boolean;
        self.date += other.date;
        self.datetime += other.datetime;
        self.string += other.string;
        self.nested += other.nested;
    }
}

/// The smallest and largest integer and number. Integers are separate: a double cannot represent them all.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct NumberBounds {
    /// Of the integers of at most 64 bits.
    pub integers: Option<(i64, i64)>,
    /// Of all other numbers.
    pub numbers: Option<(f64, f64)>,
}

impl NumberBounds {
    fn absorb_integer(&mut self, value: i64) {
        let (least, most) = self.integers.unwrap_or((value, value));
        self.integers = Some((least.min(value), most.max(value)));
    }

    const fn absorb_number(&mut self, value: f64) {
        let (least, most) = match self.numbers {
            Some(ends) => ends,
            None => (value, value),
        };
        self.numbers = Some((least.min(value), most.max(value)));
    }
}

/// One column, as far as it has been read.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name, unique in the data set.
    pub name: String,
    /// How many values of each kind.
    pub kinds: KindCounts,
    /// Values that are not valid UTF-8.
    pub invalid_utf8: u64,
    /// The smallest and largest of its numbers.
    pub bounds: NumberBounds,
    /// The first and last of its texts: in CSV of all values as they are written, in JSON of the strings.
    pub texts: TextBounds,
    /// Mean and deviation of its numbers.
    pub moments: Moments,
    /// Quantiles of its numbers.
    pub quantiles: Quantiles,
    /// How many different values it has.
    pub distinct: Distinct,
    /// Which values are most frequent.
    pub frequent: Frequent,
    /// The number of columns that decided the precision.
    precision_for: u32,
    precision: Precision,
}

/// The recorded form of a [`Column`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ColumnRecord {
    name: String,
    kinds: KindCounts,
    invalid_utf8: u64,
    bounds: NumberBounds,
    texts: TextBounds,
    moments: Moments,
    quantiles: QuantilesRecord,
    distinct: Vec<u8>,
    frequent: FrequentRecord,
    precision_for: u32,
}

impl Column {
    /// A column without values, described as precisely as a data set of `columns` columns allows.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] only if the precisions are outside what the sketches accept.
    pub fn new(name: String, columns: usize) -> Result<Self, ProfileError> {
        let precision = Precision::for_columns(columns);
        Ok(Self {
            name,
            kinds: KindCounts::default(),
            invalid_utf8: 0,
            bounds: NumberBounds::default(),
            texts: TextBounds::default(),
            moments: Moments::default(),
            quantiles: Quantiles::new(precision.exact_numbers_max, precision.digest_k),
            distinct: Distinct::new(precision.distinct_lg)?,
            frequent: Frequent::new(precision.frequent_slots, precision.text_bytes_max)?,
            precision_for: u32::try_from(columns).unwrap_or(u32::MAX),
            precision,
        })
    }

    /// A column of the same name and precision without values.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn without_values(&self) -> Result<Self, ProfileError> {
        let empty = Self::new(self.name.clone(), self.precision_for as usize)?;
        Ok(Self { quantiles: self.quantiles.without_values()?, ..empty })
    }

    /// What was recorded by [`Self::record`].
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if the record is damaged.
    pub fn restore(record: ColumnRecord) -> Result<Self, ProfileError> {
        let precision = Precision::for_columns(record.precision_for as usize);
        Ok(Self {
            name: record.name,
            kinds: record.kinds,
            invalid_utf8: record.invalid_utf8,
            bounds: record.bounds,
            texts: record.texts,
            moments: record.moments,
            quantiles: Quantiles::restore(record.quantiles, precision.exact_numbers_max, precision.digest_k)?,
            distinct: Distinct::restore(&record.distinct)?,
            frequent: Frequent::restore(record.frequent, precision.frequent_slots, precision.text_bytes_max)?,
            precision_for: record.precision_for,
            precision,
        })
    }

    /// A compact record of everything that is known.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if a sketch fails.
    pub fn record(self) -> Result<ColumnRecord, ProfileError> {
        Ok(ColumnRecord {
            kinds: self.kinds,
            invalid_utf8: self.invalid_utf8,
            bounds: self.bounds,
            texts: self.texts,
            moments: self.moments,
            quantiles: self.quantiles.record(self.precision.exact_numbers_recorded_max)?,
            distinct: self.distinct.record()?,
            frequent: self.frequent.record(self.precision.frequent_recorded_max),
            precision_for: self.precision_for,
            name: self.name,
        })
    }

    /// How precisely this column is described.
    #[must_use]
    pub const fn precision(&self) -> Precision {
        self.precision
    }

    /// Adds the gathered values of one block. `scratch` is reused memory.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if a sketch fails.
    pub fn absorb(
        &mut self,
        entries: &[Entry],
        text: &[u8],
        syntax: &Syntax,
        scratch: &mut Scratch,
    ) -> Result<(), ProfileError> {
        scratch.numbers.clear();
        scratch.values.clear();
        for entry in entries {
            let token = entry.span.of(text);
            let kind = syntax.kind(token);
            if kind == Kind::Null {
                continue;
            }
            self.count(kind, entry.times, &mut scratch.numbers);
            self.bound(kind, token, syntax);
            self.distinct.absorb(entry.hash);
            scratch.values.push(*entry);
        }
        self.moments.absorb(&scratch.numbers);
        self.quantiles.absorb(&mut scratch.numbers)?;
        // JSON strings keep their quotes here, which distinguish `"5"` from `5`.
        self.frequent.absorb(&scratch.values, text);
        Ok(())
    }

    /// Counts the values of `entries` that are not valid UTF-8.
    pub fn count_invalid_utf8(&mut self, entries: &[Entry], text: &[u8]) {
        let invalid = |entry: &&Entry| std::str::from_utf8(entry.span.of(text)).is_err();
        self.invalid_utf8 += entries.iter().filter(invalid).map(|entry| entry.times).sum::<u64>();
    }

    fn count(&mut self, kind: Kind, times: u64, numbers: &mut Vec<(f64, u64)>) {
        match kind {
            Kind::Null => {}
            Kind::Integer(value) => {
                self.kinds.integer += times;
                self.bounds.absorb_integer(value);
                #[expect(clippy::cast_precision_loss, reason = "statistics are calculated in doubles")]
                numbers.push((value as f64, times));
            }
            Kind::LargeInteger(value) => {
                self.kinds.integer += times;
                self.bounds.absorb_number(value);
                numbers.push((value, times));
            }
            Kind::Number(value) => {
                self.kinds.number += times;
                self.bounds.absorb_number(value);
                // Minus zero is zero.
                numbers.push((value + 0.0, times));
            }
            Kind::Boolean => self.kinds.boolean += times,
            Kind::Date => self.kinds.date += times,
            Kind::DateTime => self.kinds.datetime += times,
            Kind::Text => self.kinds.string += times,
            Kind::Nested => self.kinds.nested += times,
        }
    }

    fn bound(&mut self, kind: Kind, token: &[u8], syntax: &Syntax) {
        let is_text = match (syntax, kind) {
            // Whether a CSV column is one of text is known only at its end.
            (Syntax::Csv { .. }, _) | (Syntax::Json, Kind::Text | Kind::Date | Kind::DateTime) => true,
            (
                Syntax::Json,
                Kind::Null | Kind::Integer(_) | Kind::LargeInteger(_) | Kind::Number(_) | Kind::Boolean | Kind::Nested,
            ) => false,
        };
        if is_text {
            self.texts.absorb(text_of(syntax, token), self.precision.text_bytes_max);
        }
    }

    /// Merges in the values of another part of the same column.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if a sketch fails.
    pub fn merge(&mut self, other: Self) -> Result<(), ProfileError> {
        self.kinds.add(&other.kinds);
        self.invalid_utf8 += other.invalid_utf8;
        if let Some((least, most)) = other.bounds.integers {
            self.bounds.absorb_integer(least);
            self.bounds.absorb_integer(most);
        }
        if let Some((least, most)) = other.bounds.numbers {
            self.bounds.absorb_number(least);
            self.bounds.absorb_number(most);
        }
        self.texts.merge(&other.texts, self.precision.text_bytes_max);
        self.moments.merge(other.moments);
        self.quantiles.merge(other.quantiles)?;
        self.distinct.merge(&other.distinct)?;
        self.frequent.merge(other.frequent);
        Ok(())
    }
}

/// Working memory that is reused from block to block.
#[derive(Debug, Default)]
pub struct Scratch {
    numbers: Vec<(f64, u64)>,
    values: Vec<Entry>,
}
