//! `profile_dataset` as a whole, compared with exact calculation, however it is cut into steps.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use longhaul_app::tools::profile_dataset::{
    COLUMNS_MAX, ColumnProfile, ColumnType, DatasetProfile, HeaderRow, ProfileError, Progress, QuantileMethod,
    RECORD_BYTES_MAX, Reading, Scalar, profile_chunk,
};
use proptest::prelude::*;

fn reading(chunk_bytes: u64) -> Reading {
    Reading { null_values: vec!["NA".to_owned()], top_values: 5, chunk_bytes, ..Reading::default() }
}

/// Profiles in chunks, and returns how large the state between two of them is. It goes through JSON, as in a journal.
fn try_profile(source: &[u8], reading: &Reading) -> Result<(DatasetProfile, Vec<usize>), ProfileError> {
    let mut recorded = Vec::new();
    let (mut before, mut offset) = (None, 0);
    loop {
        let progress = profile_chunk(source.get(offset..).unwrap(), before.take(), reading)?;
        let json = serde_json::to_string(&progress).unwrap();
        match serde_json::from_str(&json).unwrap() {
            Progress::Done(profile) => return Ok((*profile, recorded)),
            Progress::More(state) => {
                recorded.push(json.len());
                offset = usize::try_from(state.offset).unwrap();
                before = Some(state);
            }
        }
    }
}

fn profile(source: impl AsRef<[u8]>) -> DatasetProfile {
    try_profile(source.as_ref(), &reading(u64::MAX)).unwrap().0
}

fn column<'a>(profile: &'a DatasetProfile, name: &str) -> &'a ColumnProfile {
    profile.columns.iter().find(|column| column.name == name).unwrap()
}

fn names(profile: &DatasetProfile) -> Vec<&str> {
    profile.columns.iter().map(|column| column.name.as_str()).collect()
}

fn ends(column: &ColumnProfile) -> (Scalar, Scalar) {
    (column.min.clone().unwrap(), column.max.clone().unwrap())
}

fn top(column: &ColumnProfile) -> Vec<(Scalar, u64)> {
    column.most_frequent.iter().map(|value| (value.value.clone(), value.count)).collect()
}

fn text(text: &str) -> Scalar {
    Scalar::Text(text.to_owned())
}

#[test]
fn a_small_table_is_described_exactly() {
    let profile = profile(
        "id;city;score;active;day;note\r\n\
         1;Rome;1.5;true;2024-01-02;\r\n\
         2;Oslo;2.5;false;2023-12-31;\"a; b\"\r\n\
         3;Rome;NA;true;2024-02-29;x\r\n\
         4;Rome;4;true;2024-01-01;NA\r\n",
    );
    assert_eq!((profile.rows, profile.ragged_rows, profile.delimiter.as_deref()), (4, 0, Some(";")));
    let id = column(&profile, "id");
    assert_eq!((id.column_type, id.count, id.nulls, id.distinct), (ColumnType::Integer, 4, 0, 4));
    assert_eq!(ends(id), (Scalar::Integer(1), Scalar::Integer(4)));
    let city = column(&profile, "city");
    assert_eq!((city.column_type, ends(city)), (ColumnType::String, (text("Oslo"), text("Rome"))));
    assert_eq!(top(city), [(text("Rome"), 3), (text("Oslo"), 1)]);
    assert_eq!((city.mean, city.quantiles.clone()), (None, None));
    let score = column(&profile, "score");
    assert_eq!((score.column_type, score.count, score.nulls), (ColumnType::Number, 3, 1));
    assert_eq!(ends(score), (Scalar::Number(1.5), Scalar::Number(4.0)));
    assert!((score.mean.unwrap() - 8.0 / 3.0).abs() < 1e-12);
    assert!((score.std_dev.unwrap() - 1.258_305_739_211_791_8).abs() < 1e-12);
    assert_eq!(score.quantiles.as_ref().map(|q| (q.method, q.p25, q.p50)), Some((QuantileMethod::Exact, 2.0, 2.5)));
    let active = column(&profile, "active");
    assert_eq!(active.column_type, ColumnType::Boolean);
    assert_eq!(top(active), [(Scalar::Boolean(true), 3), (Scalar::Boolean(false), 1)]);
    let day = column(&profile, "day");
    assert_eq!((day.column_type, ends(day)), (ColumnType::Date, (text("2023-12-31"), text("2024-02-29"))));
    let note = column(&profile, "note");
    assert_eq!((note.count, note.nulls), (2, 2));
    assert_eq!(top(note), [(text("a; b"), 1), (text("x"), 1)]);
}

