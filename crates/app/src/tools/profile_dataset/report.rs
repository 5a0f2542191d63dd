//! The result of `profile_dataset`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checkpoint::State;
use super::column::{Column, KindCounts};
use super::frequent::FrequentText;
use super::lane::Tally;
use super::quantiles::QuantileMethod;
use super::sniff::Format;
use super::value::{Kind, Syntax, text_of};

/// The ranks of the reported quantiles.
const RANKS: [f64; 7] = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

/// A profile of a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetProfile {
    /// `csv` or `json_lines`.
    pub format: ReportedFormat,
    /// The character that separates CSV fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<String>,
    /// Bytes read.
    pub bytes: u64,
    /// Records, without the header.
    pub rows: u64,
    /// CSV records with more or fewer fields than there are columns. Missing fields count as nulls; fields beyond the
    /// last column are left out.
    pub ragged_rows: u64,
    /// Lines that are not a JSON object; they are not counted as rows.
    pub malformed_lines: u64,
    /// Values (JSON Lines: lines) with bytes that are not UTF-8, shown with a replacement character.
    pub invalid_utf8: u64,
    /// The columns in the order of the source.
    pub columns: Vec<ColumnProfile>,
}

/// How the source was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportedFormat {
    /// Separated fields.
    Csv,
    /// One JSON object per line.
    JsonLines,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// Only nulls.
    Empty,
    /// Only integers.
    Integer,
    /// Numbers, not all of them integers.
    Number,
    /// Only `true` and `false`.
    Boolean,
    /// Only ISO 8601 days.
    Date,
    /// ISO 8601 days, some or all with a time.
    Datetime,
    /// Texts. A CSV column has this type as soon as one of its values can be nothing else.
    String,
    /// JSON arrays and objects.
    Nested,
    /// Several of these; `value_types` says how many of each.
    Mixed,
}

/// A profile of one column. The sum of `count` and `nulls` is the number of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColumnProfile {
    /// The name in the header, or the key.
    pub name: String,
    /// What the column holds.
    #[serde(rename = "type")]
    pub column_type: ColumnType,
    /// Values that are not null.
    pub count: u64,
    /// Rows without a value.
    pub nulls: u64,
    /// Different values, as they are written; exact up to some hundred (fewer with very many columns).
    pub distinct: u64,
    /// The relative standard error of `distinct` if that is large.
    pub distinct_relative_error: f64,
    /// The smallest number, or for dates and strings the first text by code points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Scalar>,
    /// The largest number, or for dates and strings the last text by code points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Scalar>,
    /// The arithmetic mean of the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// The sample standard deviation (n - 1) of the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub std_dev: Option<f64>,
    /// Quantiles of the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<QuantileValues>,
    /// The most frequent values, most frequent first; only values that are certain to be among them.
    pub most_frequent: Vec<FrequentValue>,
    /// By how much the counts in `most_frequent` may be too high; 0 if they are exact.
    pub most_frequent_error_max: u64,
    /// How many values of each kind.
    pub value_types: KindCounts,
}

/// A value in its own type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// An integer of at most 64 bits.
    Integer(i64),
    /// A number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// A text; long ones are cut.
    Text(String),
}

/// The values below which a given share of the numbers lies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuantileValues {
    /// How they were found.
    pub method: QuantileMethod,
    /// 1 %.
    pub p01: f64,
    /// 5 %.
    pub p05: f64,
    /// 25 %.
    pub p25: f64,
    /// The median.
    pub p50: f64,
    /// 75 %.
    pub p75: f64,
    /// 95 %.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
}

/// A value and how often it occurs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrequentValue {
    /// The value.
    pub value: Scalar,
    /// How often it occurs at most; at least this minus `most_frequent_error_max`.
    pub count: u64,
}

impl DatasetProfile {
    /// The profile of what was counted, with at most `top_values` frequent values per column.
    #[must_use]
    pub fn of(state: State, top_values: usize) -> Self {
        let (format, delimiter) = match state.format {
            Format::Csv { delimiter } => (ReportedFormat::Csv, Some(char::from(delimiter).to_string())),
            Format::JsonLines => (ReportedFormat::JsonLines, None),
        };
        let syntax = match format {
            ReportedFormat::Csv => Syntax::Csv { null_values: Vec::new() },
            ReportedFormat::JsonLines => Syntax::Json,
        };
        let Tally { rows, ragged, malformed, invalid_lines, columns } = state.tally;
        Self {
            format,
            delimiter,
            bytes: state.offset,
            rows,
            ragged_rows: ragged,
            malformed_lines: malformed,
            invalid_utf8: invalid_lines + columns.iter().map(|column| column.invalid_utf8).sum::<u64>(),
            columns: columns.into_iter().map(|column| ColumnProfile::of(column, rows, &syntax, top_values)).collect(),
        }
    }
}

