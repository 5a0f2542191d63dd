//! Whether a caller may do what needs certain scopes.

use std::collections::BTreeSet;

use longhaul_core::{MissingScopes, Principal};

use crate::settings::NeededScopes;

/// Whether the caller has all of these scopes.
pub(crate) fn has_all<'a>(caller: &Principal, needed: impl IntoIterator<Item = &'a String>) -> bool {
    needed.into_iter().all(|scope| caller.scopes.contain(scope))
}

/// Whether the caller may call `tool`, and sees it in lists.
pub(crate) fn may_call(scopes: &NeededScopes, caller: &Principal, tool: &str) -> bool {
    has_all(caller, scopes.of_call(tool))
}

/// What the caller lacks of `needed`; `None` if nothing.
pub(crate) fn missing(scopes: &NeededScopes, caller: &Principal, needed: &BTreeSet<String>) -> Option<MissingScopes> {
    let has = |scope: &String| caller.scopes.contain(scope);
    let missing: BTreeSet<String> = needed.iter().filter(|scope| !has(scope)).cloned().collect();
    let wanted = || scopes.all().into_iter().filter(|scope| needed.contains(scope) || has(scope)).collect();
    if missing.is_empty() { None } else { Some(MissingScopes { missing, wanted: wanted() }) }
}