#[test]
fn json_lines_keep_their_types_and_missing_keys_are_nulls() {
    let profile = profile(concat!(
        "{\"a\": 1, \"b\": \"x\", \"c\": [1]}\n",
        "{\"a\": \"1\", \"b\": null}\n",
        "not json\n\n[1]\n{\"a\":1\n{\"a\":1} x\n7\n",
        "{\"b\": \"\\u0078\", \"e\": \"\\ud800\", \"a\": 7, \"a\": 2.5, \"d\": \"2024-01-01T00:00:00Z\"}",
    ));
    assert_eq!((profile.rows, profile.malformed_lines), (3, 5));
    assert_eq!(names(&profile), ["a", "b", "c", "e", "d"]);
    let a = column(&profile, "a");
    assert_eq!((a.column_type, a.count, a.distinct), (ColumnType::Mixed, 3, 3));
    assert_eq!((a.value_types.integer, a.value_types.number, a.value_types.string), (1, 1, 1));
    let b = column(&profile, "b");
    assert_eq!((b.column_type, b.count, b.nulls, top(b)), (ColumnType::String, 2, 1, vec![(text("x"), 2)]));
    assert_eq!(column(&profile, "c").column_type, ColumnType::Nested);
    assert_eq!(top(column(&profile, "e")), [(text("\\ud800"), 1)]);
    let d = column(&profile, "d");
    assert_eq!((d.column_type, d.count, d.nulls), (ColumnType::Datetime, 1, 2));
}

#[test]
fn columns_have_names_that_differ() {
    assert_eq!(names(&profile("\u{feff}id, name ,,id,id_2\r\n")), ["id", "name", "column_3", "id_2", "id_2_2"]);
    let absent = Reading { header: HeaderRow::Absent, ..reading(1) };
    let (profile, _) = try_profile(b"5,6\n7,8\n", &absent).unwrap();
    assert_eq!((names(&profile), profile.rows), (vec!["column_1", "column_2"], 2));
}

#[test]
fn integers_keep_all_digits_and_larger_ones_are_rounded() {
    let all = profile("n\n9007199254740993\n-9223372036854775808\n");
    assert_eq!(ends(column(&all, "n")), (Scalar::Integer(i64::MIN), Scalar::Integer(9_007_199_254_740_993)));
    let larger = profile("n\n-5\n92233720368547758070\n");
    let n = column(&larger, "n");
    assert_eq!(
        (n.column_type, ends(n)),
        (ColumnType::Integer, (Scalar::Integer(-5), Scalar::Number(92_233_720_368_547_758_070.0)))
    );
}

#[test]
fn numbers_whose_statistics_are_not_finite_are_described_without_them() {
    let mut source = "n\n".to_owned();
    (0..5_000).for_each(|row| source += &format!("{}1.{row}e308\n", if row % 2 == 0 { "-" } else { "" }));
    let (profile, recorded) = try_profile(source.as_bytes(), &reading(10_000)).unwrap();
    let n = column(&profile, "n");
    assert!(recorded.len() > 2);
    assert_eq!((n.count, n.std_dev), (5_000, None));
}

#[test]
fn one_value_that_is_not_a_number_makes_a_csv_column_one_of_texts() {
    let profile = profile("code\n12\nA7\n9\n");
    let code = column(&profile, "code");
    assert_eq!((code.column_type, code.mean, code.value_types.integer), (ColumnType::String, None, 2));
    assert_eq!(ends(code), (text("12"), text("A7")));
    assert_eq!(top(code).first(), Some(&(text("12"), 1)));
}

#[test]
fn bytes_that_are_not_utf8_are_counted_and_replaced() {
    let csv = profile(b"a,b\nx\xFF,1\nx\xFF,2\ny,3\n");
    assert_eq!(csv.invalid_utf8, 2);
    assert_eq!(top(column(&csv, "a")).first(), Some(&(text("x\u{fffd}"), 2)));
    let json = profile(b"{\"a\":\"\xFF\"}\n");
    assert_eq!((json.invalid_utf8, json.rows), (1, 1));
}

#[test]
fn a_byte_order_mark_inside_of_a_source_belongs_to_its_field_wherever_a_chunk_begins() {
    let source = "id;note\r\n1;a\r\n\u{feff}2;\"b\"\r\n3;c\r\n";
    for chunk_bytes in [u64::MAX, 1, 8] {
        let (profile, _) = try_profile(source.as_bytes(), &reading(chunk_bytes)).unwrap();
        let id = column(&profile, "id");
        assert_eq!((id.column_type, id.max.clone()), (ColumnType::String, Some(text("\u{feff}2"))), "{chunk_bytes}");
    }
}

