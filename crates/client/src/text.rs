//! What comes from servers, as text that a terminal or a page shows and never obeys: what a reader would not see is
//! written out, which is control characters, and those that turn the direction of text.

/// The text in one line, cut after so many characters.
#[must_use]
pub fn line(text: &str, characters_max: usize) -> String {
    cut(text, characters_max, &[])
}

/// The text with its line breaks, cut after so many characters.
#[must_use]
pub fn block(text: &str, characters_max: usize) -> String {
    cut(text, characters_max, &['\n', '\t'])
}

fn cut(text: &str, characters_max: usize, kept: &[char]) -> String {
    let mut shown = String::with_capacity(text.len().min(characters_max.saturating_mul(4)));
    for (count, character) in text.chars().enumerate() {
        match character {
            _ if count == characters_max => {
                shown.push('…');
                break;
            }
            _ if kept.contains(&character) => shown.push(character),
            '\n' | '\r' | '\t' => shown.push(' '),
            _ if character.is_control() || is_unseen(character) => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    shown
}

/// Whether a character changes the direction in which others are shown, or is not seen at all.
const fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// Whether a reader sees all of a text in one line. What is sent back by a form has to be so, since it is not changed.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    !text.chars().any(|character| character.is_control() || is_unseen(character))
}

/// For example `1 task` or `3 tasks`.
#[must_use]
pub fn count(number: usize, one: &str, several: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {several}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_would_not_see_is_written_out() {
        assert_eq!(line("a\u{1b}[2Jb\nc\u{202e}d\u{200b}\u{9b}", 99), "a\\u{1b}[2Jb c\\u{202e}d\\u{200b}\\u{9b}");
        assert_eq!(block("a\n\tb\r\u{2066}c", 99), "a\n\tb \\u{2066}c");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(line("äöü", 2), "äö…");
        assert_eq!(line("äöü", 3), "äöü");
    }
}
