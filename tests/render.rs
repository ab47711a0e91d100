//! Every format of a report that was made by hand, with names in it that try to break out.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use rooflens::document::{Arg, Catalogue};
use rooflens::render::{Format, RenderOptions, Rendered, render};
use rooflens::report::Kind;
use rooflens_schemas::MetricsFile;

use crate::support::sample_report as sample;

fn rendered(format: Format) -> Rendered {
    document(Kind::Report, format)
}

fn document(kind: Kind, format: Format) -> Rendered {
    render(&sample::report(), kind, format, &RenderOptions::default()).unwrap()
}

fn text<'a>(rendered: &'a Rendered, path: &str) -> &'a str {
    std::str::from_utf8(&rendered.files[path]).unwrap()
}

/// A message of the catalogue.
fn words(key: &str, arguments: &[(&str, Arg)]) -> String {
    Catalogue::english().line(key, arguments)
}

fn more_rows() -> String {
    words("page.more_rows", &[("file", "kernels".into())])
}

#[cfg(feature = "pdf")]
mod pdf {
    use std::collections::BTreeMap;

    use super::*;
    use rooflens::document::Block;
    use rooflens::render::RenderError;

    fn pdf(report: &rooflens::report::Report) -> Vec<u8> {
        let rendered =
            render(report, Kind::Report, Format::Pdf, &RenderOptions::default()).unwrap();
        rendered.files[&rendered.main].clone()
    }

    fn holds(bytes: &[u8], text: &str) -> bool {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    }

    #[test]
    fn is_the_same_on_every_run_and_conforms_to_pdf_a_and_pdf_ua() {
        let first = pdf(&sample::report());
        assert!(first.starts_with(b"%PDF-1.7"));
        // The typesetter fails if a standard is not met; the file's metadata says which ones it checked.
        assert!(holds(&first, "<pdfaid:part>2</pdfaid:part>"));
        assert!(holds(&first, "<pdfaid:conformance>A</pdfaid:conformance>"));
        assert!(holds(&first, "<pdfuaid:part>1</pdfuaid:part>"));
        assert!(holds(&first, "2026-03-01T12:34:56"));
        assert!(first == pdf(&sample::report()));
    }

    #[test]
    fn without_a_capture_date_it_bears_none() {
        let mut report = sample::report();
        report.meta.captured_at = None;
        let bytes = pdf(&report);
        assert!(holds(&bytes, "<pdfuaid:part>1</pdfuaid:part>"));
        assert!(!holds(&bytes, "pdfaid:part") && !holds(&bytes, "xmp:CreateDate"));
    }

    #[test]
    fn characters_without_a_glyph_do_not_stop_it() {
        let mut report = sample::report();
        report.meta.title = "\u{1f600} 测量 \u{e000} \u{0} é".to_owned();
        report.sections[0].title = String::new();
        report.sections[0]
            .blocks
            .push(Block::Heading(" ".to_owned()));
        report.sections[2].blocks = vec![Block::Facts(Vec::new()), Block::Prose(Vec::new())];
        if let Block::Chart(chart) = &mut report.sections[4].blocks[0] {
            (chart.title, chart.description) = (String::new(), String::new());
        }
        report.summary.clear();
        report.methods.clear();
        assert!(pdf(&report).starts_with(b"%PDF"));
        assert!(pdf(&rooflens::report::Report::default()).starts_with(b"%PDF"));
    }

    fn with_template(path: &str, template: &str) -> Result<Rendered, RenderError> {
        let templates = BTreeMap::from([(path.to_owned(), template.as_bytes().to_vec())]);
        render(
            &sample::report(),
            Kind::Report,
            Format::Pdf,
            &RenderOptions {
                templates,
                ..RenderOptions::default()
            },
        )
    }

    #[test]
    fn templates_can_be_replaced_and_errors_name_the_line() {
        let error = with_template("report.typ", "= One\n#panic(\"two\")")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("report.typ:2: panicked with: two"),
            "{error}"
        );
        let error = with_template("lib/blocks.typ", "").unwrap_err().to_string();
        assert!(error.contains("unresolved import"), "{error}");
    }

    #[test]
    fn templates_reach_neither_packages_nor_files() {
        for import in ["@preview/cetz:0.3.0", "/etc/passwd", "../Cargo.toml"] {
            let error =
                with_template("report.typ", &format!("#import \"{import}\": x")).unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains("not found") || error.contains("escape"),
                "{import}: {error}"
            );
        }
    }
}

