//! Runs one target with libFuzzer: `LONGHAUL_FUZZ_TARGET` names it. `scripts/fuzz.sh` builds and starts this.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use longhaul_fuzz::Target;

#[global_allocator]
static COUNTING: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("LONGHAUL_FUZZ_TARGET").unwrap_or_default();
    longhaul_fuzz::target(&name)
});

fuzz_target!(|input: &[u8]| longhaul_fuzz::run(*TARGET, input));
