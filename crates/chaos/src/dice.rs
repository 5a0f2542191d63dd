//! Random numbers that follow from a seed alone.

/// A sequence of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The sequence of this seed, apart from those of other purposes.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut dice = Self(seed ^ purpose.wrapping_mul(0xA076_1D64_78BD_642F));
        dice.next();
        dice
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// At least `from`, and at most `to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }

    /// One of `many`, which is not 0.
    pub(crate) fn index(&mut self, many: usize) -> usize {
        usize::try_from(self.between(0, many as u64 - 1)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn a_seed_repeats_itself_and_purposes_differ() {
        let rolled = |seed, purpose| {
            let mut dice = Dice::new(seed, purpose);
            [(); 4].map(|()| dice.between(1, 1_000_000))
        };
        assert_eq!(rolled(7, 1), rolled(7, 1));
        assert_ne!(rolled(7, 1), rolled(7, 2));
        assert_ne!(rolled(7, 1), rolled(8, 1));
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut dice = Dice::new(1, 1);
        let all: Vec<u64> = (0..1_000).map(|_| dice.between(3, 5)).collect();
        assert!(all.iter().all(|number| (3..=5).contains(number)));
        assert!([3, 4, 5].iter().all(|number| all.contains(number)));
    }
}
