//! `profile_dataset` as a whole, compared with exact calculation, however it is cut into steps.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::io::Cursor;

use longhaul_app::tools::profile_dataset::chunk::{Pace, Progress, Reading, Stop, first_chunk, next_chunk};
use longhaul_app::tools::profile_dataset::error::ProfileError;
use longhaul_app::tools::profile_dataset::limits::{COLUMNS_MAX, RECORD_BYTES_MAX};
use longhaul_app::tools::profile_dataset::quantiles::QuantileMethod;
use longhaul_app::tools::profile_dataset::report::{ColumnProfile, ColumnType, DatasetProfile, Scalar};
use longhaul_app::tools::profile_dataset::sniff::Hints;
use proptest::prelude::*;

fn reading(chunk_bytes: u64, block_bytes: usize) -> Reading {
    Reading {
        hints: Hints::default(),
        null_values: vec!["NA".to_owned()],
        top_values: 5,
        pace: Pace { chunk_bytes, block_bytes },
    }
}

/// Profiles in chunks; between two of them the state goes through JSON, as it does in a journal.
fn try_profile(source: &[u8], reading: &Reading) -> Result<(DatasetProfile, Vec<usize>), ProfileError> {
    let stop = Stop::default();
    let mut recorded = Vec::new();
    let mut progress = first_chunk(source, reading, &stop)?;
    loop {
        let json = serde_json::to_string(&progress).unwrap();
        assert_eq!(serde_json::from_str::<Progress>(&json).unwrap(), progress);
        match progress {
            Progress::Done(profile) => return Ok((*profile, recorded)),
            Progress::More(checkpoint) => {
                recorded.push(json.len());
                let mut rest = Cursor::new(source);
                rest.set_position(checkpoint.offset);
                progress = next_chunk(&checkpoint, rest, reading, &stop)?;
            }
        }
    }
}

fn profile(source: &str) -> DatasetProfile {
    try_profile(source.as_bytes(), &reading(u64::MAX, 4096)).unwrap().0
}

fn column<'a>(profile: &'a DatasetProfile, name: &str) -> &'a ColumnProfile {
    profile.columns.iter().find(|column| column.name == name).unwrap()
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
    assert_eq!((id.min.clone(), id.max.clone()), (Some(Scalar::Integer(1)), Some(Scalar::Integer(4))));
    let city = column(&profile, "city");
    assert_eq!(
        (city.column_type, city.min.clone(), city.max.clone()),
        (ColumnType::String, Some(text("Oslo")), Some(text("Rome")))
    );
    assert_eq!(top(city), [(text("Rome"), 3), (text("Oslo"), 1)]);
    assert_eq!((city.mean, city.quantiles.clone()), (None, None));
    let score = column(&profile, "score");
    assert_eq!((score.column_type, score.count, score.nulls), (ColumnType::Number, 3, 1));
    assert_eq!((score.min.clone(), score.max.clone()), (Some(Scalar::Number(1.5)), Some(Scalar::Number(4.0))));
    assert!((score.mean.unwrap() - 8.0 / 3.0).abs() < 1e-12);
    assert!((score.std_dev.unwrap() - 1.258_305_739_211_791_8).abs() < 1e-12);
    assert_eq!(score.quantiles.as_ref().map(|q| (q.method, q.p50)), Some((QuantileMethod::Exact, 2.5)));
    let active = column(&profile, "active");
    assert_eq!(
        (active.column_type, top(active)),
        (ColumnType::Boolean, vec![(Scalar::Boolean(true), 3), (Scalar::Boolean(false), 1)])
    );
    let day = column(&profile, "day");
    assert_eq!(
        (day.column_type, day.min.clone(), day.max.clone()),
        (ColumnType::Date, Some(text("2023-12-31")), Some(text("2024-02-29")))
    );
    let note = column(&profile, "note");
    assert_eq!((note.count, note.nulls), (2, 2));
    assert_eq!(top(note), [(text("a; b"), 1), (text("x"), 1)]);
}

#[test]
fn json_lines_keep_their_types_and_missing_keys_are_nulls() {
    let profile = profile(concat!(
        "{\"a\": 1, \"b\": \"x\", \"c\": [1]}\n",
        "{\"a\": \"1\", \"b\": null}\n",
        "not json\n",
        "{\"a\": 2.5, \"b\": \"\\u0078\", \"d\": \"2024-01-01T00:00:00Z\"}\n",
    ));
    assert_eq!((profile.rows, profile.malformed_lines), (3, 1));
    let a = column(&profile, "a");
    assert_eq!((a.column_type, a.count, a.distinct), (ColumnType::Mixed, 3, 3));
    assert_eq!((a.value_types.integer, a.value_types.number, a.value_types.string), (1, 1, 1));
    let b = column(&profile, "b");
    assert_eq!((b.column_type, b.count, b.nulls, top(b)), (ColumnType::String, 2, 1, vec![(text("x"), 2)]));
    assert_eq!(column(&profile, "c").column_type, ColumnType::Nested);
    let d = column(&profile, "d");
    assert_eq!((d.column_type, d.count, d.nulls), (ColumnType::Datetime, 1, 2));
}

