//! Views of data sets as tables: which cells, how wide, in which unit.

use crate::length::Pt;
use rooflens_schemas::Unit;
use rooflens_units::{Count, Ratio};

use super::measure::{PAGE, is_east_asian, mono, mono_characters, sans};
use super::text::{clean, shorten};
use rooflens_document::report::Report;
use rooflens_document::{Catalogue, Cell, Column, Dataset, Scale, View, words};

/// Space at both sides of a cell.
const PADDING: Pt = Pt(9.0);
/// Narrowest column of names that still tells something.
const NARROWEST: Pt = Pt(90.0);
/// Size of the fixed-width face next to the other; the template sets the same.
const MONO_SIZE: Ratio = Ratio(0.9);
/// From one line of a cell to the next in font sizes: cap height and leading.
const LINE: Ratio = Ratio(1.2);
/// What a row is higher than its lines: its insets less one leading.
const MARGIN: Pt = Pt(1.4);
/// Lines on which names may stand.
const LINES: usize = 2;
/// Texts beyond this width wrap.
const WRAP: Pt = Pt(110.0);

/// How a table shows names from the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Shortened in the middle until they fit on a line.
    Shortened,
    /// Whole, over several lines if need be.
    Whole,
}

/// A table as a page shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    /// Id of the data set.
    pub(crate) dataset: &'static str,
    /// Its number among those of the document.
    pub(crate) number: usize,
    /// Caption.
    pub(crate) caption: String,
    /// Font size.
    pub(crate) size: Pt,
    /// Columns.
    pub(crate) columns: Vec<Head>,
    /// Texts of the cells.
    pub(crate) rows: Vec<Vec<String>>,
    /// Height on paper without the caption, by the widths of the texts: near enough to keep a short table on
    /// one page, where measuring would lay it out twice.
    pub(crate) height: Pt,
    /// What the table omits.
    pub(crate) note: Option<String>,
}

/// A column as a page shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    /// Id of the column.
    pub(crate) id: &'static str,
    /// Heading, with the unit of its numbers if they share one.
    pub(crate) title: String,
    /// Numbers: aligned at the right.
    pub(crate) numeric: bool,
    /// Names from the data: in the fixed-width face.
    pub(crate) mono: bool,
    /// Width.
    pub(crate) width: Pt,
    /// The numbers of cells that each carry a unit of their own; else empty.
    pub(crate) numbers: Vec<Option<f64>>,
}

impl Table {
    /// The table that `view` describes; none if there is no row to show.
    pub(crate) fn new(
        report: &Report,
        dataset: &Dataset,
        view: &View,
        names: Names,
    ) -> Option<Self> {
        let rows: Vec<&Vec<Cell>> = dataset
            .rows
            .iter()
            .skip(view.skip)
            .take(view.limit)
            .collect();
        let mut columns: Vec<(&Column, Vec<&Cell>)> = Vec::new();
        for id in &view.columns {
            let Some(position) = dataset.position(id) else {
                continue;
            };
            let mut cells = Vec::with_capacity(rows.len());
            for row in &rows {
                cells.push(row.get(position).unwrap_or(&Cell::Missing));
            }
            columns.push((&dataset.columns[position], cells));
        }
        let mut drafts = Vec::new();
        for (column, cells) in &columns {
            let alike = columns.iter().filter(|(other, _)| is_alike(column, other));
            let scale = Scale::of(alike.flat_map(|(_, cells)| numbers(cells)), column.unit);
            drafts.push(Draft::new(report.text, column, cells, scale));
        }
        if rows.is_empty() || drafts.is_empty() {
            return None;
        }
        let size = layout(&mut drafts, names);
        let height = height(&drafts, rows.len(), size);
        let mut texts = vec![Vec::with_capacity(drafts.len()); rows.len()];
        let mut columns = Vec::with_capacity(drafts.len());
        for draft in drafts {
            for (row, text) in texts.iter_mut().zip(draft.texts) {
                row.push(text);
            }
            columns.push(draft.head);
        }
        Some(Self {
            dataset: view.dataset,
            number: 0,
            caption: clean(&view.caption).into_owned(),
            size,
            height,
            rows: texts,
            note: note(report, dataset, view, rows.len()),
            columns,
        })
    }
}

