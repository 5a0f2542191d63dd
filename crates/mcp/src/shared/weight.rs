//! What a JSON text will cost in memory once it is parsed, estimated before anything is built from it.
//!
//! A short text can make a large tree: `{"":0},` has 7 bytes and costs more than 600 as a map in a list. So every body
//! is weighed before it is parsed, in one pass that allocates nothing and validates nothing: of a text that is not
//! JSON, some number comes out, and the parser says what is wrong.
//!
//! The numbers below are upper bounds; the tests compare them with what the allocator counts.

use serde_json::Value;

/// The deepest nesting that is read: the parser has the same limit.
pub(crate) const DEPTH_MAX: usize = 127;

/// A value in a list, which may have reserved room for twice as many; and its intermediate forms.
const ELEMENT: Cost = Cost { tree: 2 * size_of::<Value>(), passing: 192 };

/// A list that is not empty: the shortest one has room for four.
const LIST: Cost = Cost { tree: 4 * size_of::<Value>() + ALLOCATION, passing: 256 };

/// A map that is not empty. A node has room for 11 members.
const MAP: Cost = Cost { tree: 640, passing: 192 };

/// A member of a map.
const MEMBER: Cost = Cost { tree: 0, passing: 352 };

/// The member that needs a second node, and a node above both.
const SECOND_NODE_AT: u32 = 12;

/// A node above others.
const INNER_NODE: Cost = Cost { tree: 736, passing: 0 };

/// A further node of a map, with its share of the nodes above.
const NODE: Cost = Cost { tree: 640 + 128, passing: 0 };

/// Nodes are half full if members arrive in the order of their names.
const NODE_MEMBERS: u32 = 6;

/// What the allocator adds to an allocation, with what it rounds up.
const ALLOCATION: usize = 24;

/// How many intermediate copies are made of a string with an escape in it. Other strings are not copied.
const ESCAPED_COPIES: usize = 6;

/// Copies of the whole text: as it is stored, and on its way to the store.
const TEXT_COPIES: usize = 2;

/// What a JSON text costs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// The tree of values, as long as it exists; with copies of the text.
    pub(crate) kept: usize,
    /// At its peak: before `rmcp` knows what kind of message it reads, it makes intermediate trees, which exist at the
    /// same time as the last one.
    pub(crate) peak: usize,
    /// How many levels of lists and maps there are.
    pub(crate) depth: usize,
}

#[derive(Clone, Copy)]
struct Cost {
    tree: usize,
    passing: usize,
}

impl Weight {
    /// The weight of `json`.
    pub(crate) fn of(json: &[u8]) -> Self {
        let mut scale = Scale::default();
        let mut rest = json;
        while let Some((byte, after)) = rest.split_first() {
            rest = match byte {
                b'"' => scale.string(after),
                b'{' => scale.open(after, MAP, b'}'),
                b'[' => scale.open(after, LIST, b']'),
                b'}' | b']' => scale.close(after),
                b':' => scale.member(after),
                b',' => scale.comma(after),
                _ => after,
            };
        }
        let text = json.len().saturating_mul(TEXT_COPIES);
        let kept = scale.tree.saturating_add(text);
        Self { kept, peak: kept.saturating_add(scale.passing), depth: scale.depth_max }
    }
}

struct Scale {
    tree: usize,
    passing: usize,
    depth: usize,
    depth_max: usize,
    /// The members of each open map so far. What is deeper than the limit is refused, so it need not be exact.
    members: [u32; DEPTH_MAX + 1],
    /// Which of them are maps.
    maps: u128,
}

impl Default for Scale {
    fn default() -> Self {
        Self { tree: 0, passing: 0, depth: 0, depth_max: 0, members: [0; DEPTH_MAX + 1], maps: 0 }
    }
}

impl Scale {
    const fn add(&mut self, cost: Cost) {
        self.tree = self.tree.saturating_add(cost.tree);
        self.passing = self.passing.saturating_add(cost.passing);
    }