#[test]
fn integers_beyond_the_precision_of_a_double_keep_all_digits() {
    let profile = profile("n\n9007199254740993\n-9223372036854775808\n");
    let n = column(&profile, "n");
    assert_eq!(n.max, Some(Scalar::Integer(9_007_199_254_740_993)));
    assert_eq!(n.min, Some(Scalar::Integer(i64::MIN)));
}

#[test]
fn one_value_that_is_not_a_number_makes_a_csv_column_one_of_texts() {
    let profile = profile("code\n12\nA7\n9\n");
    let code = column(&profile, "code");
    assert_eq!((code.column_type, code.mean, code.value_types.integer), (ColumnType::String, None, 2));
    assert_eq!((code.min.clone(), code.max.clone()), (Some(text("12")), Some(text("A7"))));
}

#[test]
fn bytes_that_are_not_utf8_are_counted_and_replaced() {
    let (profile, _) = try_profile(b"a,b\nx\xFF,1\nx\xFF,2\ny,3\n", &reading(u64::MAX, 4096)).unwrap();
    assert_eq!(profile.invalid_utf8, 2);
    assert_eq!(top(column(&profile, "a")).first(), Some(&(text("x\u{fffd}"), 2)));
    let (profile, _) = try_profile(b"{\"a\":\"\xFF\"}\n", &reading(u64::MAX, 4096)).unwrap();
    assert_eq!((profile.invalid_utf8, profile.rows), (1, 1));
}

/// Found by the fuzz target `data_sets`: where a block began with the mark and had a quote, the mark was dropped.
#[test]
fn a_byte_order_mark_inside_of_a_source_belongs_to_its_field_wherever_a_block_begins() {
    let source = "id;note\r\n1;a\r\n\u{feff}2;\"b\"\r\n3;c\r\n";
    for (chunk_bytes, block_bytes) in [(u64::MAX, 4096), (1, 16), (8, 16)] {
        let (profile, _) = try_profile(source.as_bytes(), &reading(chunk_bytes, block_bytes)).unwrap();
        let id = column(&profile, "id");
        assert_eq!((id.column_type, id.max.clone()), (ColumnType::String, Some(text("\u{feff}2"))), "{chunk_bytes}");
    }
}

#[test]
fn an_empty_source_and_a_header_alone_have_profiles() {
    assert_eq!((profile("").rows, profile("").columns.len()), (0, 0));
    let header = profile("a,b\n");
    assert_eq!((header.rows, header.columns.len()), (0, 2));
    assert_eq!(column(&header, "a").column_type, ColumnType::Empty);
}

#[test]
fn ragged_records_are_counted_and_their_gaps_are_nulls() {
    let profile = profile("a,b\n1,2\n3\n4,5,6\n");
    assert_eq!((profile.rows, profile.ragged_rows), (3, 2));
    assert_eq!((column(&profile, "b").count, column(&profile, "b").nulls), (2, 1));
}

#[test]
fn a_giant_record_is_refused_and_a_large_one_is_not() {
    let giant = format!("a\n{}", "x".repeat(RECORD_BYTES_MAX + 10));
    let outcome = try_profile(giant.as_bytes(), &reading(u64::MAX, 4096));
    assert!(matches!(outcome, Err(ProfileError::RecordTooLong { offset: 2, .. })), "{outcome:?}");
    let large = format!("a\n{}\n", "x".repeat(RECORD_BYTES_MAX - 10));
    assert_eq!(profile(&large).rows, 1);
}

#[test]
fn the_record_of_as_many_columns_as_allowed_is_bounded() {
    let names: Vec<String> = (0..COLUMNS_MAX).map(|i| format!("column{i}")).collect();
    let mut source = names.join(",") + "\n";
    for row in 0..60 {
        let cells: Vec<String> = (0..COLUMNS_MAX).map(|i| format!("{}.{row}", i * 7919 % 1000)).collect();
        source += &(cells.join(",") + "\n");
    }
    let (profile, recorded) = try_profile(source.as_bytes(), &reading(400_000, 65_536)).unwrap();
    assert_eq!((profile.columns.len(), profile.rows), (COLUMNS_MAX, 60));
    assert!(!recorded.is_empty() && recorded.iter().all(|bytes| *bytes < 3_000_000), "{recorded:?}");
}