#[cfg(not(feature = "pdf"))]
#[test]
fn pdf_is_refused_where_it_is_not_compiled_in() {
    let (report, options) = (sample::report(), RenderOptions::default());
    let error = render(&report, Kind::Report, Format::Pdf, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this build cannot write PDF: it was compiled without that feature"
    );
}

mod markdown {
    use super::*;
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

    fn events(text: &str) -> Vec<Event<'_>> {
        let extensions =
            Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_MATH;
        Parser::new_ext(text, extensions).collect()
    }

    #[test]
    fn names_become_no_markup() {
        let rendered = rendered(Format::Markdown);
        let markdown = text(&rendered, "report.md");
        let mut code = Vec::new();
        for event in events(markdown) {
            if let Event::Start(Tag::CodeBlock(kind)) = &event {
                code.push(format!("{kind:?}"));
                continue;
            }
            let is_markup = matches!(
                event,
                Event::Html(_)
                    | Event::InlineHtml(_)
                    | Event::InlineMath(_)
                    | Event::DisplayMath(_)
                    | Event::Start(Tag::Link { .. } | Tag::Strikethrough)
            );
            assert!(!is_markup, "{event:?}");
        }
        // The snippet of the action, the code of the notes, which ends where it ended there, and the SQL of the two findings.
        assert_eq!(
            code,
            ["", "", "sql", "sql"].map(|info| format!("Fenced(Borrowed({info:?}))"))
        );
        assert!(!markdown.contains('\u{202e}') && !markdown.contains('\u{7}'));
    }

    /// The texts of the first cells of all rows of all tables.
    fn first_cells(text: &str) -> Vec<String> {
        let (mut cells, mut column, mut cell) = (Vec::new(), 0, String::new());
        for event in events(text) {
            match event {
                Event::Start(Tag::TableRow) => column = 0,
                Event::End(TagEnd::TableCell) => {
                    if column == 0 {
                        cells.push(cell.clone());
                    }
                    column += 1;
                    cell.clear();
                }
                Event::Text(text) | Event::Code(text) => cell.push_str(&text),
                _ => {}
            }
        }
        cells
    }

    #[test]
    fn tables_show_what_the_view_asks_for_and_say_what_is_left_out() {
        let rendered = rendered(Format::Markdown);
        let markdown = text(&rendered, "report.md");
        assert!(markdown.contains(&more_rows()));
        let cells = first_cells(markdown);
        assert!(cells.contains(&"triton_poi_fused_add_mul_silu_38".to_owned()));
        // The appendix has every name whole, also the hostile one: only what cannot be shown is replaced.
        let appendix = document(Kind::Appendix, Format::Markdown);
        let cells = first_cells(text(&appendix, "appendix.md"));
        assert!(cells.contains(&sample::long_name(51)));
        let shown = sample::HOSTILE.replace(['\u{202e}', '\u{7}'], "\u{fffd}");
        assert!(cells.contains(&shown));
    }

    #[test]
    fn images_are_files_of_the_report() {
        let rendered = rendered(Format::Markdown);
        let images: BTreeSet<String> = events(text(&rendered, "report.md"))
            .into_iter()
            .filter_map(|event| match event {
                Event::Start(Tag::Image { dest_url, .. }) => Some(dest_url.into_string()),
                _ => None,
            })
            .collect();
        let files: BTreeSet<String> = rendered
            .files
            .keys()
            .filter(|path| path.ends_with(".svg"))
            .cloned()
            .collect();
        assert_eq!(images, files);
        assert_eq!(images.len(), 8);
    }

    #[test]
    fn notes_are_a_quotation_after_the_summary_and_not_in_the_appendix() {
        let quoted = |kind: Kind| {
            let rendered = document(kind, Format::Markdown);
            let markdown = text(&rendered, &rendered.main).to_owned();
            let part = markdown
                .split_once(&format!("\n## {}\n", words("page.notes", &[])))?
                .1
                .split("\n## ")
                .next()?
                .to_owned();
            Some(part.trim().to_owned())
        };
        let notes = quoted(Kind::Report).unwrap();
        assert_eq!(quoted(Kind::Summary).as_deref(), Some(notes.as_str()));
        assert_eq!(quoted(Kind::Appendix), None);
        assert!(notes.lines().all(|line| line.starts_with('>')), "{notes}");
        assert!(notes.contains(&words("page.notes_mark", &[])));
        let items = events(&notes)
            .into_iter()
            .filter(|one| matches!(one, Event::Start(Tag::Item)));
        // Two lists of two: "- one" and "1. one" begin no lists of their own.
        assert_eq!(items.count(), 4);
        assert!(notes.contains("\n>     last\n> ````"), "{notes}");
        assert!(notes.contains("The first 5.12 µs are noise."));
    }

    #[test]
    fn what_is_missing_is_said() {
        let rendered = rendered(Format::Markdown);
        let markdown = text(&rendered, "report.md");
        let not_available = words("page.not_available", &[]);
        for missing in [
            "no counters: capture an ncu pass",
            "A table that is not there",
        ] {
            assert!(
                markdown.contains(&format!("> {not_available}: {missing}")),
                "{missing}"
            );
        }
        assert!(markdown.contains("(1\u{202f}200 times)"));
    }
}

