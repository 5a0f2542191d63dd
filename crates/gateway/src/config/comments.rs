//! JSON as editors write it: with comments, and with commas after the last element.

/// The same text as plain JSON, with spaces where comments and such commas were, so that lines and columns stay.
pub(super) fn without_comments(text: &str) -> String {
    let mut plain = Plain { out: String::with_capacity(text.len()), comma: None };
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match (next, rest.peek()) {
            ('"', _) => {
                plain.value('"');
                plain.string(&mut rest);
            }
            ('/', Some('/')) => plain.blank_until(next, &mut rest, |out| out.ends_with('\n')),
            ('/', Some('*')) => {
                plain.blank(next);
                rest.next().into_iter().for_each(|star| plain.blank(star));
                plain.block(&mut rest);
            }
            (',', _) => plain.comma(),
            ('}' | ']', _) => plain.close(next),
            (space, _) if space.is_whitespace() => plain.out.push(space),
            (other, _) => plain.value(other),
        }
    }
    plain.out
}

struct Plain {
    out: String,
    /// Where the last comma is, if nothing but space followed it.
    comma: Option<usize>,
}

type Rest<'t> = std::iter::Peekable<std::str::Chars<'t>>;

impl Plain {
    fn value(&mut self, next: char) {
        self.comma = None;
        self.out.push(next);
    }

    fn comma(&mut self) {
        self.comma = Some(self.out.len());
        self.out.push(',');
    }

    fn close(&mut self, bracket: char) {
        if let Some(at) = self.comma.take() {
            self.out.replace_range(at..=at, " ");
        }
        self.out.push(bracket);
    }

    fn string(&mut self, rest: &mut Rest<'_>) {
        while let Some(next) = rest.next() {
            self.out.push(next);
            match next {
                '"' => return,
                '\\' => self.out.extend(rest.next()),
                _ => {}
            }
        }
    }

    fn blank(&mut self, next: char) {
        self.out.push(if next == '\n' { '\n' } else { ' ' });
    }

    fn blank_until(&mut self, first: char, rest: &mut Rest<'_>, is_end: impl Fn(&str) -> bool) {
        self.blank(first);
        while !is_end(&self.out) {
            let Some(next) = rest.next() else { return };
            self.blank(next);
        }
    }

    fn block(&mut self, rest: &mut Rest<'_>) {
        let mut star = false;
        for next in rest {
            self.blank(next);
            if star && next == '/' {
                return;
            }
            star = next == '*';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_last_commas_become_spaces() {
        let text = "{ // one, \"two\"\n \"a\": [1, 2, /* three */ ],\n \"b\": \"// not, ] \\\" one\",\n}";
        let plain = without_comments(text);
        assert_eq!(plain, "{              \n \"a\": [1, 2              ],\n \"b\": \"// not, ] \\\" one\" \n}");
        assert_eq!(plain.len(), text.len());
    }

    #[test]
    fn a_text_that_ends_early_stays_one() {
        for text in ["", "/", "/*", "//", "\"", "\"\\", "{,"] {
            assert_eq!(without_comments(text).len(), text.len(), "{text}");
        }
    }
}
