//! The output of a job, as the result of a tool.

use longhaul_core::verbatim::KEY;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::jobs::job::JobRef;
use crate::jobs::limits;

/// The result of a job that succeeded: its output as text, and as structured content if it is an object.
pub(crate) fn succeeded(output: &Value) -> CallToolResult {
    let text = match output {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = output.is_object().then(|| output.clone());
    result
}

/// The result of a job that failed: a description, and the error as structured content.
pub(crate) fn failed(words: &str, error: Value) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(cut(words))]);
    result.structured_content = Some(error);
    result
}

/// The same result, or one that says that it is too large to be kept, and where the output is.
pub(crate) fn within_limits(result: CallToolResult, job: &JobRef) -> CallToolResult {
    let texts = result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.len());
    let whole = result.meta.as_ref().and_then(|meta| meta.0.get(KEY)?.as_str());
    let text = texts.chain(whole.map(str::len)).sum::<usize>();
    if text > limits::OUTPUT_BYTES_MAX { too_large(job, Some(text)) } else { result }
}

/// That the output of a job is not kept, because it is too large, and where it is.
pub(crate) fn too_large(job: &JobRef, bytes: Option<usize>) -> CallToolResult {
    let max = limits::OUTPUT_BYTES_MAX;
    let size = bytes.map_or_else(|| "too large to be read".to_owned(), |bytes| format!("{bytes} bytes long"));
    let words = format!(
        "the job has ended, but its output is {size}, and a result has {max} bytes at most: it is at {job}. Let the \
         job write large outputs to a store, such as S3, and return their names"
    );
    failed(&words, json!({"job": job, "outputBytes": bytes, "outputBytesMax": max}))
}

/// Cuts the message of another system to a length that people read.
pub(crate) fn cut(words: &str) -> String {
    match words.char_indices().nth(limits::ERROR_CHARS_MAX) {
        Some((at, _)) => format!("{}…", words.get(..at).unwrap_or_default()),
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_structured_content_and_everything_is_text() {
        let object = succeeded(&json!({"rows": 7}));
        assert_eq!(object.structured_content, Some(json!({"rows": 7})));
        assert_eq!(object.content[0].as_text().unwrap().text, r#"{"rows":7}"#);
        for (output, text) in [(json!("seven"), "seven"), (json!([7]), "[7]"), (Value::Null, "null")] {
            let result = succeeded(&output);
            assert_eq!((result.content[0].as_text().unwrap().text.as_str(), &result.structured_content), (text, &None));
        }
    }

    #[test]
    fn an_output_over_the_limit_is_an_error_with_the_limit_and_the_place() {
        let job = JobRef::new("arn:of-the-job");
        let fits = "x".repeat(limits::OUTPUT_BYTES_MAX);
        assert_eq!(within_limits(succeeded(&json!(fits)), &job).is_error, Some(false));
        let large = within_limits(succeeded(&json!(format!("{fits}y"))), &job);
        let words = &large.content[0].as_text().unwrap().text;
        assert!(words.contains("2097153 bytes long") && words.contains("2097152 bytes at most"), "{words}");
        assert!(words.contains("arn:of-the-job") && large.is_error == Some(true), "{words}");
    }

    #[test]
    fn words_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"ä".repeat(limits::ERROR_CHARS_MAX + 1)).chars().count(), limits::ERROR_CHARS_MAX + 1);
    }
}
