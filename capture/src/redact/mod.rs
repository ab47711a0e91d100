//! What must not leave the machine: keys and tokens, environments, names of hosts and users.
//!
//! Four lines of defence. nsys exports lose every environment that they hold ([`export`]), whatever is in it. Reports
//! of ncu lose host, addresses and users ([`rooflens_schemas::ncu_report`], which the analyzer uses, too). Command
//! lines are masked as they are recorded ([`Secrets::masked`]). And the values of what looks like a secret in our own
//! environment or command line are looked for, however they are spelt ([`needle`]), in output as it is written
//! ([`Masker`]) and in every file before it becomes part of the bundle ([`Secrets::mask_file`]). Masks are as long as
//! what they cover, so that binary files stay whole.

pub(crate) mod export;
#[cfg(test)]
mod fuzz;
mod masker;
mod needle;
mod secrets;
mod sqlite;
mod telling;

pub(crate) use masker::Masker;
pub(crate) use secrets::Secrets;
pub(crate) use sqlite::{Database, Schema};
