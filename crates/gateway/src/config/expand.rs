//! `${VAR}` in the texts of a configuration.

use longhaul::settings::EnvSource;

/// Why a text has no value.
pub(super) enum Unexpanded {
    /// This variable is not set.
    NotSet(String),
    /// What is wrong, and what to write.
    Wrong(String),
}

/// The text with the values of the variables that it names.
pub(super) fn expand(text: &str, env: &dyn EnvSource) -> Result<String, Unexpanded> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, after)) = after.split_once('}') else {
            return Err(Unexpanded::Wrong("a `${` has no `}`".to_owned()));
        };
        out.push_str(before);
        out.push_str(&value(inside, env)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn value(inside: &str, env: &dyn EnvSource) -> Result<String, Unexpanded> {
    let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, default)| (name, Some(default)));
    let name = name.strip_prefix("env:").unwrap_or(name);
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|next| next.is_ascii_alphanumeric() || next == '_');
    if !is_name {
        return Err(Unexpanded::Wrong(format!(
            "`${{{inside}}}` is known to an editor only: write `${{NAME}}` for the environment variable NAME, or the \
             value"
        )));
    }
    match env.get(name).map(std::ffi::OsString::into_string) {
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => Err(Unexpanded::Wrong(format!("the environment variable `{name}` is not UTF-8"))),
        None => default.map(str::to_owned).ok_or_else(|| Unexpanded::NotSet(name.to_owned())),
    }
}