#[test]
fn twelve_varied_columns_are_recorded_in_less_than_256_kib() {
    let names: Vec<String> = (0..12).map(|i| format!("c{i}")).collect();
    let mut source = names.join(",") + "\n";
    for row in 0_u32..40_000 {
        let cells: Vec<String> = (0..12_u32)
            .map(|i| match i % 3 {
                0 => format!("{}", row.wrapping_mul(2_654_435_761 + i)),
                1 => format!("name {}", (row.wrapping_mul(40_503) >> 8) % (200 + i)),
                _ => format!("{}.{:03}", row % 977, row % 1000),
            })
            .collect();
        source += &(cells.join(",") + "\n");
    }
    let (_, recorded) = try_profile(source.as_bytes(), &reading(1_000_000, 65_536)).unwrap();
    assert!(!recorded.is_empty() && recorded.iter().all(|bytes| *bytes < 256 * 1024), "{recorded:?}");
}

#[test]
fn a_chunk_run_twice_gives_the_same_result_twice() {
    let source: String = "a,b\n".to_owned() + &(0..5000).map(|i| format!("{i},{}\n", i % 7)).collect::<String>();
    let reading = reading(10_000, 1_000);
    let once = try_profile(source.as_bytes(), &reading).unwrap();
    assert_eq!(once, try_profile(source.as_bytes(), &reading).unwrap());
}

#[test]
fn a_stopped_chunk_ends() {
    let stop = Stop::default();
    stop.stop();
    let outcome = first_chunk("a\n1\n".as_bytes(), &reading(100, 10), &stop);
    assert!(matches!(outcome, Err(ProfileError::Stopped)));
}

/// The profile of a column of texts, calculated directly.
struct Exact {
    count: u64,
    numbers: Vec<f64>,
    counts: BTreeMap<String, u64>,
}

fn exact(values: &[String]) -> Exact {
    let present: Vec<&String> = values.iter().filter(|value| !value.is_empty() && *value != "NA").collect();
    let mut counts = BTreeMap::new();
    for value in &present {
        *counts.entry((*value).clone()).or_default() += 1;
    }
    let numbers = present.iter().filter_map(|value| value.parse().ok()).collect();
    Exact { count: present.len() as u64, numbers, counts }
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
        ], 1..300),
        texts in prop::collection::vec("[ab,\"\n ]{0,6}", 1..20),
        chunk_bytes in 1_u64..3_000,
        block_bytes in 1_usize..500,
    ) {
        let texts: Vec<String> = numbers.iter().enumerate().map(|(i, _)| texts[i * 7 % texts.len()].clone()).collect();
        let rows = numbers.iter().zip(&texts).map(|(number, text)| format!("{number},{},end\n", quote(text)));
        let source = "number,text,last\n".to_owned() + &rows.collect::<String>();
        let (profile, _) = try_profile(source.as_bytes(), &reading(chunk_bytes, block_bytes)).unwrap();
        prop_assert_eq!(profile.rows, numbers.len() as u64);
        prop_assert_eq!(profile.ragged_rows, 0);
        prop_assert_eq!(profile.bytes, source.len() as u64);

        let truth = exact(&numbers);
        let number = column(&profile, "number");
        prop_assert_eq!(number.count, truth.count);
        prop_assert_eq!(number.nulls, numbers.len() as u64 - truth.count);
        prop_assert_eq!(number.distinct, truth.counts.len() as u64);
        if !truth.numbers.is_empty() {
            let n = truth.numbers.len() as f64;
            let mean = truth.numbers.iter().sum::<f64>() / n;
            prop_assert!((number.mean.unwrap() - mean).abs() < 1e-9);
            if truth.numbers.len() > 1 {
                let squares: f64 = truth.numbers.iter().map(|x| (x - mean).powi(2)).sum();
                prop_assert!((number.std_dev.unwrap() - (squares / (n - 1.0)).sqrt()).abs() < 1e-9);
            }
            let least = truth.numbers.iter().copied().fold(f64::INFINITY, f64::min);
            let found = match number.min.clone().unwrap() {
                Scalar::Integer(value) => value as f64,
                Scalar::Number(value) => value,
                other => panic!("{other:?}"),
            };
            prop_assert!((found - least).abs() < 1e-12);
        }

        // A field of blanks only is a null, too.
        let texts: Vec<String> = texts.iter().filter(|text| !text.trim().is_empty()).cloned().collect();
        let truth = exact(&texts);
        let column = column(&profile, "text");
        prop_assert_eq!(column.count, truth.count);
        prop_assert_eq!(column.distinct, truth.counts.len() as u64);
        for (value, count) in top(column) {
            let Scalar::Text(value) = value else { panic!("{value:?}") };
            prop_assert_eq!(truth.counts.get(&value).copied(), Some(count));
        }
        let most = truth.counts.values().max().copied();
        prop_assert_eq!(column.most_frequent.first().map(|value| value.count), most);
    }
}
