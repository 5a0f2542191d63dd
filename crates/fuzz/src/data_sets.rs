//! Data sets in CSV and JSON Lines, as `profile_dataset` reads them. A source has the same profile for each way to cut
//! it into steps, and the record between two steps is read as it was written.
//!
//! The first byte of an input says how it is cut; the rest is the source.

use longhaul_app::tools::profile_dataset::{DatasetProfile, ProfileError, Progress, Reading, profile_chunk};

/// Steps of one source. Each reads at least one record.
const STEPS_MAX: usize = 100_000;

/// Profiles one source.
pub(crate) fn run(input: &[u8]) {
    let Some((cut, source)) = input.split_first() else { return };
    let whole = profile(source, u64::MAX);
    let parts = profile(source, 1 + u64::from(cut & 0x3f) * 7);
    match (whole, parts) {
        (Ok(whole), Ok(parts)) => {
            let counts = |profile: &DatasetProfile| (profile.rows, profile.ragged_rows, profile.malformed_lines);
            assert_eq!(counts(&whole), counts(&parts));
            assert_eq!(whole.columns.len(), parts.columns.len());
            for (one, other) in whole.columns.iter().zip(&parts.columns) {
                assert_eq!(
                    (&one.name, one.column_type, one.count, one.nulls),
                    (&other.name, other.column_type, other.count, other.nulls)
                );
                assert_eq!((&one.min, &one.max), (&other.min, &other.max));
            }
        }
        (Err(whole), Err(parts)) => assert_eq!(whole.to_string(), parts.to_string()),
        (whole, parts) => panic!("as a whole: {whole:?}; in parts: {parts:?}"),
    }
}

fn profile(source: &[u8], chunk_bytes: u64) -> Result<DatasetProfile, ProfileError> {
    let reading = Reading { null_values: vec!["NA".to_owned()], top_values: 5, chunk_bytes, ..Reading::default() };
    let (mut before, mut offset) = (None, 0);
    for _ in 0..STEPS_MAX {
        let rest = source.get(offset..).unwrap_or_default();
        let progress = profile_chunk(rest, before.take(), &reading)?;
        let recorded = serde_json::to_string(&progress).unwrap();
        match serde_json::from_str(&recorded).unwrap() {
            Progress::Done(profile) => return Ok(*profile),
            Progress::More(state) => {
                let next = usize::try_from(state.offset).unwrap();
                assert!(next > offset, "{recorded}");
                offset = next;
                before = Some(state);
            }
        }
    }
    panic!("{} bytes have no end", source.len())
}