mod html {
    use std::collections::BTreeSet;

    use super::*;

    /// What elements and attributes there are next to those of charts.
    const ELEMENTS: &str = " html head meta title link style body a nav ul li main header section h1 h2 h3 h4 p dl div \
        dt dd strong span code pre ol table caption small thead tbody tfoot tr th td button label input output figure \
        figcaption article details summary select canvas template script svg desc rect path polyline circle text ";
    const ATTRIBUTES: &str = " lang charset http-equiv content name rel href class id aria-label aria-pressed aria-sort \
        type role tabindex scope hidden data-all data-finding data-stage data-sum data-v data-zoom data-iterations data-event data-call aria-live title xmlns width height viewBox font-family fill d points \
        stroke stroke-width stroke-linejoin stroke-dasharray paint-order fill-opacity transform cx cy r x y font-size \
        font-weight text-anchor ";

    /// The document without style and script, which have characters that XML does not.
    fn document(kind: Kind) -> String {
        let rendered = super::document(kind, Format::Html);
        let mut html = text(&rendered, &rendered.main).to_owned();
        for tag in ["style", "script"] {
            let (start, end) = (format!("<{tag}>"), format!("</{tag}>"));
            let mut texts = html.split(&start);
            let mut without = texts.next().unwrap().to_owned();
            for text in texts {
                let (_, after) = text.split_once(&end).unwrap();
                without.extend([start.as_str(), &end, after]);
            }
            html = without;
        }
        html
    }

    /// Elements with their attributes, in order; panics if what is opened is not closed.
    fn elements(html: &str) -> Vec<(String, Vec<(String, String)>)> {
        let mut reader = Reader::from_str(html);
        let mut elements = Vec::new();
        loop {
            match reader.read_event().unwrap() {
                Event::Start(tag) | Event::Empty(tag) => {
                    let attributes = tag.attributes().map(Result::unwrap);
                    let pair = |one: quick_xml::events::attributes::Attribute<'_>| {
                        (one.key.as_ref().to_owned(), one.value.into_owned())
                    };
                    elements.push((
                        tag.name().as_ref().to_owned(),
                        attributes.map(pair).collect(),
                    ));
                }
                Event::Eof => return elements,
                _ => {}
            }
        }
    }

    #[test]
    fn names_become_no_markup() {
        for kind in [Kind::Summary, Kind::Report, Kind::Appendix] {
            let html = document(kind);
            let is = |list: &str, name: &str| list.contains(&format!(" {name} "));
            for (element, attributes) in elements(&html) {
                assert!(is(ELEMENTS, &element), "<{element}>");
                for (name, value) in attributes {
                    assert!(is(ATTRIBUTES, &name), "{name}={value:?} of <{element}>");
                    let leads_out = name == "href" && !value.starts_with('#') && value != "data:,";
                    assert!(!leads_out, "{value}");
                }
            }
            assert_eq!(html.matches("<script").count(), 2);
            assert!(!html.contains('\u{202e}') && !html.contains('\u{7}'));
        }
    }

    #[test]
    fn links_lead_to_one_place_of_the_file() {
        let (mut ids, mut links) = (BTreeSet::new(), BTreeSet::new());
        for (name, value) in elements(&document(Kind::Report))
            .into_iter()
            .flat_map(|(_, all)| all)
        {
            match name.as_str() {
                "id" => assert!(ids.insert(value.clone()), "{value} twice"),
                "href" => drop(
                    value
                        .strip_prefix('#')
                        .map(|id| links.insert(id.to_owned())),
                ),
                _ => {}
            }
        }
        assert_eq!(links.difference(&ids).next(), None);
        for id in [
            "overview",
            "kernels",
            "table-kernels",
            "chart-roofline-dram",
            "data-quality",
        ] {
            assert!(links.contains(id), "{id}");
        }
        assert!(links.contains("finding-launch-bound") && links.contains("appendix-names"));
    }

    #[test]
    fn the_report_holds_summary_and_appendix_and_says_what_is_missing() {
        let html = document(Kind::Report);
        let shown = sample::HOSTILE.replace(['\u{202e}', '\u{7}'], "\u{fffd}");
        let shown = shown
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;");
        assert!(html.contains(&format!("<code>{shown}</code>")));
        let name = sample::long_name(51)
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        assert!(html.contains(&format!("<th scope=\"row\"><code>{name}</code></th>")));
        let not_available = words("page.not_available", &[]);
        let missing = format!("{not_available}: no counters: capture an ncu pass");
        assert!(html.contains(&missing));
        // A browser shows all rows of kernels.
        assert!(!html.contains(&more_rows()));
        // The chart of the summary and the seven of the sections.
        assert_eq!(html.matches("<svg ").count(), 8);
        // The kernels, in both documents; the others have 2 and 3 rows.
        assert_eq!(html.matches("type=\"search\"").count(), 2);
        assert!(html.contains("<span class=\"badge critical\">critical</span>"));
        assert!(html.contains("<span class=\"badge data-loss\">data loss</span>"));
    }
}

