//! Numbers and values as JSON Schema compares them: 1 and 1.0 are the same.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// How far a quotient may be from a whole number: decimal fractions have no exact binary form.
const TOLERANCE: f64 = 1e-9;

/// Whether the number has no fraction.
pub(super) fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

pub(super) fn compare(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// Whether `number` is a multiple of `step`, which is greater than 0.
pub(super) fn is_multiple(number: &Number, step: &Number) -> bool {
    if let (Some(number), Some(step)) = (number.as_i128(), step.as_i128()) {
        return number.checked_rem(step).is_none_or(|rest| rest == 0);
    }
    let (Some(number), Some(step)) = (number.as_f64(), step.as_f64()) else { return true };
    let quotient = number / step;
    (quotient - quotient.round()).abs() <= TOLERANCE * quotient.abs().max(1.0)
}

/// Whether two values are the same.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Some(Ordering::Equal),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| same(value, other)))
        }
        (one, other) => one == other,
    }
}

/// A text that is the same for values that are the same, and another one for others.
pub(super) fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => match number.as_f64().filter(|_| number.as_i128().is_none() && is_whole(number)) {
            Some(whole) => text.push_str(&format!("{whole:.0}")),
            None => text.push_str(&number.to_string()),
        },
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in sorted {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

/// A number of things: whole and not negative.
pub(super) fn as_count(value: &Value) -> Option<u64> {
    match value.as_u64() {
        Some(count) => Some(count),
        None => value.as_f64().filter(|count| count.fract() == 0.0 && *count >= 0.0).and_then(|count| {
            // Through text: there is no other lossless way from a float.
            format!("{count:.0}").parse().ok()
        }),
    }
}
