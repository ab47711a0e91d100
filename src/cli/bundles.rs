//! `rooflens validate`, `pack` and `unpack`.

use super::args::{Pack, Path, Unpack};
use super::error::CliError;
use super::term::Term;

/// stub
pub(super) fn validate(_: &Path, _: &mut Term) -> Result<(), CliError> {
    Ok(())
}
/// stub
pub(super) fn pack(_: &Pack, _: &mut Term) -> Result<(), CliError> {
    Ok(())
}
/// stub
pub(super) fn unpack(_: &Unpack, _: &mut Term) -> Result<(), CliError> {
    Ok(())
}