impl Table {
    #[cfg(any(feature = "pdf", test))]
    /// Keeps the first rows; `note` says where the others are.
    pub(crate) fn keep(&mut self, rows: usize, note: String) {
        self.rows.truncate(rows);
        for column in &mut self.columns {
            column.numbers.truncate(rows);
        }
        self.note = Some(note);
    }
}

/// Says where rows are that are not shown.
fn note(report: &Report, dataset: &Dataset, view: &View, shown: usize) -> Option<String> {
    let is_all = shown >= view.group.unwrap_or(dataset.rows.len());
    (!is_all).then(|| words!(report, "page.more_rows", file = dataset.id))
}

/// Columns whose texts are labels of ours and not names from the data: pages have words for them.
const LABELS: [&str; 29] = [
    "assumption",
    "basis",
    "bottleneck",
    "bound",
    "bound_now",
    "bound_reason",
    "bound_seed",
    "category",
    "cause",
    "class",
    "fate",
    "format",
    "formula",
    "grade",
    "kind",
    "label",
    "limiter",
    "match",
    "next",
    "outcome",
    "part",
    "phase",
    "queue_source",
    "set_by",
    "severity",
    "status",
    "unit",
    "verdict",
    "what",
];

/// A column in the making.
struct Draft {
    head: Head,
    texts: Vec<String>,
}

impl Draft {
    fn new(
        text: &'static Catalogue,
        column: &Column,
        cells: &[&Cell],
        scale: Option<Scale>,
    ) -> Self {
        let numeric = !cells
            .iter()
            .any(|cell| matches!(cell, Cell::Text(_) | Cell::Name(_) | Cell::Flag(_)));
        let texts = cells.iter().map(|cell| match cell {
            Cell::Text(value) if LABELS.contains(&column.id) => {
                clean(text.word(value)).into_owned()
            }
            Cell::Flag(_) => text.word(&cell.plain()).to_owned(),
            _ => show(cell, column.unit, scale),
        });
        let texts = texts.collect();
        let title = match scale {
            Some(scale) if !scale.symbol.is_empty() => {
                format!("{} ({})", column.title, scale.symbol)
            }
            _ => column.title.to_owned(),
        };
        let mono = cells.iter().any(|cell| matches!(cell, Cell::Name(_)));
        let mixed = numeric && scale.is_none();
        let numbers = match mixed {
            true => cells.iter().map(|cell| number(cell)).collect(),
            false => Vec::new(),
        };
        Self {
            head: Head {
                id: column.id,
                title,
                numeric,
                mono,
                width: Pt::ZERO,
                numbers,
            },
            texts,
        }
    }

    /// Width of a cell's text on one line.
    fn width(&self, text: &str, size: Pt) -> Pt {
        if self.head.mono {
            mono(text, size * MONO_SIZE)
        } else {
            sans(text, size, false)
        }
    }

    /// Width of the widest cell.
    fn content(&self, size: Pt) -> Pt {
        self.texts
            .iter()
            .map(|text| self.width(text, size))
            .fold(Pt::ZERO, Pt::max)
    }

    /// Width that the heading needs on about so many lines.
    fn heading(&self, size: Pt, lines: Count) -> Pt {
        // East Asian text breaks between any two characters.
        let words = self.head.title.split(|c| c == ' ' || is_east_asian(c));
        let words = words.map(|word| sans(word, size, true));
        let whole = sans(&self.head.title, size, true) / lines.0;
        let whole = match self.head.title.contains(is_east_asian) {
            // Lines of whole characters, two at least.
            true => size * libm::ceil(whole / size).max(2.0),
            false => whole,
        };
        words.fold(whole, Pt::max)
    }

