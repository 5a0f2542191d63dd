//! Keys and hashes of values that a client sent: with them any instance finds a task without a list, and recognises the
//! same call.

use hmac::{Hmac, KeyInit, Mac};
use longhaul_core::{IdSource, OwnerId, TaskId, TaskKey, Timestamp};
use rmcp::model::JsonObject;
use serde_json::{Number, Value};
use sha2::{Digest, Sha256};

/// An id source without randomness: the same parts give the same id.
struct Hashed([u8; 32]);

impl IdSource for Hashed {
    fn fill(&self, bytes: &mut [u8]) {
        for (byte, hashed) in bytes.iter_mut().zip(self.0.iter().cycle()) {
            *byte = *hashed;
        }
    }
}

/// The hash of `parts`. Where one part ends and the next begins makes a difference.
pub(crate) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    feed(parts, |bytes| hash.update(bytes));
    hash.finalize().into()
}

/// The same, keyed: it cannot be computed without `key`.
pub(crate) fn keyed_hash(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    feed(parts, |bytes| hash.update(bytes));
    hash.finalize().into_bytes().into()
}

fn feed(parts: &[&[u8]], mut update: impl FnMut(&[u8])) {
    for part in parts {
        update(&(part.len() as u64).to_be_bytes());
        update(part);
    }
}

/// 32 bytes as text: the digits that an owner is written with.
pub(crate) fn digits(bytes: [u8; 32]) -> String {
    OwnerId::from_bytes(bytes).to_string()
}

/// Derives the ids of tasks that clients name themselves. Its key never changes, so that a task is found for as long as
/// it exists. The ids cannot be computed without the key.
pub(crate) struct Names([u8; 32]);

impl Names {
    /// With a key that is derived from the server's secret.
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        Self(keyed_hash(secret, &[b"names of tasks"]))
    }

    /// The key of the task of `owner` that these parts name. Its id begins with `at` instead of the time of its
    /// creation, so that the parts and `at` are enough to find it. No other owner's task has the same id.
    pub(crate) fn task_key(&self, owner: &OwnerId, at: Timestamp, parts: &[&[u8]]) -> TaskKey {
        let of_owner = keyed_hash(&self.0, &[owner.as_bytes()]);
        let id: TaskId = Hashed(keyed_hash(&of_owner, parts)).task_id(at);
        TaskKey::new(*owner, id)
    }

    /// Bytes that look random, for the `draw` of a task: the same in every process, and known to no client.
    pub(crate) fn drawn(&self, task: &TaskKey, draw: &str) -> [u8; 32] {
        keyed_hash(&self.0, &[b"draw", task.owner.as_bytes(), task.id.as_bytes(), draw.as_bytes()])
    }
}

/// The key of the task of `owner` that these parts name, as [`Names::task_key`] makes it, for parts that no client
/// chose. Any process that knows the parts and the owner can compute it.
pub(crate) fn named_openly(owner: &OwnerId, at: Timestamp, parts: &[&[u8]]) -> TaskKey {
    let of_owner = hash(&[b"tasks of", owner.as_bytes()]);
    TaskKey::new(*owner, Hashed(keyed_hash(&of_owner, parts)).task_id(at))
}

/// SHA-256 over the tool's name and its arguments, with the keys of objects sorted. The order of members, spaces, and
/// the form of a number make no difference.
pub(crate) fn digest_of_call(tool: &str, arguments: Option<&JsonObject>) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((tool.len() as u64).to_be_bytes());
    hash.update(tool);
    if let Some(arguments) = arguments {
        hash_object(&mut hash, arguments);
    }
    hash.finalize().into()
}

fn hash_object(hash: &mut Sha256, fields: &JsonObject) {
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    hash.update("{");
    for (name, field) in sorted {
        hash.update(Value::from(name.as_str()).to_string());
        hash.update(":");
        hash_value(hash, field);
        hash.update(",");
    }
    hash.update("}");
}

fn hash_value(hash: &mut Sha256, any: &Value) {
    match any {
        Value::Object(fields) => hash_object(hash, fields),
        Value::Array(items) => {
            hash.update("[");
            for item in items {
                hash_value(hash, item);
                hash.update(",");
            }
            hash.update("]");
        }
        Value::Number(number) => hash.update(decimal(number)),
        Value::Null | Value::Bool(_) | Value::String(_) => hash.update(any.to_string()),
    }
}

/// A number in one form: `1000` for `1e3`, `0.5` for `5e-1`. The fingerprints of earlier versions are made of these.
/// Digits that an `f64` does not have are kept where `serde_json` keeps them.
fn decimal(number: &Number) -> String {
    let integer = number.as_i64().map(|integer| integer.to_string());
    if let Some(integer) = integer.or_else(|| number.as_u64().map(|integer| integer.to_string())) {
        return integer;
    }
    let text = number.to_string();
    let nearest = number.as_f64().and_then(nearest).filter(|nearest| significant(nearest) == significant(&text));
    nearest.unwrap_or(text)
}

/// The number as earlier versions wrote it: without its fraction if it is an integer that an `f64` holds exactly.
#[expect(clippy::cast_possible_truncation, reason = "it has no fraction, and fits")]
fn nearest(value: f64) -> Option<String> {
    /// Up to here, every integer is a number of its own among floating-point numbers.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT_MAX {
        return Some((value as i64).to_string());
    }
    Number::from_f64(value).map(|number| number.to_string())
}