#[test]
fn an_empty_source_and_a_header_alone_have_profiles() {
    for empty in ["", "\n\r\n", "\u{feff}"] {
        assert_eq!((profile(empty).rows, profile(empty).columns.len()), (0, 0), "{empty:?}");
    }
    let header = profile("a,b\n");
    assert_eq!((header.rows, header.columns.len()), (0, 2));
    assert_eq!(column(&header, "a").column_type, ColumnType::Empty);
}

#[test]
fn ragged_records_are_counted_and_their_gaps_are_nulls() {
    let profile = profile("a,b\n1,2\n3\n\n4,5,6\n\"5\"\" pipe\",5\" pipe\n");
    assert_eq!((profile.rows, profile.ragged_rows), (4, 2));
    let b = column(&profile, "b");
    assert_eq!((b.count, b.nulls, b.max.clone()), (3, 1, Some(text("5\" pipe"))));
}

#[test]
fn a_giant_record_is_refused_and_a_large_one_is_not() {
    let max = usize::try_from(RECORD_BYTES_MAX).unwrap();
    for (start, offset) in [("a\n", 2), ("a\n1\n\"", 4), ("{}\n{\"a\": \"", 3)] {
        let giant = format!("{start}{}", "x\\".repeat(max / 2 + 1));
        let outcome = try_profile(giant.as_bytes(), &reading(u64::MAX));
        let at = format!("starts at byte {offset} ");
        assert!(matches!(&outcome, Err(ProfileError::Refused(why)) if why.contains(&at)), "{outcome:?}");
    }
    let mut large = format!("a\n{}\n", "x".repeat(max - 1));
    large += &"1\n".repeat(100_000);
    assert_eq!(profile(&large).rows, 100_001);
}

#[test]
fn as_many_columns_as_allowed_have_a_bounded_state_and_more_are_refused() {
    let header: Vec<String> = (0..COLUMNS_MAX).map(|i| format!("column{i}")).collect();
    let mut source = header.join(",") + "\n";
    for row in 0..60 {
        let cells: Vec<String> = (0..COLUMNS_MAX).map(|i| format!("{}.{row}", i * 7919 % 1000)).collect();
        source += &(cells.join(",") + "\n");
    }
    let (profile, recorded) = try_profile(source.as_bytes(), &reading(400_000)).unwrap();
    assert_eq!((profile.columns.len(), profile.rows), (COLUMNS_MAX, 60));
    assert!(!recorded.is_empty() && recorded.iter().all(|bytes| *bytes < 3_500_000), "{recorded:?}");

    let keys: Vec<String> = (0..=COLUMNS_MAX).map(|i| format!("\"k{i}\":1")).collect();
    for source in [",".repeat(COLUMNS_MAX), format!("{{{}}}", keys.join(","))] {
        let outcome = try_profile(source.as_bytes(), &reading(u64::MAX));
        assert!(matches!(outcome, Err(ProfileError::Refused(_))), "{outcome:?}");
    }
}

/// Twelve columns: unique numbers, some hundreds of strings, and numbers with a digit more or less.
fn varied(rows: u32) -> String {
    let header: Vec<String> = (0..12).map(|i| format!("c{i}")).collect();
    let mut source = header.join(",") + "\n";
    for row in 0..rows {
        let cells: Vec<String> = (0..12_u32)
            .map(|i| match i % 3 {
                0 => format!("{}", row.wrapping_mul(2_654_435_761 + i)),
                1 => format!("name {}", (row.wrapping_mul(40_503) >> 8) % (200 + i)),
                _ => format!("{}.{:03}", row % 977, row % 1000),
            })
            .collect();
        source += &(cells.join(",") + "\n");
    }
    source
}

#[test]
fn a_large_table_is_described_within_the_errors_by_states_of_less_than_256_kib() {
    let rows = 20_000;
    let (profile, recorded) = try_profile(varied(rows).as_bytes(), &reading(1_000_000)).unwrap();
    // A step that is run twice gives the same result twice.
    assert_eq!(try_profile(varied(rows).as_bytes(), &reading(1_000_000)).unwrap(), (profile.clone(), recorded.clone()));
    assert!(!recorded.is_empty() && recorded.iter().all(|bytes| *bytes < 256 * 1024), "{recorded:?}");
    let unique = column(&profile, "c0");
    let off = unique.distinct.abs_diff(u64::from(rows)) as f64 / f64::from(rows);
    assert!(off < 4.0 * unique.distinct_relative_error, "{off}");
    assert_eq!(unique.most_frequent, []);
    let mut numbers: Vec<u32> = (0..rows).map(|row| row.wrapping_mul(2_654_435_761)).collect();
    numbers.sort_unstable();
    let quantiles = unique.quantiles.as_ref().unwrap();
    assert_eq!(quantiles.method, QuantileMethod::Approximate);
    for (rank, value) in [(0.01, quantiles.p01), (0.25, quantiles.p25), (0.5, quantiles.p50), (0.95, quantiles.p95)] {
        let below = numbers.partition_point(|number| f64::from(*number) < value) as f64 / f64::from(rows);
        assert!((below - rank).abs() < 0.01, "{value} has the rank {below} and not {rank}");
    }
    let name = column(&profile, "c1");
    assert_eq!(name.distinct, 201);
}