#[test]
fn json_holds_the_report_unformatted() {
    let rendered = rendered(Format::Json);
    let value: serde_json::Value = serde_json::from_str(text(&rendered, "report.json")).unwrap();
    assert_eq!(value["version"], 0);
    assert_eq!(value["sections"].as_array().unwrap().len(), 6);
    let row = &value["datasets"][0]["rows"][3];
    assert_eq!(row[0], sample::HOSTILE);
    // 900 000 000 ns / (3 + 1).
    assert_eq!(row[3], 225_000_000);
    assert!(value["datasets"][0]["rows"][4][6].is_null());
    assert_eq!(value["summary"][2]["list"][0][3]["quantity"]["value"], 0.42);
}

/// The keys of the first table below a line of a document.
fn documented(document: &str, below: &str) -> BTreeSet<String> {
    let (_, after) = document.split_once(below).unwrap();
    let lines = after.lines().skip_while(|line| !line.starts_with("| `"));
    let rows = lines.take_while(|line| line.starts_with("| `"));
    rows.map(|row| row.split('`').nth(1).unwrap().to_owned())
        .collect()
}

#[test]
fn json_has_the_keys_of_its_document() {
    let document = include_str!("../docs/report.md");
    let rendered = rendered(Format::Json);
    let file: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text(&rendered, "report.json")).unwrap();
    assert_eq!(
        file.keys().cloned().collect::<BTreeSet<_>>(),
        documented(document, "# report.json")
    );
    let parts = ["sections", "appendix"].map(|key| file[key].as_array().unwrap());
    let of_parts = parts.into_iter().flatten().map(|part| &part["blocks"]);
    let blocks = [&file["summary"], &file["notes"]]
        .into_iter()
        .chain(of_parts);
    let keys = blocks.flat_map(|blocks| blocks.as_array().unwrap());
    let keys = keys.flat_map(|block| block.as_object().unwrap().keys().cloned());
    assert_eq!(
        keys.collect::<BTreeSet<_>>(),
        documented(document, "## Blocks")
    );
}

#[test]
fn metrics_are_a_metrics_file() {
    let rendered = rendered(Format::Metrics);
    let file: MetricsFile = serde_json::from_str(text(&rendered, "metrics.json")).unwrap();
    assert_eq!((file.version, file.bundle.as_str()), (1, "h200-example-8b"));
    assert_eq!(file.metrics, sample::report().metrics);
}

#[test]
fn csv_holds_all_rows() {
    let rendered = rendered(Format::Csv);
    assert_eq!(
        rendered.files.keys().collect::<Vec<_>>(),
        ["evidence.sql", "kernels.csv", "stages.csv"]
    );
    let mut reader = csv::Reader::from_reader(text(&rendered, "kernels.csv").as_bytes());
    assert_eq!(reader.headers().unwrap().get(3), Some("total_ns"));
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 53);
    // A CSV file is printed on terminals: what acts there is replaced.
    let shown = sample::HOSTILE.replace(['\u{202e}', '\u{7}'], "\u{fffd}");
    assert_eq!(rows[3].get(0), Some(shown.as_str()));
    assert_eq!(rows[3].get(3), Some("225000000"));
    assert_eq!(rows[4].get(6), Some(""));
}

mod charts;