    /// Whether the column gives way: names and long texts do, numbers never.
    fn yields(&self, size: Pt) -> bool {
        !self.head.numeric && self.content(size) > WRAP
    }
}

/// Whether two columns are one figure of two captures, such as `bound_before_ns` and `bound_after_ns`, or its difference: they
/// share a scale.
fn is_alike(column: &Column, other: &Column) -> bool {
    let figure = |id: &str| id.replace("before", "after").replace("difference", "after");
    figure(column.id) == figure(other.id)
}

fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Int(value) => Some(*value as f64),
        Cell::Float(value) => Some(*value),
        _ => None,
    }
}

fn numbers(cells: &[&Cell]) -> impl Iterator<Item = f64> + Clone {
    cells.iter().filter_map(|cell| number(cell))
}

fn show(cell: &Cell, unit: Unit, scale: Option<Scale>) -> String {
    match (cell, scale) {
        (Cell::Int(value), Some(scale)) => scale.show(*value as f64),
        (Cell::Float(value), Some(scale)) => scale.show(*value),
        // A column of zeros has no scale.
        (Cell::Int(0), _) => "0".to_owned(),
        (Cell::Float(value), _) if *value == 0.0 => "0".to_owned(),
        _ => clean(&cell.show(unit)).into_owned(),
    }
}

/// Sets widths and shortens names; returns the font size.
fn layout(drafts: &mut [Draft], names: Names) -> Pt {
    let (size, lines) = choose(drafts);
    let mut drafts: Vec<&mut Draft> = drafts.iter_mut().collect();
    // Columns that do not give way come first, then the narrow ones of those that do.
    drafts.sort_by(|a, b| {
        let widths = natural(a, size, lines).total_cmp(&natural(b, size, lines));
        a.yields(size).cmp(&b.yields(size)).then(widths)
    });
    let fixed = drafts
        .iter()
        .filter(|d| !d.yields(size))
        .map(|d| natural(d, size, lines));
    // What does not fit at any size shrinks in proportion; its cells wrap.
    let shrink = (PAGE / fixed.sum::<Pt>().max(Pt(1.0))).min(1.0);
    let (mut rest, mut open) = (PAGE, drafts.iter().filter(|d| d.yields(size)).count());
    for draft in drafts {
        let natural = natural(draft, size, lines);
        draft.head.width = if draft.yields(size) {
            let fair = (rest / open.max(1) as f64).max(NARROWEST);
            open = open.saturating_sub(1);
            natural.min(fair)
        } else {
            natural * shrink
        };
        rest -= draft.head.width;
        if draft.head.mono && draft.yields(size) && names == Names::Shortened {
            let line = mono_characters(draft.head.width - PADDING - Pt(0.5), size * MONO_SIZE);
            draft.texts.iter_mut().for_each(|text| {
                // What two lines hold stays whole: kernels of one family differ where the middle is excluded.
                if !fits_on(text, line, LINES) {
                    *text = shorten(text, line);
                }
            });
        }
    }
    size
}

/// Height of the heading and of so many rows of cells.
fn height(drafts: &[Draft], rows: usize, size: Pt) -> Pt {
    let lines =
        |draft: &Draft, width: Pt| libm::ceil(width / (draft.head.width - PADDING)).max(1.0);
    let most = |lines: &dyn Fn(&Draft) -> f64| drafts.iter().map(lines).fold(1.0, f64::max);
    let heading = most(&|draft| lines(draft, sans(&draft.head.title, size, true)));
    let row = |row: usize| {
        most(&|draft| {
            draft
                .texts
                .get(row)
                .map_or(1.0, |text| lines(draft, draft.width(text, size)))
        })
    };
    let lines = heading + (0..rows).map(row).sum::<f64>();
    size * lines * LINE + MARGIN * (rows + 1) as f64
}

