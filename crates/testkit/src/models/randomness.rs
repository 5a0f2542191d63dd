//! Randomness from a seed: small, quick, and the same on every machine.

/// A stream of numbers. Two streams of different names share nothing, so that what one actor draws does not change
/// what another one draws.
#[derive(Clone, Debug)]
pub struct Randomness(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Randomness {
    /// The stream `name` of `seed`.
    pub const fn stream(seed: u64, name: u64) -> Self {
        Self(mix(mix(seed.wrapping_add(STEP)) ^ name.wrapping_mul(0xd6e8_feb8_6659_fd93)))
    }

    /// The next number (SplitMix64).
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// A number from `first` to `last`.
    pub const fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True in `per_mille` of 1,000 cases.
    pub const fn happens(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1_000) < per_mille
    }

    /// One of `choices`.
    pub const fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Mixes the bits of `number`, so that neighbouring numbers give unrelated results.
pub const fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
