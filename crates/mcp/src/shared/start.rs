//! When a call asks to start, if it asks for a later moment than now.

use longhaul_core::Timestamp;
use rmcp::ErrorData;
use rmcp::model::RequestMetaObject;

/// The key in the `_meta` of a call for the earliest moment at which its tool may run, as RFC 3339.
const KEY: &str = "dev.longhaul/notBefore";

/// The moment that a call asks for.
///
/// # Errors
/// `-32602` if it is not a moment.
pub(crate) fn asked(meta: &RequestMetaObject) -> Result<Option<Timestamp>, ErrorData> {
    let Some(value) = meta.0.0.get(KEY) else { return Ok(None) };
    let moment = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok()).ok_or_else(|| {
        let message = format!("`{KEY}` in `_meta` must be a moment as in RFC 3339, such as \"2026-12-01T09:00:00Z\"");
        ErrorData::invalid_params(message, None)
    })?;
    // What is before 1970 is past, as 1970 is.
    Ok(Some(Timestamp::from_ms(u64::try_from(moment.as_millisecond()).unwrap_or(0))))
}

/// The same, and takes it out of what is stored: a tool that passes its `_meta` on asks nobody else to start later.
///
/// # Errors
/// `-32602` if it is not a moment.
pub(crate) fn taken(meta: &mut RequestMetaObject) -> Result<Option<Timestamp>, ErrorData> {
    let asked = asked(meta)?;
    meta.0.0.remove(KEY);
    Ok(asked)
}

/// The error for a call that asks to start later, of a tool whose calls do not become tasks.
pub(crate) fn never_a_task(tool: &str) -> ErrorData {
    let message = format!("calls of `{tool}` do not become tasks, and so cannot start later: leave `{KEY}` out");
    ErrorData::invalid_params(message, None)
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestMetaObject;
    use serde_json::{Value, json};

    use super::*;

    fn asked_for(value: Value) -> Result<Option<Timestamp>, ErrorData> {
        let mut meta = RequestMetaObject::default();
        meta.0.0.insert(KEY.to_owned(), value);
        let asked = asked(&meta);
        assert_eq!(taken(&mut meta).ok(), asked.clone().ok());
        assert_eq!(meta.0.0.contains_key(KEY), asked.is_err());
        asked
    }

    #[test]
    fn a_moment_is_rfc_3339_with_or_without_seconds_and_in_any_zone() {
        let at = |text: &str| asked_for(json!(text)).unwrap().unwrap().as_ms();
        let moment = 1_796_115_600_000;
        for text in
            ["2026-12-01T09:00:00Z", "2026-12-01T09:00Z", "2026-12-01T10:00:00+01:00", "2026-12-01 09:00:00.000Z"]
        {
            assert_eq!(at(text), moment, "{text}");
        }
        assert_eq!(at("1969-12-31T23:59:59Z"), 0);
        assert_eq!(asked(&RequestMetaObject::default()).unwrap(), None);
    }

    #[test]
    fn what_is_not_a_moment_is_refused() {
        let others =
            [json!("tomorrow"), json!(""), json!("2026-12-01"), json!("2026-12-01T09:00:00"), json!(5), json!(null)];
        for other in others {
            let refused = asked_for(other.clone()).unwrap_err();
            assert_eq!(refused.code.0, -32602, "{other}");
            assert!(refused.message.contains("RFC 3339"), "{}", refused.message);
        }
    }
}
