//! The result of `profile_dataset`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::column::{Column, Entry, KindCounts, as_f64, number};
use super::state::State;
use super::value::Kind;

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

/// The kind of a column's values.
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
    /// Strings. A CSV column has this type as soon as one of its values can be nothing else.
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
    /// The kind of the column's values.
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
    Number(#[serde(deserialize_with = "any_spelling")] f64),
    /// True or false.
    Boolean(bool),
    /// A text; long ones are cut.
    Text(String),
}

/// Reads a number even if `serde_json` keeps all digits, which another crate of the program may have decided.
fn any_spelling<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    number.as_f64().ok_or_else(|| serde::de::Error::custom("the number is too large"))
}

/// How quantiles were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuantileMethod {
    /// From all values, linear between neighbours.
    Exact,
    /// From a t-digest; the rank is off by at most about one percent, less at both ends.
    Approximate,
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
    /// The profile of the counted rows, with at most `top_values` frequent values per column.
    pub(super) fn of(state: State, top_values: usize) -> Self {
        let invalid_columns: u64 = state.columns.values().map(|column| column.invalid_utf8).sum();
        let format = if state.delimiter.is_some() { ReportedFormat::Csv } else { ReportedFormat::JsonLines };
        let columns = state.columns.into_iter();
        Self {
            format,
            delimiter: state.delimiter.map(|delimiter| char::from(delimiter).to_string()),
            bytes: state.offset,
            rows: state.rows,
            ragged_rows: state.ragged,
            malformed_lines: state.malformed,
            invalid_utf8: state.invalid_lines + invalid_columns,
            columns: columns
                .map(|(name, column)| ColumnProfile::of(name, column, state.rows, format, top_values))
                .collect(),
        }
    }
}

impl ColumnProfile {
    fn of(name: String, mut column: Column, rows: u64, format: ReportedFormat, top_values: usize) -> Self {
        let count = column.kinds.total();
        let column_type = column_type(&column.kinds, format);
        let (min, max) = ends(&column, column_type).unzip();
        // Numbers among strings, such as some values in a column of product codes, mean nothing together.
        let is_numeric = matches!(column_type, ColumnType::Integer | ColumnType::Number | ColumnType::Mixed);
        Self {
            name,
            column_type,
            count,
            nulls: rows.saturating_sub(count),
            distinct: column.distinct(),
            distinct_relative_error: column.distinct_error(),
            min,
            max,
            mean: column.mean().filter(|_| is_numeric),
            std_dev: column.standard_deviation().filter(|_| is_numeric),
            quantiles: if is_numeric { quantiles(&mut column) } else { None },
            most_frequent: most_frequent(&column, column_type, top_values),
            most_frequent_error_max: column.subtracted,
            value_types: column.kinds,
        }
    }
}

fn column_type(kinds: &KindCounts, format: ReportedFormat) -> ColumnType {
    let total = kinds.total();
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
        None if format == ReportedFormat::Csv && kinds.string > 0 => ColumnType::String,
        None => ColumnType::Mixed,
    }
}

fn ends(column: &Column, column_type: ColumnType) -> Option<(Scalar, Scalar)> {
    // The integer with all its digits, unless a larger one, which has none left, is further out.
    let end = |whole: Option<i64>, end: f64| match whole {
        Some(whole) if column_type == ColumnType::Integer && number(Kind::Integer(whole)) == Some(end) => {
            Scalar::Integer(whole)
        }
        Some(_) | None => Scalar::Number(end),
    };
    match column_type {
        ColumnType::Integer | ColumnType::Number => {
            let ((least, most), (whole_least, whole_most)) = (column.numbers?, column.integers.unzip());
            Some((end(whole_least, least), end(whole_most, most)))
        }
        ColumnType::Date | ColumnType::Datetime | ColumnType::String => {
            let (first, last) = column.texts.clone()?;
            Some((Scalar::Text(first), Scalar::Text(last)))
        }
        ColumnType::Empty | ColumnType::Boolean | ColumnType::Nested | ColumnType::Mixed => None,
    }
}

fn quantiles(column: &mut Column) -> Option<QuantileValues> {
    let (method, values) = if column.subtracted == 0 {
        (QuantileMethod::Exact, exact_quantiles(column)?)
    } else {
        (QuantileMethod::Approximate, column.digest.quantiles(&RANKS).ok().flatten()?)
    };
    let values = Some(values).filter(|values| values.iter().all(|value| value.is_finite()))?;
    let [p01, p05, p25, p50, p75, p95, p99] = values.try_into().ok()?;
    Some(QuantileValues { method, p01, p05, p25, p50, p75, p95, p99 })
}

/// From the table of values, if it has all of them: linear interpolation between the two neighbours of the rank, as
/// most statistics packages do.
fn exact_quantiles(column: &Column) -> Option<Vec<f64>> {
    let entries = column.values.values();
    let mut numbers: Vec<_> = entries.filter_map(|entry| Some((number(entry.kind)?, entry.count))).collect();
    numbers.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
    let mut total = 0;
    for (_, count) in &mut numbers {
        total += *count;
        *count = total;
    }
    let last = as_f64(total.checked_sub(1)?);
    let at = |position: f64| Some(numbers.get(numbers.partition_point(|(_, to)| as_f64(*to) <= position))?.0);
    let values = RANKS.iter().map(|rank| {
        let (position, part) = (last * rank, (last * rank).fract());
        Some(at(position.floor())? * (1.0 - part) + at(position.ceil())? * part)
    });
    values.collect()
}

/// Most frequent first, and equal ones by their text. A value is listed only if it is certain to be more frequent than
/// every value that is not in the table.
fn most_frequent(column: &Column, column_type: ColumnType, top_values: usize) -> Vec<FrequentValue> {
    let certain = column.values.values().filter(|entry| entry.count > column.subtracted);
    let mut entries: Vec<&Entry> = certain.collect();
    entries.sort_unstable_by(|left, right| right.count.cmp(&left.count).then_with(|| left.text.cmp(&right.text)));
    entries.truncate(top_values);
    let listed = entries.into_iter();
    listed
        .map(|entry| FrequentValue { value: scalar(entry, column_type), count: entry.count + column.subtracted })
        .collect()
}

fn scalar(entry: &Entry, column_type: ColumnType) -> Scalar {
    // In a column of strings each value is a string, even if it looks like a number.
    let is_text = matches!(column_type, ColumnType::String | ColumnType::Date | ColumnType::Datetime);
    match entry.kind {
        Kind::Integer(value) if !is_text => Scalar::Integer(value),
        Kind::LargeInteger(value) | Kind::Number(value) if !is_text => Scalar::Number(value),
        Kind::Boolean(value) if !is_text => Scalar::Boolean(value),
        _ => Scalar::Text(entry.text.clone()),
    }
}
