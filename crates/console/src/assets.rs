//! The files that pages load.

/// A file.
pub(crate) struct Asset {
    pub(crate) kind: &'static str,
    pub(crate) text: &'static str,
}

/// That of a name.
pub(crate) fn find(name: &str) -> Option<Asset> {
    let (kind, text) = match name {
        "console.css" => {
            ("text/css; charset=utf-8", concat!(include_str!("assets/console.css"), include_str!("assets/forms.css")))
        }
        "console.js" => ("text/javascript; charset=utf-8", include_str!("assets/console.js")),
        "icon.svg" => ("image/svg+xml", include_str!("assets/icon.svg")),
        _ => return None,
    };
    Some(Asset { kind, text })
}
