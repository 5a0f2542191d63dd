//! Three tools that are one: one starts a job, one tells its state, one stops it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::reader::{Members, Node, Reader, is_of_names};

/// Tools of a server that are shown as one durable tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    /// Where it is in the configuration, as a JSON pointer.
    pub(crate) place: String,
    /// The name of the tool that clients see, without the server's prefix.
    pub(crate) name: String,
    pub(crate) start: String,
    pub(crate) status: String,
    pub(crate) stop: Option<String>,
    /// The tool that has the result; `None` if it is in the last answer of `status`.
    pub(crate) result: Option<String>,
    /// Where the job's id is in the answer of `start`.
    pub(crate) id: Pointer,
    /// The argument of the other tools that takes the id.
    pub(crate) id_argument: String,
    /// Where the job's state is in the answer of `status`.
    pub(crate) state: Pointer,
    /// The states in which the job is done.
    pub(crate) done: Vec<String>,
    /// The states in which it has failed.
    pub(crate) failed: Vec<String>,
    /// How long to wait between two polls; `None` for longer and longer pauses.
    pub(crate) every: Option<Duration>,
    pub(crate) progress: ProgressPointers,
}

/// Where an answer says how far the job is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgressPointers {
    pub(crate) done: Option<Pointer>,
    pub(crate) total: Option<Pointer>,
    pub(crate) message: Option<Pointer>,
}

impl Fold {
    /// The tools that clients do not see, with the members of the configuration that name them.
    pub(crate) fn tools(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let optional = [("stop", &self.stop), ("result", &self.result)];
        let optional = optional.into_iter().filter_map(|(member, tool)| Some((member, tool.as_deref()?)));
        [("start", &*self.start), ("status", &*self.status)].into_iter().chain(optional)
    }
}

/// A JSON pointer (RFC 6901) whose syntax was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer(String);

impl Pointer {
    fn new(text: String) -> Result<Self, String> {
        let escaped = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
        if escaped && text.starts_with('/') {
            return Ok(Self(text));
        }
        Err(format!("`{text}` is not a JSON pointer: write `/` before each name, such as \"/job/id\""))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.pointer(&self.0)
    }

    fn last_segment(&self) -> String {
        let last = self.0.rsplit('/').next().unwrap_or_default();
        last.replace("~1", "/").replace("~0", "~")
    }
}

pub(super) fn folds(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Vec<Fold> {
    let Some(node) = members.find("fold") else { return Vec::new() };
    let Some(list) = node.value.as_array() else {
        reader.fault(&node.pointer, "must be a list of objects");
        return Vec::new();
    };
    let (mut folds, mut names) = (Vec::new(), BTreeSet::new());
    for (index, value) in list.iter().enumerate() {
        let node = node.child(&index.to_string(), value);
        let Some(fold) = fold(reader, &node) else { continue };
        if !names.insert(fold.name.clone()) {
            reader.fault(&format!("{}/name", node.pointer), format!("`{}` is taken by another one", fold.name));
        }
        folds.push(fold);
    }
    folds
}

/// One of them; `None` if it has mistakes.
fn fold(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Fold> {
    let mut members = reader.members(node)?;
    let [name, start, status] = ["name", "start", "status"].map(|key| members.required(reader, key, Reader::text));
    if name.as_ref().is_some_and(|name| name.is_empty() || !name.chars().all(is_of_names)) {
        let what = "cannot be the name of a tool: use letters, digits, `_`, `-` and `.`";
        reader.fault(&members.pointer("name"), what);
    }
    let [stop, result, id_argument] =
        ["stop", "result", "idArgument"].map(|key| members.optional(reader, key, Reader::text));
    let [id, state] = ["id", "state"].map(|key| members.required(reader, key, pointer));
    let (done, failed) = states(reader, &mut members);
    let every =
        members.optional(reader, "every", |reader, node| reader.positive(node, "leaves no pause: name a time above 0"));
    let [of_done, total, message] = ["progress", "total", "message"].map(|key| members.optional(reader, key, pointer));
    let progress = ProgressPointers { done: of_done, total, message };
    reader.refuse_unknown(&members);
    let id = id?;
    Some(Fold {
        place: node.pointer.clone(),
        name: name?,
        start: start?,
        status: status?,
        stop,
        result,
        id_argument: id_argument.unwrap_or_else(|| id.last_segment()),
        id,
        state: state?,
        done: done?,
        failed,
        every,
        progress,
    })
}

pub(super) fn pointer(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Pointer> {
    let text = reader.text(node)?;
    reader.read(node, Pointer::new(text))
}

/// The states in which a job is done, and those in which it has failed.
pub(super) fn states(reader: &mut Reader<'_>, members: &mut Members<'_>) -> (Option<Vec<String>>, Vec<String>) {
    fn named(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Vec<String>> {
        let states = reader.texts(node)?;
        reader.read(node, if states.is_empty() { Err("names no state".to_owned()) } else { Ok(states) })
    }
    let done = members.required(reader, "done", named);
    let failed = members.optional(reader, "failed", named).unwrap_or_default();
    if let Some(both) = done.iter().flatten().find(|state| failed.contains(state)) {
        reader.fault(&members.pointer("failed"), format!("`{both}` is also in `done`"));
    }
    (done, failed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pointer_has_a_slash_before_each_name() {
        for wrong in ["", "scanId", "/a~", "/a~2", "#/a"] {
            assert!(Pointer::new(wrong.to_owned()).is_err(), "{wrong}");
        }
        let pointer = Pointer::new("/a~1b/0/c~0d".to_owned()).unwrap();
        assert_eq!(pointer.find(&json!({"a/b": [{"c~d": 7}]})), Some(&json!(7)));
        assert_eq!(pointer.last_segment(), "c~d");
    }
}
