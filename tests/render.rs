//! Every format of a report that was made by hand.
#![allow(clippy::unwrap_used)]

use rooflens::render::{Format, RenderOptions, Rendered, render};

#[path = "support/sample_report.rs"]
mod sample;

fn rendered(format: Format) -> Rendered {
    render(&sample::report(), format, &RenderOptions::default()).unwrap()
}

fn main_text(rendered: &Rendered) -> &str {
    std::str::from_utf8(&rendered.files[&rendered.main]).unwrap()
}

#[cfg(feature = "pdf")]
mod pdf;

mod charts;
mod texts;