impl ColumnProfile {
    fn of(mut column: Column, rows: u64, syntax: &Syntax, top_values: usize) -> Self {
        let count = column.kinds.total();
        let column_type = column_type(&column.kinds, syntax);
        let (min, max) = ends(&column, column_type);
        // Numbers among texts, such as some values in a column of product codes, mean nothing together.
        let is_numeric = matches!(column_type, ColumnType::Integer | ColumnType::Number | ColumnType::Mixed);
        let top = column.frequent.top(top_values);
        Self {
            column_type,
            count,
            nulls: rows.saturating_sub(count),
            distinct: column.distinct.estimate(count),
            distinct_relative_error: column.precision().distinct_error(),
            min,
            max,
            mean: column.moments.mean().filter(|_| is_numeric),
            std_dev: column.moments.standard_deviation().filter(|_| is_numeric),
            quantiles: if is_numeric { quantiles(&mut column) } else { None },
            most_frequent: top.iter().map(|value| frequent(value, column_type, syntax)).collect(),
            most_frequent_error_max: column.frequent.error_max(),
            value_types: column.kinds,
            name: column.name,
        }
    }
}

fn column_type(kinds: &KindCounts, syntax: &Syntax) -> ColumnType {
    let total = kinds.total();
    let is_csv = matches!(syntax, Syntax::Csv { .. });
    let of = [
        (0, ColumnType::Empty),
        (kinds.integer, ColumnType::Integer),
        (kinds.integer + kinds.number, ColumnType::Number),
        (kinds.boolean, ColumnType::Boolean),
        (kinds.date, ColumnType::Date),
        (kinds.date + kinds.datetime, ColumnType::Datetime),
        (kinds.string + kinds.date + kinds.datetime, ColumnType::String),
        (kinds.nested, ColumnType::Nested),
    ];
    match of.iter().find(|(part, _)| *part == total) {
        Some((_, column_type)) => *column_type,
        None if is_csv && kinds.string > 0 => ColumnType::String,
        None => ColumnType::Mixed,
    }
}

fn ends(column: &Column, column_type: ColumnType) -> (Option<Scalar>, Option<Scalar>) {
    match column_type {
        ColumnType::Integer | ColumnType::Number => number_ends(column, column_type),
        ColumnType::Date | ColumnType::Datetime | ColumnType::String => match column.texts.get() {
            Some((least, most)) => (Some(text(least)), Some(text(most))),
            None => (None, None),
        },
        ColumnType::Empty | ColumnType::Boolean | ColumnType::Nested | ColumnType::Mixed => (None, None),
    }
}

fn number_ends(column: &Column, column_type: ColumnType) -> (Option<Scalar>, Option<Scalar>) {
    #[expect(clippy::cast_precision_loss, reason = "the column's numbers are doubles")]
    let as_doubles = column.bounds.integers.map(|(least, most)| (least as f64, most as f64));
    let scalar = |integer: Option<i64>, number: f64| match integer {
        Some(integer) if column_type == ColumnType::Integer => Scalar::Integer(integer),
        Some(_) | None => Scalar::Number(number),
    };
    let integers = column.bounds.integers;
    match (as_doubles, column.bounds.numbers) {
        (None, None) => (None, None),
        (Some((least, most)), None) => {
            (Some(scalar(integers.map(|ends| ends.0), least)), Some(scalar(integers.map(|ends| ends.1), most)))
        }
        (None, Some((least, most))) => (Some(scalar(None, least)), Some(scalar(None, most))),
        (Some(whole), Some((least, most))) => (
            Some(scalar(integers.map(|ends| ends.0).filter(|_| whole.0 <= least), whole.0.min(least))),
            Some(scalar(integers.map(|ends| ends.1).filter(|_| whole.1 >= most), whole.1.max(most))),
        ),
    }
}

fn quantiles(column: &mut Column) -> Option<QuantileValues> {
    let (values, method) = column.quantiles.at(&RANKS)?;
    let [p01, p05, p25, p50, p75, p95, p99] = values.try_into().ok()?;
    Some(QuantileValues { method, p01, p05, p25, p50, p75, p95, p99 })
}

fn frequent(value: &FrequentText, column_type: ColumnType, syntax: &Syntax) -> FrequentValue {
    let token = value.text.as_ref();
    let kind = match column_type {
        // In a column of texts each value is a text, even if it looks like a number.
        ColumnType::String | ColumnType::Date | ColumnType::Datetime => Kind::Text,
        ColumnType::Empty
        | ColumnType::Integer
        | ColumnType::Number
        | ColumnType::Boolean
        | ColumnType::Nested
        | ColumnType::Mixed => syntax.kind(token),
    };
    let scalar = match kind {
        Kind::Integer(value) => Scalar::Integer(value),
        Kind::LargeInteger(value) | Kind::Number(value) => Scalar::Number(value),
        Kind::Boolean => Scalar::Boolean(matches!(token.trim_ascii().first(), Some(b't' | b'T'))),
        Kind::Null | Kind::Date | Kind::DateTime | Kind::Text | Kind::Nested => text(text_of(syntax, token)),
    };
    FrequentValue { value: scalar, count: value.count }
}

fn text(bytes: &[u8]) -> Scalar {
    // A text that was cut within a character would end in a replacement character that is not in the data.
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()).unwrap_or(bytes),
        Ok(_) | Err(_) => bytes,
    };
    Scalar::Text(String::from_utf8_lossy(whole).into_owned())
}
