//! Answers of AWS in XML, as elements that have names, text and children.

/// An element. A missing one reads as empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    name: String,
    text: String,
    children: Vec<Self>,
}

impl Element {
    /// The outermost element of a document; `None` if it is not XML.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let document = roxmltree::Document::parse(text).ok()?;
        Some(Self::of(document.root_element()))
    }

    fn of(node: roxmltree::Node<'_, '_>) -> Self {
        let text = node.children().filter(roxmltree::Node::is_text).filter_map(|text| text.text()).collect();
        let children = node.children().filter(roxmltree::Node::is_element).map(Self::of).collect();
        Self { name: node.tag_name().name().to_owned(), text, children }
    }

    /// The first element at a path such as `Result/Stacks`.
    pub(super) fn find(&self, path: &str) -> Option<&Self> {
        path.split('/').try_fold(self, |at, name| at.children.iter().find(|child| child.name == name))
    }

    /// The child with this name, taken out of this element.
    pub(super) fn take(&mut self, name: &str) -> Self {
        let at = self.children.iter().position(|child| child.name == name);
        at.map_or_else(Self::default, |at| self.children.swap_remove(at))
    }

    pub(super) fn into_children(self) -> Vec<Self> {
        self.children
    }

    /// The text of the first element at a path.
    pub(super) fn text(&self, path: &str) -> &str {
        self.find(path).map_or("", |element| element.text.as_str())
    }

    /// The elements below the one at a path.
    pub(super) fn below(&self, path: &str) -> &[Self] {
        self.find(path).map_or(&[], |element| element.children.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_their_path() {
        let text = r#"<?xml version="1.0"?><A xmlns="urn:x"><B><member><K>a&amp;b</K></member><member/></B><C>
            x</C></A>"#;
        let read = Element::parse(text).unwrap();
        assert_eq!(read.below("B").len(), 2);
        assert_eq!(read.text("B/member/K"), "a&b");
        assert_eq!(read.text("C").trim(), "x");
        assert_eq!((read.text("D/K"), read.below("D").len()), ("", 0));
        assert_eq!(Element::parse("{}"), None);
    }
}
