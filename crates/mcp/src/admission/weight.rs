//! The memory that a JSON text will need once it is parsed, estimated before anything is built from it.
//!
//! A short text can make a large tree: `{"":0},` has 7 bytes and costs more than 600 as a map in a list. So every body
//! is weighed before it is parsed, in one pass that allocates nothing and validates nothing. For a text that is not
//! JSON, the weight is some number, and the parser reports the error.
//!
//! The costs below are upper bounds; the tests compare them with the allocator's counts.

use serde_json::Value;

/// The deepest nesting that is read: the parser has the same limit.
pub(crate) const DEPTH_MAX: usize = 127;

/// A value: in a list, which may have reserved room for twice as many, or in a map, whose nodes may be half full.
const VALUE_BYTES: usize = 2 * size_of::<Value>() + 64;

/// A list that is not empty: the shortest one has room for four.
const LIST_BYTES: usize = 4 * size_of::<Value>() + 24;

/// A map that is not empty. A node has room for 11 members.
const MAP_BYTES: usize = 640;

/// Copies of the text: its strings, and as it is stored, and on its way to the store.
const TEXT_COPIES: usize = 3;

/// The contents of a JSON text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    bytes: usize,
    values: usize,
    lists: usize,
    maps: usize,
    /// How many levels of lists and maps there are.
    pub(crate) depth: usize,
}

impl Weight {
    /// The weight of `json`.
    pub(crate) fn of(json: &[u8]) -> Self {
        let mut weight = Self { bytes: json.len(), values: 1, ..Self::default() };
        let (mut rest, mut depth) = (json, 0_usize);
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'"' => rest = after_string(after),
                b'{' | b'[' => {
                    depth += 1;
                    weight.depth = weight.depth.max(depth);
                    weight.open(*byte, after);
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' => weight.values += 1,
                _ => {}
            }
        }
        weight
    }

    fn open(&mut self, byte: u8, after: &[u8]) {
        match (byte, after.first()) {
            (b'{', Some(b'}')) | (b'[', Some(b']')) => return,
            (b'{', _) => self.maps += 1,
            _ => self.lists += 1,
        }
        self.values += 1;
    }

    /// The cost in bytes: the tree of its values, with copies of the text.
    pub(crate) const fn cost(&self) -> usize {
        let tree = self.values.saturating_mul(VALUE_BYTES);
        let tree = tree.saturating_add(self.lists.saturating_mul(LIST_BYTES));
        let tree = tree.saturating_add(self.maps.saturating_mul(MAP_BYTES));
        tree.saturating_add(self.bytes.saturating_mul(TEXT_COPIES))
    }
}

/// The text after a string, whose first quote was read.
fn after_string(text: &[u8]) -> &[u8] {
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = match byte {
            b'"' => return after,
            b'\\' => after.get(1..).unwrap_or_default(),
            _ => after,
        };
    }
    rest
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ClientRequest, JsonObject};

    use super::*;
    use crate::request::incoming::Message;
    use crate::request::params::Members;
    use crate::request::typed;

    /// The most bytes that were allocated while `body` was read as requests are, whether or not it is what it should
    /// be.
    fn peak(body: &str) -> usize {
        let mut read = None;
        let allocated = allocation_counter::measure(|| read = request(body));
        drop(read);
        usize::try_from(allocated.bytes_max).unwrap()
    }

    fn request(body: &str) -> Option<(ClientRequest, JsonObject)> {
        let Message::Request { method, params, .. } = Message::read(body.as_bytes()).ok()? else { return None };
        let members = Members::read(params).ok()?;
        let meta = members.meta();
        members.tidied(&method, "2025-11-25").ok()?;
        Some((typed::request(&method, &members).ok()?, meta.whole().0.0))
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
            for text in [
                format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"a":{shape}}}}}}}"#
                ),
                format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","_meta":{{"a":{shape}}}}}}}"#
                ),
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"t","params":{{"a":{shape}}}}}"#),
            ] {
                let (cost, weight) = (peak(&text), Weight::of(text.as_bytes()));
                assert!(cost <= weight.cost(), "{cost} > {weight:?}: {text:.120}");
                assert!(weight.cost() <= 6 * cost, "{weight:?} is much more than {cost}: {text:.120}");
            }
        }
    }

    #[test]
    fn what_is_inside_a_string_is_text() {
        let [text, other] = [r#"{"a":"[[{{\"::,,"}"#, r#"{"a":"xxxx\"xxxx"}"#].map(|text| Weight::of(text.as_bytes()));
        assert_eq!((text.depth, text.cost()), (1, other.cost()));
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
            assert!(Weight::of(text.as_bytes()).cost() < 2_000, "{text}");
        }
    }
}