    /// A string, whose first quote was read. Returns what comes after it.
    fn string<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let mut length = 0;
        let mut is_escaped = false;
        let mut rest = text;
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    rest = after.get(1..).unwrap_or_default();
                }
                _ => {}
            }
            length += 1;
        }
        let tree = length + ALLOCATION;
        self.add(Cost { tree, passing: if is_escaped { tree * ESCAPED_COPIES } else { 0 } });
        rest
    }

    fn open<'a>(&mut self, after: &'a [u8], cost: Cost, end: u8) -> &'a [u8] {
        self.depth += 1;
        self.depth_max = self.depth_max.max(self.depth);
        let level = self.depth.min(DEPTH_MAX);
        if let Some(members) = self.members.get_mut(level) {
            *members = 0;
        }
        self.maps = if end == b'}' { self.maps | 1 << level } else { self.maps & !(1 << level) };
        if after.first() != Some(&end) {
            self.add(cost);
            if end == b']' {
                self.add(ELEMENT);
            }
        }
        after
    }

    const fn close<'a>(&mut self, after: &'a [u8]) -> &'a [u8] {
        self.depth = self.depth.saturating_sub(1);
        after
    }

    fn member<'a>(&mut self, after: &'a [u8]) -> &'a [u8] {
        self.add(MEMBER);
        let Some(members) = self.members.get_mut(self.depth.min(DEPTH_MAX)) else { return after };
        *members = members.saturating_add(1);
        let members = *members;
        if members == SECOND_NODE_AT {
            self.add(INNER_NODE);
        }
        if members >= SECOND_NODE_AT && members.is_multiple_of(NODE_MEMBERS) {
            self.add(NODE);
        }
        after
    }

    const fn comma<'a>(&mut self, after: &'a [u8]) -> &'a [u8] {
        let level = if self.depth < DEPTH_MAX { self.depth } else { DEPTH_MAX };
        if self.maps & (1 << level) == 0 {
            self.add(ELEMENT);
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolRequestParams, ClientJsonRpcMessage};
    use serde::de::DeserializeOwned;

    use super::*;

    /// The most bytes that were allocated while `text` was read, whether or not it is what it should be.
    fn peak<T: DeserializeOwned>(text: &str) -> usize {
        let mut read = None;
        let allocated = allocation_counter::measure(|| read = Some(serde_json::from_slice::<T>(text.as_bytes())));
        drop(read);
        usize::try_from(allocated.bytes_max).unwrap()
    }

    fn list(item: &str, length: usize) -> String {
        format!("[{}]", vec![item; length].join(","))
    }

    fn map(length: usize) -> String {
        let members: Vec<_> = (0..length).map(|number| format!("\"{number:06}\":0")).collect();
        format!("{{{}}}", members.join(","))
    }

    fn shapes() -> Vec<String> {
        vec![
            list("1", 100_000),
            list("-1.5e-7", 60_000),
            list("null", 131_072),
            list("[]", 100_000),
            list("{}", 100_000),
            list("[1]", 50_000),
            list("[1,1,1,1,1]", 30_000),
            list("[1,1,1,1,1,1,1,1,1]", 30_000),
            list("[[[[[[[[]]]]]]]]", 20_000),
            list("{\"\":0}", 50_000),
            list("{\"id\":1,\"name\":\"ab\",\"x\":1.5}", 20_000),
            list("{\"a\":{\"a\":{\"a\":0}}}", 20_000),
            list("{\"a\":[{\"a\":[]}]}", 20_000),
            list(&map(5), 10_000),
            list(&map(12), 10_000),
            list(&map(40), 3_000),
            map(50_000),
            list("\"\"", 100_000),
            list("\"ab\"", 100_000),
            list("\"\\n\"", 100_000),
            list("\"\\n01234567890123456789\"", 50_000),
            list("\"\\u0001\"", 50_000),
            format!("\"{}\"", "x".repeat(1_000_000)),
            format!("\"{}\"", "line\\n".repeat(200_000)),
            format!("\"{}\"", "\\\\".repeat(500_000)),
        ]
    }

    #[test]
    fn reading_a_message_costs_at_most_what_was_estimated_and_not_many_times_less() {
        for shape in shapes() {
            for (text, max) in [
                (
                    format!(
                        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"a":{shape}}}}}}}"#
                    ),
                    4,
                ),
                (
                    format!(
                        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","_meta":{{"a":{shape}}}}}}}"#
                    ),
                    4,
                ),
                (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"t","params":{{"a":{shape}}}}}"#), 4),
                (format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":{shape}}}}}"#), 4),
                (format!(r#"{{"jsonrpc":"2.0","id":{shape},"method":"tools/call","params":{{}}}}"#), 9),
            ] {
                let (cost, weight) = (peak::<ClientJsonRpcMessage>(&text), Weight::of(text.as_bytes()));
                assert!(cost <= weight.peak, "{cost} > {weight:?}: {text:.120}");
                assert!(weight.peak <= max * cost, "{weight:?} is much more than {cost}: {text:.120}");
            }
        }
    }

    /// A list that is about to outgrow its room exists twice, but the new room is not used yet.
    #[test]
    fn a_tree_costs_at_most_what_was_estimated() {
        for shape in shapes() {
            let text = format!(r#"{{"name":"t","arguments":{{"a":{shape}}}}}"#);
            let (cost, weight) = (peak::<CallToolRequestParams>(&text), Weight::of(text.as_bytes()));
            assert!(cost <= weight.kept, "{cost} > {weight:?}: {text:.120}");
        }
    }

    #[test]
    fn what_is_inside_a_string_is_text() {
        let [text, other] = [r#"{"a":"[[{{\"::,,"}"#, r#"{"a":"xxxx\"xxxx"}"#].map(|text| Weight::of(text.as_bytes()));
        assert_eq!((text.depth, text.peak), (1, other.peak));
    }

    #[test]
    fn depth_is_counted_to_any_depth() {
        assert_eq!(Weight::of("[".repeat(100_000).as_bytes()).depth, 100_000);
        assert_eq!(Weight::of(b"[[],[[{}]],[]]").depth, 4);
        assert_eq!(Weight::of(b"]]]}[").depth, 1);
    }

    /// What is not JSON has some weight too.
    #[test]
    fn garbage_is_weighed() {
        for text in ["", "\"", "\"\\", "{", "}", "\u{0}", ",,,,", "\"\\\"", ":::"] {
            assert!(Weight::of(text.as_bytes()).peak < 2_000, "{text}");
        }
    }
}