/// The sign of a number, its digits without the zeros at both ends, and their power of ten. It is `None` if the power
/// is out of range.
fn significant(text: &str) -> Option<(bool, String, i64)> {
    let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return Some((false, String::new(), 0));
    }
    let shift = i64::try_from(digits.len() - kept.len()).ok()? - i64::try_from(fraction.len()).ok()?;
    let power = power.parse::<i64>().ok()?.checked_add(shift)?;
    Some((whole.starts_with('-'), kept.trim_start_matches('0').to_owned(), power))
}

#[cfg(test)]
mod tests {
    use longhaul_core::Identity;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_parts_give_the_same_key_and_others_another() {
        let names = Names::new(&[7; 32]);
        let alice = OwnerId::of(Identity::Verified { issuer: "tests", subject: "alice", tenant: "" });
        let at = Timestamp::from_ms(0);
        let of = |parts: &[&[u8]]| names.task_key(&alice, at, parts);
        assert_eq!(of(&[b"a", b"bc"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"a", b"bc"]), of(&[b"ab", b"c"]));
        assert_ne!(of(&[b"a"]), of(&[b"a", b""]));
        assert_ne!(of(&[b"a"]), names.task_key(&alice, Timestamp::from_ms(1), &[b"a"]));
        assert_ne!(of(&[b"a"]).owner, names.task_key(&OwnerId::of(Identity::Anonymous), at, &[b"a"]).owner);
    }

    /// Two owners who chose the same token once had tasks of the same id. Tools use the id as a key towards other
    /// services, where one owner's work could then be taken for the other's.
    #[test]
    fn two_owners_who_choose_the_same_name_have_different_ids() {
        let of = |subject: &str| {
            let owner = OwnerId::of(Identity::Verified { issuer: "tests", subject, tenant: "" });
            Names::new(&[7; 32]).task_key(&owner, Timestamp::from_ms(0), &[b"operation", b"", b"1"])
        };
        assert_ne!(of("alice").id, of("bob").id);
    }

    /// The id of such a task could once be computed from its token alone.
    #[test]
    fn an_id_depends_on_the_servers_secret() {
        let alice = OwnerId::of(Identity::Verified { issuer: "tests", subject: "alice", tenant: "" });
        let of = |secret: u8| Names::new(&[secret; 32]).task_key(&alice, Timestamp::from_ms(0), &[b"a"]);
        assert_ne!(of(7).id, of(8).id);
        assert_ne!(of(7).id, Hashed(hash(&[b"a"])).task_id(Timestamp::from_ms(0)));
    }

    fn digest(tool: &str, arguments: Value) -> [u8; 32] {
        digest_of_call(tool, arguments.as_object())
    }

    #[test]
    fn the_form_of_a_number_makes_no_difference_and_its_value_does() {
        let of = |number: &str| digest("a", serde_json::from_str(&format!("{{\"n\": [{number}]}}")).unwrap());
        for (one, other) in
            [("0", "0.0"), ("0", "-0.0"), ("5", "5.0"), ("1000", "1e3"), ("-7", "-7.0"), ("0.5", "5e-1")]
        {
            assert_eq!(of(one), of(other), "{one} {other}");
        }
        for (one, other) in [
            ("0", "1e-300"),
            ("5", "5.5"),
            ("1", "\"1\""),
            ("9007199254740993", "9007199254740992.0"),
            ("18446744073709551615", "1.8446744073709552e19"),
        ] {
            assert_ne!(of(one), of(other), "{one} {other}");
        }
    }

    /// Records of earlier versions have these fingerprints, whatever the features of `serde_json` are.
    #[test]
    fn numbers_have_the_form_that_earlier_versions_gave_them() {
        let of = |text: &str| decimal(&serde_json::from_str(text).unwrap());
        for (text, form) in [
            ("0.10", "0.1"),
            ("-0.0", "0"),
            ("-0", "0"),
            ("1E2", "100"),
            ("1.5e300", "1.5e+300"),
            ("5e-07", "5e-7"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(of(text), form, "{text}");
        }
    }

    #[cfg(feature = "arbitrary-precision")]
    #[test]
    fn digits_that_no_f64_has_make_a_difference() {
        let of = |text: &str| decimal(&serde_json::from_str(text).unwrap());
        for (one, other) in [
            ("18446744073709551616", "18446744073709551617"),
            ("1", "1.00000000000000000001"),
            ("0", "1e-999"),
            ("0.1", "0.1000000000000000055"),
        ] {
            assert_ne!(of(one), of(other), "{one} {other}");
        }
    }

    #[test]
    fn the_order_of_keys_makes_no_difference() {
        let text = r#"{"b":{"y":[1,{"q":2,"p":3}],"x":1},"a":"s"}"#;
        let sorted = r#"{"a":"s","b":{"x":1,"y":[1,{"p":3,"q":2}]}}"#;
        let parse = |text| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(digest("t", parse(text)), digest("t", parse(sorted)));
    }

    #[test]
    fn other_tools_and_other_arguments_are_other_calls() {
        let calls = [
            digest("t", json!({"a": 1})),
            digest("t", json!({"a": "1"})),
            digest("t", json!({"a": [1]})),
            digest("t", json!({"a": [[1]]})),
            digest("t", json!({})),
            digest_of_call("t", None),
            digest_of_call("u", None),
        ];
        for (index, call) in calls.iter().enumerate() {
            assert!(calls.iter().skip(index + 1).all(|other| other != call), "{index}");
        }
    }
}
