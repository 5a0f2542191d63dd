//! Whether a caller may do what needs certain scopes.

use std::collections::BTreeSet;

use longhaul_core::{MissingScopes, Principal};

use crate::settings::NeededScopes;

/// Whether the caller has all of these scopes.
pub(crate) fn has_all<'a>(caller: &Principal, needed: impl IntoIterator<Item = &'a String>) -> bool {
    needed.into_iter().all(|scope| caller.scopes.contain(scope))
}

/// What the caller lacks of `needed`; `None` if nothing.
pub(crate) fn missing(scopes: &NeededScopes, caller: &Principal, needed: &BTreeSet<String>) -> Option<MissingScopes> {
    let has = |scope: &String| caller.scopes.contain(scope);
    let missing: BTreeSet<String> = needed.iter().filter(|scope| !has(scope)).cloned().collect();
    let wanted = || scopes.all().into_iter().filter(has).chain(needed.iter().cloned()).collect();
    if missing.is_empty() { None } else { Some(MissingScopes { missing, wanted: wanted() }) }
}
