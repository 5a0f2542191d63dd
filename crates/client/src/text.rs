//! Text of servers that a terminal or a page shows and never obeys. Control characters, characters that turn the
//! direction of text, and invisible characters are escaped.

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

/// Whether a character changes the direction in which others are shown, or is not seen at all. The joiners U+200C and
/// U+200D are not among them: words of many scripts, and emoji, are not right without them.
const fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// JSON for a terminal: the same value, with these characters written as escapes of JSON, where they are in strings
/// only.
#[must_use]
pub fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unseen(character) || (character.is_control() && character != '\n') {
            let mut units = [0; 2];
            shown.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Whether a reader sees all of a text in one line. Text that a form sends back has to be so, since it is not changed.
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
    fn words_of_the_worlds_scripts_are_shown_as_they_are() {
        for word in ["می\u{200c}خواهم", "क्\u{200d}ष", "👩\u{200d}🚀", "e\u{301}"] {
            assert_eq!((line(word, 99).as_str(), is_plain(word)), (word, true));
        }
        for unseen in ['\u{ad}', '\u{61c}', '\u{180e}', '\u{2060}', '\u{2065}', '\u{fffa}', '\u{e0041}'] {
            assert_eq!(line(&unseen.to_string(), 9), unseen.escape_unicode().to_string());
        }
    }

    #[test]
    fn json_for_a_terminal_is_the_same_value() {
        let value = serde_json::json!({"a\u{202e}": ["\u{9b}2J\u{7f}\u{1b}", "\u{e0041}", "ü\u{200d}"]});
        for text in [value.to_string(), format!("{value:#}")] {
            let shown = json(&text);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value, "{shown}");
            assert!(is_plain(&shown.replace('\n', "")), "{shown}");
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(line("äöü", 2), "äö…");
        assert_eq!(line("äöü", 3), "äöü");
    }
}
