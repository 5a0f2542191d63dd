//! The bounds of `profile_dataset`, each with its reason.

/// Bytes of input that one durable step covers, by default. At 100 MB/s a kill costs a third of a second of work, and a
/// file of 2 GB has 64 steps.
pub const CHUNK_BYTES: u64 = 32 * 1024 * 1024;

/// Bytes of input that are analysed at a time. Small enough that the block, its spans and one column's table stay in
/// the second-level cache, large enough that passing it between threads costs nothing.
pub const BLOCK_BYTES: usize = 256 * 1024;

/// The longest record in bytes. A whole record has to be held in memory; a longer one is nearly always a quote that
/// was never closed.
pub const RECORD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes at the start of the source that are looked at to find format, delimiter and names. The header has to fit.
pub const HEAD_BYTES: usize = 1024 * 1024;

/// The maximum number of columns in a data set: with more, the recorded state of a step would grow past some 2 MB.
pub const COLUMNS_MAX: usize = 2_000;

/// The longest column name in bytes; longer ones are cut.
pub const NAME_BYTES_MAX: usize = 200;

/// The longest text in bytes that is stored of a value (minimum, maximum, frequent values); longer ones are cut.
pub const TEXT_BYTES_MAX: usize = 100;

/// Threads that analyse blocks. Fixed, so that the recorded state does not depend on the machine.
pub const LANES: usize = 2;

/// Blocks that wait for one lane: enough to hide the reader's pauses.
pub const BLOCKS_WAITING_MAX: usize = 2;

/// How many of the most frequent values are reported unless the caller asks for another number.
pub const TOP_VALUES: u8 = 10;

/// The maximum number of values that a caller may ask for.
pub const TOP_VALUES_MAX: u8 = 50;

/// The maximum number of texts that a caller may declare to mean "no value".
pub const NULL_VALUES_MAX: usize = 32;

/// The largest inline text in bytes: arguments are stored with the task, up to 4 MiB in all.
pub const INLINE_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The largest source behind a URL in bytes.
pub const URL_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Redirects that are followed, each checked like the first address.
pub const REDIRECTS_MAX: usize = 5;

/// The longest URL in bytes.
pub const URL_LENGTH_MAX: usize = 2_048;

/// The longest time in seconds to open a connection.
pub const CONNECT_S: u64 = 10;

/// The longest silence in seconds of a server that is sending.
pub const READ_IDLE_S: u64 = 30;

/// The longest time in seconds for the part of a source that one step reads.
pub const REQUEST_S: u64 = 600;

/// How much is stored for one column: few columns are described finely, many coarsely, so that the recorded state of a
/// step stays near 200 KB (400 columns and more: up to some 2 MB). While a chunk is counted there is more room than in
/// the record, so a source of one chunk is described more exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precision {
    /// Binary logarithm of the HyperLogLog registers; the relative standard error is 1.04 / sqrt(2^this).
    pub distinct_lg: u8,
    /// The t-digest's compression.
    pub digest_k: u16,
    /// Different numbers up to which quantiles are exact within a chunk.
    pub exact_numbers_max: usize,
    /// Different numbers that are recorded one by one.
    pub exact_numbers_recorded_max: usize,
    /// Table size of the frequent-items sketch, a power of two; three quarters of it are counted exactly.
    pub frequent_slots: usize,
    /// Frequent values that are recorded.
    pub frequent_recorded_max: usize,
    /// Bytes stored of a text.
    pub text_bytes_max: usize,
}

impl Precision {
    /// The precision for a data set of so many columns.
    #[must_use]
    pub const fn for_columns(columns: usize) -> Self {
        match columns {
            0..=12 => Self {
                distinct_lg: 13,
                digest_k: 200,
                exact_numbers_max: 2048,
                exact_numbers_recorded_max: 256,
                frequent_slots: 2048,
                frequent_recorded_max: 192,
                text_bytes_max: TEXT_BYTES_MAX,
            },
            13..=48 => Self {
                distinct_lg: 11,
                digest_k: 100,
                exact_numbers_max: 512,
                exact_numbers_recorded_max: 64,
                frequent_slots: 512,
                frequent_recorded_max: 48,
                text_bytes_max: TEXT_BYTES_MAX,
            },
            49..=200 => Self {
                distinct_lg: 9,
                digest_k: 40,
                exact_numbers_max: 64,
                exact_numbers_recorded_max: 16,
                frequent_slots: 64,
                frequent_recorded_max: 12,
                text_bytes_max: 48,
            },
            _ => Self {
                distinct_lg: 8,
                digest_k: 15,
                exact_numbers_max: 16,
                exact_numbers_recorded_max: 8,
                frequent_slots: 32,
                frequent_recorded_max: 8,
                text_bytes_max: 24,
            },
        }
    }

    /// The relative standard error of the distinct count once it is no longer counted one by one.
    #[must_use]
    pub fn distinct_error(self) -> f64 {
        1.04 / f64::from(1_u32 << self.distinct_lg.min(31)).sqrt()
    }
}
