//! Everything that is known about one column: exact counts, a table of values, and sketches of bounded size.
//!
//! A value is classified when it enters the table. While it is there, each further occurrence is one access to the
//! table. Occurrences since the last addition are added to the sketches when the table is full, and at the end of a
//! chunk. A full table makes room by subtracting from all its counts (Misra and Gries). A count is therefore too low by
//! at most the subtracted amount.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use datasketches::hll::{HllSketch, HllType};
use datasketches::tdigest::TDigestMut;
use rapidhash::fast::RapidHasher;
use rapidhash::v3::rapidhash_v3;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::ProfileError;
use super::value::Kind;

/// How much is stored for one column. Few columns are described finely, and many coarsely. The recorded state of a step
/// stays near 200 KB (400 columns and more: up to 3.5 MB).
struct Precision {
    /// Binary logarithm of the HyperLogLog registers; the relative standard error is 1.04 / sqrt(2^this).
    distinct_lg: u8,
    /// The t-digest's compression.
    digest_k: u16,
    /// Different values that are recorded between two chunks. Within a chunk there is room for eight times as many.
    values_max: usize,
    /// Bytes that are stored of a text; longer ones are cut.
    text_bytes_max: usize,
}

impl Precision {
    /// The precision for a data set of so many columns.
    const fn for_columns(columns: usize) -> Self {
        match columns {
            0..=12 => Self { distinct_lg: 13, digest_k: 200, values_max: 192, text_bytes_max: 100 },
            13..=48 => Self { distinct_lg: 11, digest_k: 100, values_max: 48, text_bytes_max: 100 },
            49..=200 => Self { distinct_lg: 9, digest_k: 40, values_max: 12, text_bytes_max: 48 },
            _ => Self { distinct_lg: 8, digest_k: 10, values_max: 6, text_bytes_max: 24 },
        }
    }
}

/// How many values of each kind a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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
    /// Other strings.
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
}

/// A value in the table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    /// As it is written, cut to the length limit.
    #[serde(rename = "t")]
    pub(super) text: String,
    #[serde(rename = "k")]
    pub(super) kind: Kind,
    /// How often it occurs, less what was subtracted while it was in the table.
    #[serde(rename = "n")]
    pub(super) count: u64,
    /// Occurrences that are not counted yet.
    #[serde(skip)]
    fresh: u64,
}

/// The part of one column that has been read. Values are identified by a hash of 64 bits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Column {
    /// The number of columns that decided the precision.
    width: usize,
    pub(super) kinds: KindCounts,
    pub(super) invalid_utf8: u64,
    /// The smallest and the largest integer of at most 64 bits: a double cannot represent them all.
    pub(super) integers: Option<(i64, i64)>,
    /// The smallest and the largest of all numbers.
    pub(super) numbers: Option<(f64, f64)>,
    /// The first and the last of all values as strings: whether a column is one of text is known only at its end.
    pub(super) texts: Option<(String, String)>,
    #[serde(deserialize_with = "finite_or_nan")]
    mean: f64,
    /// The sum of the squared deviations from the mean.
    #[serde(deserialize_with = "finite_or_nan")]
    squares: f64,
    #[serde(serialize_with = "write_hll", deserialize_with = "read_hll")]
    distinct: HllSketch,
    #[serde(serialize_with = "write_digest", deserialize_with = "read_digest")]
    pub(super) digest: TDigestMut,
    pub(super) values: HashMap<u64, Entry, BuildHasherDefault<RapidHasher<'static>>>,
    /// By how much a count in the table may be too low; 0 if the table has all values.
    pub(super) subtracted: u64,
}

impl Column {
    /// A column without values, described as precisely as a data set of `width` columns allows.
    pub(super) fn new(width: usize) -> Result<Self, ProfileError> {
        let precision = Precision::for_columns(width);
        let refused = |_range| ProfileError::Internal("the size of a sketch".into());
        Ok(Self {
            width,
            kinds: KindCounts::default(),
            invalid_utf8: 0,
            integers: None,
            numbers: None,
            texts: None,
            mean: 0.0,
            squares: 0.0,
            distinct: HllSketch::new(precision.distinct_lg, HllType::Hll4).map_err(refused)?,
            digest: TDigestMut::new(precision.digest_k).map_err(refused)?,
            values: HashMap::default(),
            subtracted: 0,
        })
    }

    /// Adds one value. A JSON string `is_quoted`, and so differs from a number of the same digits. `kind` is called
    /// only if the table does not have the value.
    pub(super) fn add(&mut self, text: &[u8], is_quoted: bool, kind: impl FnOnce() -> Kind) {
        let hash = rapidhash_v3(text) ^ u64::from(is_quoted);
        if let Some(entry) = self.values.get_mut(&hash) {
            entry.fresh += 1;
            return;
        }
        let kind = kind();
        if kind == Kind::Null {
            return;
        }
        if let Kind::Integer(value) = kind {
            widen(&mut self.integers, value);
        }
        if let Some(value) = number(kind) {
            widen(&mut self.numbers, value);
        }
        let precision = Precision::for_columns(self.width);
        let text = cut(&String::from_utf8_lossy(text), precision.text_bytes_max).to_owned();
        widen(&mut self.texts, text.clone());
        self.distinct.update(hash);
        self.values.insert(hash, Entry { text, kind, count: 0, fresh: 1 });
        if self.values.len() > 8 * precision.values_max {
            self.settle();
            self.make_room(4 * precision.values_max);
        }
    }

