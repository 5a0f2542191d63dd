//! The limits that a schema sets to a value.

use serde_json::Value;

use crate::schema::type_of;

/// Whether a value has the schema's type, keeps its limits, and has its format.
pub(super) fn check(schema: &Value, value: &Value) -> Result<(), String> {
    let fits = match type_of(schema) {
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    if !fits {
        return Err(format!("it must be of the type {}", type_of(schema).unwrap_or_default()));
    }
    between(schema, value)?;
    match (schema["format"].as_str(), value.as_str()) {
        (Some(format), Some(text)) => has_format(text, format),
        _ => Ok(()),
    }
}

fn between(schema: &Value, value: &Value) -> Result<(), String> {
    let limit = |name: &str| schema[name].as_f64();
    let size = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let (least, most, size, unit) = match value {
        Value::String(text) => (limit("minLength"), limit("maxLength"), size(text.chars().count()), " characters"),
        Value::Array(all) => (limit("minItems"), limit("maxItems"), size(all.len()), " values"),
        Value::Number(number) => (limit("minimum"), limit("maximum"), number.as_f64().unwrap_or_default(), ""),
        Value::Null | Value::Bool(_) | Value::Object(_) => return Ok(()),
    };
    let of = |limit: f64| if limit == 1.0 { unit.trim_end_matches('s') } else { unit };
    match (least, most) {
        (Some(least), _) if size < least => Err(format!("it must be at least {least}{}", of(least))),
        (_, Some(most)) if size > most => Err(format!("it must be at most {most}{}", of(most))),
        _ => Ok(()),
    }
}

/// The formats that questions may have. Others are the server's to check.
fn has_format(text: &str, format: &str) -> Result<(), String> {
    let (fits, expected) = match format {
        "email" => (is_email(text), "an e-mail address, such as ada@example.com"),
        "uri" => (url::Url::parse(text).is_ok(), "an address, such as https://example.com"),
        "date" => (is_date(text), "a date, such as 2026-11-23"),
        "date-time" => (is_moment(text), "a moment, such as 2026-11-23T08:00:00Z"),
        _ => return Ok(()),
    };
    if fits { Ok(()) } else { Err(format!("it must be {expected}")) }
}

fn is_email(text: &str) -> bool {
    let parts = text.rsplit_once('@');
    parts.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty()) && !text.contains(char::is_whitespace)
}

/// `jiff` also reads moments as dates, and other spellings.
fn is_date(text: &str) -> bool {
    text.len() == "2026-11-23".len() && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_moment(text: &str) -> bool {
    text.get(..10).is_some_and(is_date) && text.parse::<jiff::Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn formats_are_checked() {
        for (format, good, bad) in [
            ("email", &["ada@example.com", "a@b@c"][..], &["", "ada", "@", "a@", "@b", "a b@c"][..]),
            ("uri", &["https://example.com/?a=b#c", "urn:isbn:1"], &["", "example.com", "/a", "https://"]),
            (
                "date",
                &["2026-11-23", "2024-02-29"],
                &["", "2026-02-29", "2026-13-01", "23.11.2026", "2026-11-23T01:02:03"],
            ),
            (
                "date-time",
                &["2026-11-23T08:00:00Z", "2026-11-23T08:00:00.5+01:00"],
                &["", "2026-11-23", "2026-11-23T08:00:00", "2026-11-23T25:00:00Z"],
            ),
            ("unknown", &["", "x"], &[]),
        ] {
            let fits = |text: &str| check(&json!({"type": "string", "format": format}), &json!(text)).is_ok();
            for text in good {
                assert!(fits(text), "{format} {text:?}");
            }
            for text in bad {
                assert!(!fits(text), "{format} {text:?}");
            }
        }
    }

    #[test]
    fn arrays_have_their_number_of_values() {
        let schema = json!({"type": "array", "minItems": 1, "maxItems": 2});
        assert_eq!(check(&schema, &json!([])), Err("it must be at least 1 value".to_owned()));
        assert_eq!(check(&schema, &json!([1, 2])), Ok(()));
        assert_eq!(check(&schema, &json!([1, 2, 3])), Err("it must be at most 2 values".to_owned()));
        assert_eq!(check(&schema, &json!({})), Err("it must be of the type array".to_owned()));
    }
}
