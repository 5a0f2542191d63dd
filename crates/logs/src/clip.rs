//! Which part of a long value is logged.

/// Characters of a value in a log line.
pub const VALUE_CHARS_MAX: usize = 256;

/// How many of them come from the end of a longer value: of a chain of errors that is the cause.
pub(crate) const TAIL_CHARS: usize = 64;

/// Stands for what is left out.
pub(crate) const CUT: char = '…';

/// The beginning of `text`, and its end if something between them is left out.
pub(crate) fn clip(text: &str) -> (&str, Option<&str>) {
    if text.char_indices().nth(VALUE_CHARS_MAX).is_none() {
        return (text, None);
    }
    let head = text.char_indices().nth(VALUE_CHARS_MAX - TAIL_CHARS - 1).map_or(text.len(), |(at, _)| at);
    let tail = text.char_indices().rev().nth(TAIL_CHARS - 1).map_or(0, |(at, _)| at);
    (text.get(..head).unwrap_or_default(), text.get(tail..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_limit_is_whole_and_a_longer_one_has_its_beginning_and_its_end() {
        let whole = "ä".repeat(VALUE_CHARS_MAX);
        assert_eq!(clip(&whole), (whole.as_str(), None));
        let long = format!("begin{}end", "ä".repeat(VALUE_CHARS_MAX));
        let (head, tail) = clip(&long);
        let tail = tail.unwrap();
        assert!(head.starts_with("begin") && tail.ends_with("end"));
        assert_eq!(head.chars().count() + 1 + tail.chars().count(), VALUE_CHARS_MAX);
    }
}
