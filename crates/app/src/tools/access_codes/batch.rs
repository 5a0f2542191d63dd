//! The codes of a batch, derived from its seed.

use std::collections::HashSet;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::alphabet::{check_value, symbol};
use super::order::{BatchOrder, OrderError};

/// The media type of the embedded resource.
pub const CSV_MEDIA_TYPE: &str = "text/csv";

/// The seed of a batch. Recorded once, before the first code; anyone who knows it knows the codes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchSeed([u8; 32]);

impl std::fmt::Debug for BatchSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BatchSeed(secret)")
    }
}

impl BatchSeed {
    /// From 256 bits of the operating system's randomness.
    #[must_use]
    pub const fn new(bits: [u8; 32]) -> Self {
        Self(bits)
    }
}

/// The result of `bulk_generate_access_codes`; the codes come with it as an embedded CSV resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BatchAnswer {
    /// How many codes were generated.
    pub count: u32,
    /// Identifies the batch; reveals nothing about its codes.
    pub batch_id: String,
}

/// The codes that follow from `order` and `seed`: always the same ones, all different, in no particular order.
pub fn codes(order: &BatchOrder, seed: &BatchSeed) -> Result<Vec<String>, OrderError> {
    order.check()?;
    let mut rng = ChaCha20Rng::from_seed(seed.0);
    let count = order.count as usize;
    let mut seen = HashSet::with_capacity(count);
    let mut codes = Vec::with_capacity(count);
    // The order leaves at least a thousand possible codes for each requested one, so duplicates are so rare that
    // this bound is never reached.
    for _ in 0..count.saturating_mul(2).saturating_add(1_000) {
        if codes.len() == count {
            break;
        }
        let code = code(order, &mut rng);
        if seen.insert(code.clone()) {
            codes.push(code);
        }
    }
    Ok(codes)
}

fn code(order: &BatchOrder, rng: &mut ChaCha20Rng) -> String {
    let mut values: Vec<u32> = (0..order.length).map(|_| draw(rng)).collect();
    values.push(check_value(&values));
    let mut code = order.prefix.clone();
    code.extend(values.into_iter().filter_map(symbol));
    code
}

/// A number below 31, each equally likely: five bits, drawn again if they are 31.
fn draw(rng: &mut ChaCha20Rng) -> u32 {
    loop {
        let bits = rng.next_u32() >> 27;
        if bits < 31 {
            return bits;
        }
    }
}

/// The codes as CSV with the header `code`.
#[must_use]
pub fn csv(codes: &[String]) -> String {
    // Codes contain no character that CSV would have to quote.
    let mut csv = String::from("code\n");
    for code in codes {
        csv.push_str(code);
        csv.push('\n');
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::super::alphabet::is_valid;
    use super::*;

    fn order(count: u32, length: u8) -> BatchOrder {
        BatchOrder { count, prefix: "VIP-".to_owned(), length }
    }

    #[test]
    fn the_same_seed_gives_the_same_codes_and_another_seed_others() {
        let order = order(100, 12);
        let first = codes(&order, &BatchSeed::new([7; 32])).unwrap();
        assert_eq!(first, codes(&order, &BatchSeed::new([7; 32])).unwrap());
        let other = codes(&order, &BatchSeed::new([8; 32])).unwrap();
        assert!(first.iter().all(|code| !other.contains(code)));
    }

    #[test]
    fn the_largest_batch_is_unique_and_every_code_is_valid() {
        let codes = codes(&order(100_000, 6), &BatchSeed::new([1; 32])).unwrap();
        assert_eq!(codes.len(), 100_000);
        assert_eq!(codes.iter().collect::<HashSet<_>>().len(), 100_000);
        for code in &codes {
            let body = code.strip_prefix("VIP-").unwrap();
            assert!(body.len() == 7 && is_valid(body), "{code}");
        }
    }

    #[test]
    fn a_dense_batch_is_still_complete() {
        // As many codes as four characters allow: some are drawn twice.
        assert_eq!(codes(&order(923, 4), &BatchSeed::new([3; 32])).unwrap().len(), 923);
    }

    #[test]
    fn every_character_is_equally_likely() {
        let codes = codes(&order(20_000, 12), &BatchSeed::new([5; 32])).unwrap();
        let mut counts = std::collections::BTreeMap::<char, f64>::new();
        for code in &codes {
            for symbol in code[4..16].chars() {
                *counts.entry(symbol).or_default() += 1.0;
            }
        }
        let expected = 240_000.0 / 31.0;
        let chi_squared: f64 = counts.values().map(|count| (count - expected).powi(2) / expected).sum();
        // 30 degrees of freedom: one in a thousand seeds exceeds 59.7, and the seed is fixed.
        assert!(counts.len() == 31 && chi_squared < 59.7, "{chi_squared}");
    }

    #[test]
    fn the_seed_is_never_printed() {
        assert_eq!(format!("{:?}", BatchSeed::new([9; 32])), "BatchSeed(secret)");
    }

    #[test]
    fn the_csv_has_a_header_and_one_code_per_line() {
        assert_eq!(csv(&["A2".to_owned(), "B3".to_owned()]), "code\nA2\nB3\n");
    }
}
