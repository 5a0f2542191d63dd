//! The values of one column in one block, grouped by value: everything after this is done once per entry.

use rapidhash::v3::rapidhash_v3;

use super::grid::Span;

/// The minimum number of slots in the table.
const SLOTS_MIN: usize = 1024;

/// A value and how often it occurs in the block.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Identifies the value: two values with the same 64 bits count as one.
    pub hash: u64,
    /// Where it occurs first.
    pub span: Span,
    /// How often it occurs.
    pub times: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    hash: u64,
    /// Which use of the table filled the slot. After an earlier use the slot counts as empty: the table is never cleared.
    round: u32,
    entry: u32,
}

/// A table for gathering, used for one column after the other.
#[derive(Debug)]
pub struct Entries {
    slots: Vec<Slot>,
    entries: Vec<Entry>,
    round: u32,
}

impl Default for Entries {
    fn default() -> Self {
        Self { slots: vec![Slot::default(); SLOTS_MIN], entries: Vec::new(), round: 0 }
    }
}

impl Entries {
    /// Gathers the values at `spans` of `text`; missing ones are left out.
    pub fn gather(&mut self, text: &[u8], spans: &[Span]) -> &[Entry] {
        self.start_round(spans.len());
        for span in spans.iter().filter(|span| **span != Span::MISSING) {
            self.add(rapidhash_v3(span.of(text)), *span);
        }
        &self.entries
    }

    /// Makes the table empty, and large enough to stay half empty.
    fn start_round(&mut self, values: usize) {
        self.entries.clear();
        self.round = self.round.wrapping_add(1);
        let slots = (values * 2).next_power_of_two();
        if self.round == 0 || slots > self.slots.len() {
            let slots = slots.max(self.slots.len());
            self.slots.clear();
            self.slots.resize(slots, Slot::default());
            self.round = 1;
        }
    }

    fn add(&mut self, hash: u64, span: Span) {
        #[expect(clippy::cast_possible_truncation, reason = "only the low bits choose the slot")]
        let home = hash as usize;
        let mask = self.slots.len() - 1;
        for step in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(home.wrapping_add(step) & mask) else {
                return;
            };
            if slot.round != self.round {
                *slot = Slot {
                    hash,
                    round: self.round,
                    // A block has far fewer than 2^32 values.
                    entry: u32::try_from(self.entries.len()).unwrap_or(u32::MAX),
                };
                self.entries.push(Entry { hash, span, times: 1 });
                return;
            }
            if slot.hash == hash {
                let known = self.entries.get_mut(slot.entry as usize);
                return known.into_iter().for_each(|entry| entry.times += 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_value_is_counted_once(columns in prop::collection::vec(
            prop::collection::vec(prop::option::of(0_u32..5000), 0..3000), 1..4,
        )) {
            let mut table = Entries::default();
            for column in columns {
                let mut text = Vec::new();
                let mut truth = BTreeMap::<String, u64>::new();
                let spans: Vec<_> = column.iter().map(|value| match value {
                    Some(value) => {
                        let start = text.len();
                        text.extend_from_slice(value.to_string().as_bytes());
                        *truth.entry(value.to_string()).or_default() += 1;
                        Span::new(start, text.len())
                    }
                    None => Span::MISSING,
                }).collect();
                let entries = table.gather(&text, &spans);
                let value = |entry: &Entry| String::from_utf8_lossy(entry.span.of(&text)).into_owned();
                let counted: BTreeMap<_, _> = entries.iter().map(|entry| (value(entry), entry.times)).collect();
                prop_assert_eq!(counted.len(), entries.len());
                prop_assert_eq!(counted, truth);
            }
        }
    }
}
