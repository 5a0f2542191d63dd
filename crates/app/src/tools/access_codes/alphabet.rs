//! The characters of a code, and its check character.
//!
//! The alphabet is the digits and capital letters without `0 O 1 I L`, which are easy to confuse: 31 characters. The
//! check character is that of a pure system according to ISO/IEC 7064, with modulus 31 and radix 3. Characters are
//! counted from the right, with the check character as 0. Character `i` has the weight 3^i, and the weighted sum is
//! divisible by 31. Since 31 is prime and 3 is a primitive root of it, this detects:
//!
//! - every substitution of one character
//! - every transposition of two different characters that are fewer than 30 places apart, so every adjacent one

/// The characters, in the order of their values.
pub const ALPHABET: [u8; 31] = *b"23456789ABCDEFGHJKMNPQRSTUVWXYZ";

/// The modulus of the check, and the number of characters.
const MODULUS: u32 = 31;

/// The radix of the check.
const RADIX: u32 = 3;

/// The character of a value below 31.
#[must_use]
pub fn symbol(value: u32) -> Option<char> {
    ALPHABET.get(value as usize).map(|byte| char::from(*byte))
}

/// The value of a character.
#[must_use]
pub fn value(symbol: char) -> Option<u32> {
    let place = ALPHABET.iter().position(|byte| char::from(*byte) == symbol)?;
    u32::try_from(place).ok()
}

/// The value of the check character that follows characters of these values.
#[must_use]
pub fn check_value(values: &[u32]) -> u32 {
    (MODULUS - weighted(values) * RADIX % MODULUS) % MODULUS
}

/// Whether `code`, without its prefix and with its check character, could have been generated here.
#[must_use]
pub fn is_valid(code: &str) -> bool {
    let values: Option<Vec<u32>> = code.chars().map(value).collect();
    values.is_some_and(|values| values.len() > 1 && weighted(&values) == 0)
}

/// The sum with the weights 3^i from the right, modulo 31, by Horner's rule.
fn weighted(values: &[u32]) -> u32 {
    values.iter().fold(0, |sum, value| (sum * RADIX + value) % MODULUS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(values: &[u32]) -> Vec<u32> {
        let mut code = values.to_vec();
        code.push(check_value(values));
        code
    }

    fn text(values: &[u32]) -> String {
        values.iter().map(|value| symbol(*value).unwrap()).collect()
    }

    #[test]
    fn the_alphabet_has_no_look_alikes_and_no_duplicates() {
        let mut sorted = ALPHABET.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 31);
        assert!(!ALPHABET.iter().any(|byte| b"01OIL".contains(byte)));
    }

    #[test]
    fn a_known_code_has_its_known_check_character() {
        // Values 0, 1, 2: 1 * 9 + 2 * 3 = 15, and 16 more make 31.
        assert_eq!(check_value(&[0, 1, 2]), 16);
        assert!(is_valid("234J"));
        assert!(!is_valid("234K"));
        assert!(!is_valid(""));
        assert!(!is_valid("2"));
        assert!(!is_valid("23o"));
    }

    proptest! {
        #[test]
        fn every_substitution_of_one_character_is_detected(
            values in prop::collection::vec(0_u32..31, 1..40),
            place in any::<prop::sample::Index>(),
            by in 1_u32..31,
        ) {
            let mut code = code(&values);
            prop_assert!(is_valid(&text(&code)));
            let place = place.index(code.len());
            code[place] = (code[place] + by) % 31;
            prop_assert!(!is_valid(&text(&code)));
        }

        #[test]
        fn every_transposition_less_than_thirty_places_apart_is_detected(
            values in prop::collection::vec(0_u32..31, 1..40),
            place in any::<prop::sample::Index>(),
            distance in 1_usize..30,
        ) {
            let mut code = code(&values);
            let left = place.index(code.len());
            let right = left + distance;
            prop_assume!(right < code.len() && code[left] != code[right]);
            code.swap(left, right);
            prop_assert!(!is_valid(&text(&code)));
        }
    }
}