#[test]
fn frequent_values_among_unique_ones_are_found_with_counts_within_the_error() {
    let mut source = "v\n".to_owned();
    (0..100_000)
        .for_each(|row| source += &if row % 10 < 2 { format!("often {}\n", row % 10) } else { format!("{row}\n") });
    for chunk_bytes in [u64::MAX, 100_000] {
        let (profile, _) = try_profile(source.as_bytes(), &reading(chunk_bytes)).unwrap();
        let v = column(&profile, "v");
        let listed: Vec<Scalar> = top(v).into_iter().map(|(value, _)| value).collect();
        assert_eq!(listed.len(), 2, "{listed:?}");
        assert!(listed.contains(&text("often 0")) && listed.contains(&text("often 1")), "{listed:?}");
        for (_, count) in top(v) {
            assert!((10_000..=10_000 + v.most_frequent_error_max).contains(&count), "{count}");
        }
        assert!((1..1_000).contains(&v.most_frequent_error_max), "{}", v.most_frequent_error_max);
    }
}

/// The profile of a column, calculated directly.
struct Exact {
    count: u64,
    numbers: Vec<f64>,
    counts: BTreeMap<String, u64>,
}

fn exact(values: &[String]) -> Exact {
    let present: Vec<&String> = values.iter().filter(|value| !value.trim().is_empty() && *value != "NA").collect();
    let mut counts = BTreeMap::new();
    for value in &present {
        *counts.entry((*value).clone()).or_default() += 1;
    }
    let numbers = present.iter().filter_map(|value| value.parse().ok()).collect();
    Exact { count: present.len() as u64, numbers, counts }
}

fn check(column: &ColumnProfile, values: &[String]) {
    let truth = exact(values);
    assert_eq!((column.count, column.nulls), (truth.count, values.len() as u64 - truth.count));
    assert_eq!(column.distinct, truth.counts.len() as u64);
    assert_eq!(column.most_frequent.first().map(|value| value.count), truth.counts.values().max().copied());
    for (value, count) in top(column) {
        let Scalar::Text(value) = value else { continue };
        assert_eq!(truth.counts.get(&value).copied(), Some(count));
    }
    let Some(mean) = column.mean else { return };
    let n = truth.numbers.len() as f64;
    let exact_mean = truth.numbers.iter().sum::<f64>() / n;
    assert!((mean - exact_mean).abs() < 1e-9);
    if let Some(deviation) = column.std_dev {
        let squares: f64 = truth.numbers.iter().map(|x| (x - exact_mean).powi(2)).sum();
        assert!((deviation - (squares / (n - 1.0)).sqrt()).abs() < 1e-9);
    }
    let least = match column.min.clone().unwrap() {
        Scalar::Integer(value) => value as f64,
        Scalar::Number(value) => value,
        Scalar::Boolean(_) | Scalar::Text(_) => f64::NAN,
    };
    assert!(truth.numbers.iter().all(|number| *number >= least) && truth.numbers.contains(&least));
}

fn quote(value: &str) -> String {
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_it_is_cut_the_profile_is_the_exact_one(
        numbers in prop::collection::vec(prop_oneof![
            3 => (-50_i32..50).prop_map(|n| n.to_string()),
            2 => (-1000.0_f64..1000.0).prop_map(|n| format!("{n:.2}")),
            1 => Just(String::new()),
            1 => Just("NA".to_owned()),
        ], 1..150),
        texts in prop::collection::vec("[ab,\"\n ]{0,6}", 1..20),
        chunk_bytes in 1_u64..3_000,
    ) {
        let texts: Vec<String> = numbers.iter().enumerate().map(|(i, _)| texts[i * 7 % texts.len()].clone()).collect();
        let rows = numbers.iter().zip(&texts).map(|(number, text)| format!("{number},{},end\n", quote(text)));
        let source = "number,text,last\n".to_owned() + &rows.collect::<String>();
        let (profile, _) = try_profile(source.as_bytes(), &reading(chunk_bytes)).unwrap();
        assert_eq!((profile.rows, profile.ragged_rows), (numbers.len() as u64, 0));
        assert_eq!(profile.bytes, source.len() as u64);
        check(column(&profile, "number"), &numbers);
        check(column(&profile, "text"), &texts);
    }
}
