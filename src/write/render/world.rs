//! What the typesetter can see: templates, data, charts, fonts. All of it in memory.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use typst::diag::{FileError, FileResult, SourceDiagnostic};
use typst::foundations::{Bytes, Datetime, Duration};
use typst::syntax::{FileId, RootedPath, Source, VirtualPath, VirtualRoot};
use typst::text::{Font, FontBook, FontInfo, FontWeight};
use typst::utils::LazyHash;
use typst::{Library, LibraryExt, World, WorldExt};

use super::measure;
use super::text::REPLACEMENT;
use super::{RenderError, TEMPLATES};

/// The file that is compiled.
const MAIN: &str = "report.typ";

/// The report's faces; one for the names of East Asia, simplified and traditional Chinese and Japanese; and one for what these
/// lack, such as mathematical signs.
static FACES: [&[u8]; 6] = [
    measure::REGULAR,
    include_bytes!("../../../templates/fonts/IBMPlexSans-Italic.ttf"),
    measure::SEMI_BOLD,
    include_bytes!("../../../templates/fonts/IBMPlexMono-Regular.ttf"),
    include_bytes!("../../../templates/fonts/DroidSansFallback-Subset.ttf"),
    include_bytes!("../../../templates/fonts/DejaVuSansMono.ttf"),
];

static FONTS: LazyLock<Vec<Font>> = LazyLock::new(|| {
    FACES
        .into_iter()
        .flat_map(|face| Font::iter(Bytes::new(face)))
        .collect()
});

static BOOK: LazyLock<LazyHash<FontBook>> =
    LazyLock::new(|| LazyHash::new(FontBook::from_infos(FONTS.iter().map(book_entry))));

/// The semi-bold face names itself a family of its own; templates know one family with two weights.
fn book_entry(font: &Font) -> FontInfo {
    let mut info = font.info().clone();
    if let Some(family) = info.family.strip_suffix(" SmBld") {
        info.family = family.to_owned();
        info.variant.weight = FontWeight::SEMIBOLD;
    }
    info
}

static LIBRARY: LazyLock<LazyHash<Library>> =
    LazyLock::new(|| LazyHash::new(Library::builder().build()));

/// A world of files in memory: no package, no disk, no network, no clock.
pub(super) struct MemoryWorld {
    main: FileId,
    sources: BTreeMap<String, Source>,
    files: BTreeMap<String, Bytes>,
}

impl MemoryWorld {
    /// A world of the templates that are compiled in, replaced by `templates` where they have the same
    /// path, and of `files`.
    pub(super) fn new(
        templates: &BTreeMap<String, Vec<u8>>,
        files: BTreeMap<String, Vec<u8>>,
    ) -> Result<Self, RenderError> {
        let mut texts: BTreeMap<String, Vec<u8>> = TEMPLATES
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.to_vec()))
            .collect();
        texts.extend(
            templates
                .iter()
                .map(|(path, text)| (path.clone(), text.clone())),
        );
        let mut world = Self {
            main: id(MAIN)?,
            sources: BTreeMap::new(),
            files: BTreeMap::new(),
        };
        for (path, text) in texts.into_iter().chain(files) {
            if path.ends_with(".typ") {
                let text = String::from_utf8(text)
                    .map_err(|_| RenderError::Template(format!("{path} is not UTF-8")))?;
                world
                    .sources
                    .insert(path.clone(), Source::new(id(&path)?, text));
            } else {
                world.files.insert(path, Bytes::new(text));
            }
        }
        Ok(world)
    }

    /// One line a message: where, what, hints.
    pub(super) fn messages(&self, errors: &[SourceDiagnostic]) -> String {
        let lines: Vec<String> = errors.iter().map(|error| self.message(error)).collect();
        lines.join("; ")
    }

    fn message(&self, error: &SourceDiagnostic) -> String {
        let mut text = String::new();
        if let Some(id) = error.span.id() {
            text.push_str(id.get().vpath().get_without_slash());
            let line = self.range(error.span).zip(self.source(id).ok());
            let line = line.and_then(|(range, source)| source.lines().byte_to_line(range.start));
            if let Some(line) = line {
                text.push_str(&format!(":{}", line + 1));
            }
            text.push_str(": ");
        }
        text.push_str(&error.message);
        for hint in &error.hints {
            text.push_str(&format!(" ({})", hint.v));
        }
        text
    }
}

/// The typesetter's name for a path.
fn id(path: &str) -> Result<FileId, RenderError> {
    let virtual_path = VirtualPath::new(path)
        .map_err(|_| RenderError::Template(format!("{path} is not a path for a template")))?;
    Ok(RootedPath::new(VirtualRoot::Project, virtual_path).intern())
}

/// The path that an id represents; packages are never there.
fn path(id: FileId) -> FileResult<&'static str> {
    let rooted = id.get();
    let path = rooted.vpath().get_without_slash();
    match rooted.root() {
        VirtualRoot::Project => Ok(path),
        VirtualRoot::Package(_) => Err(FileError::NotFound(path.into())),
    }
}

impl World for MemoryWorld {
    fn library(&self) -> &LazyHash<Library> {
        &LIBRARY
    }

    fn book(&self) -> &LazyHash<FontBook> {
        &BOOK
    }

    fn main(&self) -> FileId {
        self.main
    }

    fn source(&self, id: FileId) -> FileResult<Source> {
        let path = path(id)?;
        self.sources
            .get(path)
            .cloned()
            .ok_or_else(|| FileError::NotFound(path.into()))
    }

    fn file(&self, id: FileId) -> FileResult<Bytes> {
        let path = path(id)?;
        self.files
            .get(path)
            .cloned()
            .ok_or_else(|| FileError::NotFound(path.into()))
    }

    fn font(&self, index: usize) -> Option<Font> {
        FONTS.get(index).cloned()
    }

    fn today(&self, _: Option<Duration>) -> Option<Datetime> {
        None
    }
}

/// `text` with characters that no font has written as `[U+1F600]`: an archival PDF must not hold blanks in
/// their place. The result is as good inside JSON and XML as `text` was.
pub(super) fn displayable(text: &str) -> String {
    replaced(text, |c, out| {
        out.push_str(&format!("[U+{:04X}]", u32::from(c)))
    })
}

/// The same for a drawing, where each character has its room: a sign stands in place of those that no font has.
pub(super) fn displayable_drawing(text: &str) -> String {
    replaced(text, |_, out| out.push(REPLACEMENT))
}

fn replaced(text: &str, replace: impl Fn(char, &mut String)) -> String {
    let covered = |c: char| {
        FONTS
            .iter()
            .any(|font| font.info().coverage.contains(u32::from(c)))
    };
    let has = |c: char| c.is_ascii() || (!is_private(c) && covered(c));
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if has(c) {
            out.push(c);
        } else {
            replace(c, &mut out);
        }
    }
    out
}

/// Whether a character means something only by private agreement; archival PDFs must not hold any.
fn is_private(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_without_a_glyph_are_named() {
        assert_eq!(displayable("µs → 84\u{202f}868"), "µs → 84\u{202f}868");
        assert_eq!(displayable("a\u{1f600}b\u{e000}"), "a[U+1F600]b[U+E000]");
        // Simplified, traditional, Japanese; Korean is not there.
        assert_eq!(displayable("测量，內核、カーネル"), "测量，內核、カーネル");
        assert_eq!(displayable("커"), "[U+CEE4]");
        assert_eq!(displayable_drawing("测커"), "测\u{fffd}");
    }
}
