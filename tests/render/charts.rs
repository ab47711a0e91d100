//! The charts of the sample: nothing is clipped, covered or taken for markup.

use super::*;
use rooflens::document::Catalogue;

/// A text with its place, as far as a reader of XML can tell.
#[derive(Debug)]
struct Label {
    text: String,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Label {
    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = tag.try_get_attribute(name).unwrap()?;
    Some(attribute.value.into_owned())
}

fn number(tag: &BytesStart<'_>, name: &str) -> f64 {
    attribute(tag, name).unwrap().parse().unwrap()
}

/// The box of a text if its characters were half as wide as high: less than the face's mean, so that
/// whatever this finds wrong is wrong.
fn label(tag: &BytesStart<'_>, text: String) -> Label {
    let (x, y, size) = (number(tag, "x"), number(tag, "y"), number(tag, "font-size"));
    let width = text.chars().count() as f64 * size * 0.42;
    let left = match attribute(tag, "text-anchor").as_deref() {
        Some("middle") => x - width / 2.0,
        Some("end") => x - width,
        _ => x,
    };
    Label {
        text,
        left,
        right: left + width,
        top: y - size * 0.65,
        bottom: y,
    }
}

/// Parses a chart; every number in it must be finite. Returns its size and its upright texts.
fn parse(svg: &str) -> (f64, f64, Vec<Label>) {
    let mut reader = Reader::from_str(svg);
    let (mut size, mut labels, mut open, mut words) = ((0.0, 0.0), Vec::new(), None, String::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Start(tag) if tag.name().as_ref() == "svg" => {
                // Where texts stand is in units of the view box.
                let view = attribute(&tag, "viewBox").unwrap();
                let [_, _, width, height] = view
                    .split(' ')
                    .map(|number| number.parse().unwrap())
                    .collect::<Vec<f64>>()
                    .try_into()
                    .unwrap();
                size = (width, height);
            }
            Event::Start(tag) if tag.name().as_ref() == "text" => {
                open = Some(tag.into_owned());
                words.clear();
            }
            Event::Text(text) => words.push_str(&text),
            Event::GeneralRef(_) => words.push('&'),
            Event::End(tag) if tag.name().as_ref() == "text" => {
                let tag = open.take().unwrap();
                if attribute(&tag, "transform").is_none() {
                    labels.push(label(&tag, words.clone()));
                }
            }
            Event::Eof => return (size.0, size.1, labels),
            _ => {}
        }
    }
}

fn charts() -> Vec<(String, String)> {
    let rendered = rendered(Format::Markdown);
    let charts = rendered
        .files
        .into_iter()
        .filter(|(path, _)| path.ends_with(".svg"));
    charts
        .map(|(path, bytes)| (path, String::from_utf8(bytes).unwrap()))
        .collect()
}

#[test]
fn no_text_is_clipped_or_covers_another() {
    for (path, svg) in charts() {
        let (width, height, labels) = parse(&svg);
        assert!(labels.len() > 5, "{path}: {} texts", labels.len());
        for (n, label) in labels.iter().enumerate() {
            let inside = label.left >= 0.0
                && label.top >= 0.0
                && label.right <= width
                && label.bottom <= height;
            assert!(
                inside,
                "{path}: {} at {label:?} of {width} x {height}",
                label.text
            );
            let covered = labels.iter().take(n).find(|other| other.overlaps(label));
            let covered = covered.map(|other| &other.text);
            assert!(
                covered.is_none(),
                "{path}: {} covers {covered:?}",
                label.text
            );
        }
    }
}

#[test]
fn numbers_are_finite_and_names_stay_text() {
    for (path, svg) in charts() {
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{path}");
        assert!(!svg.contains("<script"), "{path}");
        assert!(svg.contains(", drawn for a test.</desc>"), "{path}");
    }
}

#[test]
fn a_roofline_shows_roofs_and_heaviest_kernels() {
    let charts = charts();
    let (_, svg) = charts
        .iter()
        .find(|(path, _)| path.contains("roofline"))
        .unwrap();
    for text in [
        "DRAM 4.80 TB/s (datasheet)",
        "BF16 743 TFLOP/s (measured)",
        "30.0 %",
    ] {
        assert!(svg.contains(&format!(">{text}</text>")), "{text}");
    }
    // Three measured roofs are dashed.
    assert_eq!(svg.matches("stroke-dasharray").count(), 3);
    let arguments = [("left_out", "1".into()), ("points", "40".into())];
    let outside = Catalogue::english().line("chart.outside", &arguments);
    assert!(svg.contains(&outside), "{outside}");
}

#[test]
fn bars_show_shares_of_their_total() {
    let charts = charts();
    let (_, svg) = charts
        .iter()
        .find(|(path, _)| path.contains("stages-share"))
        .unwrap();
    // 120 of 223 ms.
    assert!(svg.contains(">54 %</text>"));
}
