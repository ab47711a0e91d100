use clap::Args;
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {}
pub(crate) fn run(_: &BenchArguments) -> Result<String, crate::error::CaptureError> { Ok(String::new()) }
