//! How much memory one input may take.

use longhaul_core::limits::REQUEST_MEMORY_BYTES_MAX;
use peak_alloc::PeakAlloc;

/// Bytes that one input may allocate while it is read: twice the limit of a request, for the copies that a target makes
/// to compare them.
const BYTES_MAX: usize = 2 * REQUEST_MEMORY_BYTES_MAX;

/// Runs `work`, and panics if it takes too much. It can count only in a program whose global allocator is a
/// `PeakAlloc`.
pub(crate) fn bounded(work: impl FnOnce()) {
    let before = PeakAlloc.current_usage();
    PeakAlloc.reset_peak_usage();
    work();
    let taken = PeakAlloc.peak_usage().saturating_sub(before);
    assert!(taken <= BYTES_MAX, "the input took {taken} bytes of memory");
}
