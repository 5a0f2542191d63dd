//! The limits of a data set, each with its reason.

/// Bytes of input that one durable step covers. At 100 MB/s a kill costs a third of a second of work, and a file of
/// 2 GB has 64 steps.
pub(super) const CHUNK_BYTES: u64 = 32 * 1024 * 1024;

/// The longest record in bytes. A whole record has to be held in memory; a longer one is nearly always a quote that
/// was never closed.
pub const RECORD_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The maximum number of columns in a data set: with more, the recorded state of a step would grow past 3.5 MB.
pub const COLUMNS_MAX: usize = 2_000;

/// How much is stored for one column: few columns are described finely, many coarsely, so that the recorded state of a
/// step stays near 200 KB (400 columns and more: up to 3.5 MB).
pub(super) struct Precision {
    /// Binary logarithm of the HyperLogLog registers; the relative standard error is 1.04 / sqrt(2^this).
    pub(super) distinct_lg: u8,
    /// The t-digest's compression.
    pub(super) digest_k: u16,
    /// Different values that are recorded between two chunks. Within a chunk there is room for eight times as many.
    pub(super) values_max: usize,
    /// Bytes that are stored of a text; longer ones are cut.
    pub(super) text_bytes_max: usize,
}

impl Precision {
    /// The precision for a data set of so many columns.
    pub(super) const fn for_columns(columns: usize) -> Self {
        match columns {
            0..=12 => Self { distinct_lg: 13, digest_k: 200, values_max: 192, text_bytes_max: 100 },
            13..=48 => Self { distinct_lg: 11, digest_k: 100, values_max: 48, text_bytes_max: 100 },
            49..=200 => Self { distinct_lg: 9, digest_k: 40, values_max: 12, text_bytes_max: 48 },
            _ => Self { distinct_lg: 8, digest_k: 10, values_max: 6, text_bytes_max: 24 },
        }
    }
}