/// Whether a text that breaks between words fits on so many lines of so many characters.
fn fits_on(text: &str, line: usize, lines: usize) -> bool {
    let (mut used, mut room) = (1, line);
    for word in text.split(' ') {
        let length = word.chars().count();
        if length > room && room < line {
            (used, room) = (used + 1, line);
        }
        if length > line {
            return false;
        }
        room = room.saturating_sub(length + 1);
    }
    used <= lines
}

/// The font size and the lines of headings: everything on one line if that is possible without small type,
/// else the largest size at which names and long texts, giving way, keep a useful width.
fn choose(drafts: &[Draft]) -> (Pt, Count) {
    let full = |d: &Draft, size, lines| natural(d, size, lines);
    let least = |d: &Draft, size, lines| {
        if d.yields(size) {
            NARROWEST
        } else {
            natural(d, size, lines)
        }
    };
    let sum = |width: &dyn Fn(&Draft, Pt, Count) -> Pt, (size, lines): (Pt, Count)| {
        drafts.iter().map(|d| width(d, size, lines)).sum::<Pt>()
    };
    let large = [(8.0, 1.0), (8.0, 1.9), (8.0, 2.7), (7.5, 2.7)]
        .map(|(size, lines)| (Pt(size), Count(lines)));
    let small = [8.0, 7.5, 7.0, 6.5, 6.0, 5.5].map(|size| (Pt(size), Count(2.7)));
    let fits_whole = large.into_iter().find(|choice| sum(&full, *choice) <= PAGE);
    let fits = || {
        small
            .into_iter()
            .find(|choice| sum(&least, *choice) <= PAGE)
    };
    fits_whole.or_else(fits).unwrap_or((Pt(5.5), Count(2.7)))
}

