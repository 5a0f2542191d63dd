//! Results and resources in files: text as text, and an image, a sound or an embedded resource as its bytes.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::args::Saved;
use crate::exit::{Exit, Stop};
use crate::out::line;
use crate::render;

/// Writes one content to a file, or `text` if all contents are text or JSON is wanted.
pub(crate) fn save(
    path: &Path,
    saved: &Saved,
    contents: &[Value],
    text: impl FnOnce() -> String,
    is_json: bool,
) -> Result<(), Stop> {
    let files: Vec<&Value> = contents.iter().filter(|content| is_file(content)).collect();
    let bytes = match (saved.content, files.as_slice()) {
        (Some(number), _) => {
            let chosen = number.checked_sub(1).and_then(|index| contents.get(index));
            bytes_of(chosen.ok_or_else(|| choose(contents))?)?
        }
        _ if is_json => text().into_bytes(),
        (None, []) => text().into_bytes(),
        (None, [file]) if contents.len() == 1 => bytes_of(file)?,
        (None, _) => return Err(choose(contents)),
    };
    write(path, saved, &bytes).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Stop::usage(format!("`{}` exists: name another file, or overwrite it with --force", path.display()))
        }
        _ => Stop::new(Exit::Unexpected, format!("`{}` cannot be written: {error}", path.display())),
    })
}

/// A device such as `/dev/null` exists, and has nothing to overwrite.
fn write(path: &Path, saved: &Saved, bytes: &[u8]) -> io::Result<()> {
    let is_new = !saved.force && path.metadata().map_or(true, |there| there.is_file() || there.is_dir());
    let mut options = OpenOptions::new();
    options.write(true).truncate(true).create(true).create_new(is_new);
    options.open(path)?.write_all(bytes)
}

fn is_file(content: &Value) -> bool {
    content.get("data").is_some() || content.get("resource").is_some()
}

/// The bytes of an image, a sound or a resource; of all else the text.
fn bytes_of(content: &Value) -> Result<Vec<u8>, Stop> {
    match content["data"].as_str().or_else(|| content["resource"]["blob"].as_str()) {
        Some(data) => BASE64_STANDARD.decode(data).map_err(|error| {
            Stop::new(Exit::Unexpected, format!("the server sends a content that is not valid base64: {error}"))
        }),
        None => Ok(render::content(content).into_bytes()),
    }
}

fn choose(contents: &[Value]) -> Stop {
    let kind = |content: &Value| {
        let mime = content["mimeType"].as_str().or_else(|| content["resource"]["mimeType"].as_str());
        line(mime.or_else(|| content["type"].as_str()).unwrap_or("content"))
    };
    let all: Vec<String> = contents.iter().zip(1..).map(|(one, number)| format!("{number} {}", kind(one))).collect();
    let listed = if all.is_empty() { "no content".to_owned() } else { all.join(", ") };
    Stop::usage(format!("the result has {listed}: choose one with --content NUMBER, or save all with --json"))
}