    /// Counts what has occurred since the last time.
    fn settle(&mut self) {
        for entry in self.values.values_mut() {
            let times = std::mem::take(&mut entry.fresh);
            if times == 0 {
                continue;
            }
            entry.count += times;
            if let Some(number) = number(entry.kind) {
                let numbers = as_f64(self.kinds.integer + self.kinds.number);
                let (weight, delta) = (as_f64(times), number - self.mean);
                self.mean += delta * (weight / (numbers + weight));
                self.squares += delta * (number - self.mean) * weight;
                (0..times).for_each(|_| self.digest.update(number));
            }
            match entry.kind {
                Kind::Null => {}
                Kind::Integer(_) | Kind::LargeInteger(_) => self.kinds.integer += times,
                Kind::Number(_) => self.kinds.number += times,
                Kind::Boolean(_) => self.kinds.boolean += times,
                Kind::Date => self.kinds.date += times,
                Kind::DateTime => self.kinds.datetime += times,
                Kind::Text => self.kinds.string += times,
                Kind::BrokenText => {
                    self.kinds.string += times;
                    self.invalid_utf8 += times;
                }
                Kind::Nested => self.kinds.nested += times,
            }
        }
    }

    /// Keeps at most `values_max` values: the count of the most frequent one that does not fit is subtracted from all.
    fn make_room(&mut self, values_max: usize) {
        if self.values.len() <= values_max {
            return;
        }
        let mut counts: Vec<u64> = self.values.values().map(|entry| entry.count).collect();
        let (_, least, _) = counts.select_nth_unstable_by(values_max, |left, right| right.cmp(left));
        self.subtracted += *least;
        self.values.retain(|_, entry| {
            entry.count = entry.count.saturating_sub(*least);
            entry.count > 0
        });
    }

    /// Ends a chunk. If the column `is_complete`, the whole table is kept, otherwise what a step records.
    pub(super) fn end_chunk(&mut self, is_complete: bool) {
        self.settle();
        if !is_complete {
            self.make_room(Precision::for_columns(self.width).values_max);
        }
    }

    /// The number of different values.
    pub(super) fn distinct(&self) -> u64 {
        // This estimate does not depend on the order of the values.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "such a cast saturates")]
        let estimate = self.distinct.composite_estimate().round() as u64;
        let count = self.kinds.total();
        estimate.max(u64::from(count > 0)).min(count)
    }

    /// The relative standard error of [`Self::distinct`] once values are no longer counted one by one.
    pub(super) fn distinct_error(&self) -> f64 {
        1.04 / 2_f64.powi(i32::from(self.distinct.lg_config_k())).sqrt()
    }

    /// The arithmetic mean of the numbers.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.numbers.is_some() && self.mean.is_finite()).then_some(self.mean)
    }

    /// The sample standard deviation (divisor n - 1); `None` for fewer than two numbers.
    pub(super) fn standard_deviation(&self) -> Option<f64> {
        let numbers = self.kinds.integer + self.kinds.number;
        let deviation = (self.squares / as_f64(numbers.checked_sub(1).filter(|n| *n > 0)?)).sqrt();
        deviation.is_finite().then_some(deviation)
    }
}

fn widen<T: PartialOrd + Clone>(ends: &mut Option<(T, T)>, value: T) {
    match ends {
        None => *ends = Some((value.clone(), value)),
        Some((least, _)) if value < *least => *least = value,
        Some((_, most)) if value > *most => *most = value,
        Some(_) => {}
    }
}

/// The number of a value, if it is one.
#[expect(clippy::cast_precision_loss, reason = "statistics are calculated in doubles")]
pub(super) const fn number(kind: Kind) -> Option<f64> {
    match kind {
        Kind::Integer(value) => Some(value as f64),
        Kind::LargeInteger(value) | Kind::Number(value) => Some(value),
        _ => None,
    }
}

/// A count as a number; exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub(super) const fn as_f64(count: u64) -> f64 {
    count as f64
}

/// The longest start of `text` that has at most `bytes_max` bytes and ends between characters.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}

/// JSON has `null` for numbers that are not finite.
fn finite_or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

fn write_hll<S: Serializer>(sketch: &HllSketch, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&STANDARD_NO_PAD.encode(sketch.serialize()))
}

fn read_hll<'de, D: Deserializer<'de>>(from: D) -> Result<HllSketch, D::Error> {
    HllSketch::deserialize(&bytes(from)?).map_err(D::Error::custom)
}

fn write_digest<S: Serializer>(digest: &TDigestMut, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&STANDARD_NO_PAD.encode(digest.clone().serialize()))
}

fn read_digest<'de, D: Deserializer<'de>>(from: D) -> Result<TDigestMut, D::Error> {
    TDigestMut::deserialize(&bytes(from)?).map_err(D::Error::custom)
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    STANDARD_NO_PAD.decode(String::deserialize(from)?).map_err(D::Error::custom)
}