/// Width at which no cell wraps.
fn natural(draft: &Draft, size: Pt, lines: Count) -> Pt {
    draft.content(size).max(draft.heading(size, lines)) + PADDING + Pt(0.5)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn dataset(rows: Vec<Vec<Cell>>) -> Dataset {
        let columns = vec![
            Column::text("kernel", "Kernel"),
            Column::new("total_ns", "Total", Unit::Nanoseconds),
        ];
        Dataset {
            id: "kernels",
            title: "Kernels".to_owned(),
            columns,
            rows,
        }
    }

    fn view(skip: usize, limit: usize) -> View {
        View {
            skip,
            ..View::new("kernels", "Kernels", &["kernel", "total_ns"], limit)
        }
    }

    #[test]
    fn numbers_share_the_unit_of_the_heading() {
        let rows = vec![
            vec![Cell::Name("a".into()), Cell::Int(222_824_165)],
            vec![Cell::Name("b".into()), Cell::Int(1_500_000)],
            vec![Cell::Name("c".into()), Cell::Missing],
        ];
        let table = Table::new(
            &Report::default(),
            &dataset(rows),
            &view(0, 9),
            Names::Shortened,
        )
        .unwrap();
        assert_eq!(table.columns[1].title, "Total (ms)");
        assert_eq!(table.rows[0], ["a", "222.8"]);
        assert_eq!(table.rows[2], ["c", "–"]);
        assert_eq!(table.note, None);
        assert!(table.columns[1].numbers.is_empty());
    }

    #[test]
    fn a_figure_before_and_after_has_one_unit() {
        let ids = ["before_ns", "after_ns", "difference_ns"];
        let dataset = Dataset {
            id: "kernels",
            columns: ids
                .map(|id| Column::new(id, "Time", Unit::Nanoseconds))
                .to_vec(),
            rows: vec![[8_000, 11_900, 3_900].map(Cell::Int).to_vec()],
            ..Dataset::default()
        };
        let view = View::new("kernels", "", &ids, 9);
        let table = Table::new(&Report::default(), &dataset, &view, Names::Shortened).unwrap();
        let titles: Vec<&str> = table
            .columns
            .iter()
            .map(|head| head.title.as_str())
            .collect();
        assert_eq!(titles, ["Time (µs)", "Time (µs)", "Time (µs)"]);
        assert_eq!(table.rows[0], ["8.00", "11.90", "3.90"]);
    }

    #[test]
    fn numbers_of_several_units_are_kept() {
        let row = |n| vec![Cell::Name("a".into()), n];
        let rows = vec![
            row(Cell::Int(12)),
            row(Cell::Missing),
            row(Cell::Int(3_000_000_000)),
        ];
        let mut bytes = dataset(rows);
        bytes.columns[1].unit = Unit::Bytes;
        let table = Table::new(&Report::default(), &bytes, &view(0, 9), Names::Shortened).unwrap();
        assert_eq!(table.columns[1].title, "Total");
        assert_eq!(table.columns[1].numbers, [Some(12.0), None, Some(3e9)]);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let rows: Vec<_> = (0..143)
            .map(|n| vec![Cell::Name("k".into()), Cell::Int(n)])
            .collect();
        let dataset = dataset(rows);
        let note = |skip, limit| {
            Table::new(
                &Report::default(),
                &dataset,
                &view(skip, limit),
                Names::Shortened,
            )
            .unwrap()
            .note
        };
        let more_rows = Catalogue::english().line("page.more_rows", &[("file", "kernels".into())]);
        assert_eq!(note(0, 20).unwrap(), more_rows);
        assert_eq!(note(0, 143), None);
        assert_eq!(
            Table::new(
                &Report::default(),
                &dataset,
                &view(200, 20),
                Names::Shortened
            ),
            None
        );
    }

    #[test]
    fn heights_follow_rows_and_lines() {
        let rows = |n| {
            (0..n)
                .map(|n| vec![Cell::Name("k".into()), Cell::Int(n)])
                .collect()
        };
        let height = |rows| {
            let table = Table::new(
                &Report::default(),
                &dataset(rows),
                &view(0, 99),
                Names::Whole,
            )
            .unwrap();
            assert!((table.size.0 - 8.0).abs() < 1e-9);
            table.height.0
        };
        // A row is 0.7 × 8 pt of capitals between 2.7 pt each; 1.2 × 8 + 1.4 comes to the same 11.0.
        assert!((height(rows(9)) - 110.0).abs() < 0.5);
        let name = "void kernel<".to_owned() + &"half, ".repeat(60) + ">";
        let long = height(vec![vec![Cell::Name(name.into()), Cell::Int(5)]]);
        // 373 characters of 4.32 pt on lines of at most 482 pt: four at least.
        assert!(long > 11.0 + 4.0 * 9.6 && long < 100.0, "{long}");
    }

    #[test]
    fn names_that_fit_on_two_lines_stay_whole() {
        // "nvjet 64x8x64" has 13 characters, "2x1 splitK TNT" 14.
        assert!(fits_on("nvjet 64x8x64 2x1 splitK TNT", 14, 2));
        assert!(!fits_on("nvjet 64x8x64 2x1 splitK TNT", 13, 2));
        assert!(!fits_on("nvjet 64x8x64 2x1 splitK TNT", 10, 2));
        assert!(!fits_on("one_word_beyond_the_line", 10, 9));
        assert!(fits_on("short", 5, 1));
    }

    #[test]
    fn long_names_fit_their_column_unless_they_are_wanted_whole() {
        let name = "void kernel<".to_owned() + &"half, ".repeat(60) + ">";
        let dataset = dataset(vec![vec![Cell::Name(name.as_str().into()), Cell::Int(5)]]);
        let short =
            Table::new(&Report::default(), &dataset, &view(0, 9), Names::Shortened).unwrap();
        let total = short.columns[1].width;
        assert!(mono(&short.rows[0][0], short.size * MONO_SIZE) <= PAGE - total - PADDING);
        let whole = Table::new(&Report::default(), &dataset, &view(0, 9), Names::Whole).unwrap();
        assert_eq!(whole.rows[0][0], name);
    }
}
