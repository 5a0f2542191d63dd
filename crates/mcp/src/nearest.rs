//! The name that was probably meant by one that is not known.

/// How similar a name must be to be suggested, between 0 and 1.
const SIMILARITY_MIN: f64 = 0.5;

/// The most similar of `names`, if any is similar enough.
pub(crate) fn nearest<T: AsRef<str>>(unknown: &str, names: impl Iterator<Item = T>) -> Option<T> {
    let similarity = |name: &T| strsim::normalized_damerau_levenshtein(unknown, name.as_ref());
    let similar = names.map(|name| (similarity(&name), name)).filter(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    similar.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, name)| name)
}
