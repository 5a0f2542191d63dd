//! Credentials of a caller: a signature for AWS, or the token of a user who has signed in.

mod aws;
mod bearer;
mod discovery;
mod login;
mod logins;
mod redirect;

pub(crate) use aws::AwsSignature;
pub(crate) use bearer::Bearer;
pub(crate) use login::{login, logout};
