//! The smallest and the largest text of a column, by bytes (for UTF-8: by code points).

use serde::{Deserialize, Serialize};

/// Both, cut to the length limit. A text that differs from a cut one only beyond the cut does not replace it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TextBounds(Option<Ends>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Ends {
    smallest: Box<[u8]>,
    largest: Box<[u8]>,
}

impl TextBounds {
    /// Adds one text, of which at most `bytes_max` bytes are stored.
    pub fn absorb(&mut self, text: &[u8], bytes_max: usize) {
        let cut = || Box::from(text.get(..bytes_max).unwrap_or(text));
        match &mut self.0 {
            None => self.0 = Some(Ends { smallest: cut(), largest: cut() }),
            Some(ends) if text < ends.smallest.as_ref() => ends.smallest = cut(),
            // A text that begins with a cut maximum counts as equal to it.
            Some(ends) if text > ends.largest.as_ref() && !continues(text, &ends.largest, bytes_max) => {
                ends.largest = cut();
            }
            Some(_) => {}
        }
    }

    /// Merges in the texts of another one.
    pub fn merge(&mut self, other: &Self, bytes_max: usize) {
        if let Some(ends) = &other.0 {
            self.absorb(&ends.smallest, bytes_max);
            self.absorb(&ends.largest, bytes_max);
        }
    }

    /// The smallest and the largest text.
    #[must_use]
    pub fn get(&self) -> Option<(&[u8], &[u8])> {
        self.0.as_ref().map(|ends| (ends.smallest.as_ref(), ends.largest.as_ref()))
    }
}

fn continues(text: &[u8], largest: &[u8], bytes_max: usize) -> bool {
    largest.len() == bytes_max && text.starts_with(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_found_and_cut() {
        let mut bounds = TextBounds::default();
        assert_eq!(bounds.get(), None);
        for text in ["mmmm", "b", "zzzzz", "zzzzy", "bb"] {
            bounds.absorb(text.as_bytes(), 3);
        }
        assert_eq!(bounds.get(), Some((b"b".as_slice(), b"zzz".as_slice())));
        let mut other = TextBounds::default();
        other.merge(&bounds, 3);
        assert_eq!(other, bounds);
    }
}
