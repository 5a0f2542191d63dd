//! Values that pass through clients: signed, bound to their owners, and derived from the secret of the deployment.

pub(crate) mod derived;
pub(crate) mod session;
pub(crate) mod signer;
