//! Data sets in CSV and JSON Lines, as `profile_dataset` reads them: however a source is cut into steps and blocks, it has
//! the same profile, and what is recorded between two steps is read as it was written.
//!
//! The first byte of an input says how it is cut; the rest is the source.

use std::io::Cursor;

use longhaul_app::tools::profile_dataset::chunk::{Pace, Progress, Reading, Stop, first_chunk, next_chunk};
use longhaul_app::tools::profile_dataset::error::ProfileError;
use longhaul_app::tools::profile_dataset::report::DatasetProfile;
use longhaul_app::tools::profile_dataset::sniff::Hints;

/// Steps of one source. Each reads at least one record.
const STEPS_MAX: usize = 100_000;

/// Profiles one source.
pub(crate) fn run(input: &[u8]) {
    let Some((cut, source)) = input.split_first() else { return };
    let whole = profile(source, u64::MAX, 4096);
    let (chunk_bytes, block_bytes) = (1 + u64::from(cut & 0x0f) * 7, 16 << (cut >> 4 & 0x07));
    let parts = profile(source, chunk_bytes, block_bytes);
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

fn profile(source: &[u8], chunk_bytes: u64, block_bytes: usize) -> Result<DatasetProfile, ProfileError> {
    let reading = Reading {
        hints: Hints::default(),
        null_values: vec!["NA".to_owned()],
        top_values: 5,
        pace: Pace { chunk_bytes, block_bytes },
    };
    let stop = Stop::default();
    let mut progress = first_chunk(source, &reading, &stop)?;
    for _ in 0..STEPS_MAX {
        let recorded = serde_json::to_string(&progress).unwrap();
        assert_eq!(serde_json::from_str::<Progress>(&recorded).unwrap(), progress, "{recorded}");
        match progress {
            Progress::Done(profile) => return Ok(*profile),
            Progress::More(checkpoint) => {
                let mut rest = Cursor::new(source);
                rest.set_position(checkpoint.offset);
                progress = next_chunk(&checkpoint, rest, &reading, &stop)?;
            }
        }
    }
    panic!("{} bytes have no end", source.len())
}
