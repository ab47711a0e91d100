//! The words of a report: every sentence, caption and heading by key, in one language.
//!
//! The catalogue is TOML. `{name}` represents an argument, `{name?call|calls}` for the first word if that number is
//! one, `` `code` `` and `**strong**` for themselves. A clause in `[ ]` is excluded if an argument in it is missing.
//! A backslash takes the next character as it is. Numbers come in as [`Quantity`], so they look as everywhere.
//!
//! Files are by subject, and the catalogue joins them. The words of a section are in one file: `[sections.<id>]` has its
//! title, `[tables.<id>]` the title of a data set and the headings of its columns, and further tables have captions and
//! prose. `columns.toml` has the headings that several data sets share.

mod template;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rooflens_units::{Ns, Seconds};

use super::{Inline, Method, Quantity};
use template::Template;

/// The files of the English catalogue; those of other languages have the same names. `basis.toml` has no others: the
/// bases of metrics are data, and data is English.
const ENGLISH: &[&str] = &[
    include_str!("en/basis.toml"),
    include_str!("en/columns.toml"),
    include_str!("en/compare.toml"),
    include_str!("en/context.toml"),
    include_str!("en/counters.toml"),
    include_str!("en/fleet.toml"),
    include_str!("en/microbench.toml"),
    include_str!("en/page.toml"),
    include_str!("en/predict.toml"),
    include_str!("en/rules.toml"),
    include_str!("en/serving.toml"),
    include_str!("en/summary.toml"),
    include_str!("en/time.toml"),
    include_str!("en/work.toml"),
    include_str!("en/projection.toml"),
];

/// The files of the Chinese catalogue.
const CHINESE: &[&str] = &[
    include_str!("zh/columns.toml"),
    include_str!("zh/compare.toml"),
    include_str!("zh/context.toml"),
    include_str!("zh/counters.toml"),
    include_str!("zh/fleet.toml"),
    include_str!("zh/microbench.toml"),
    include_str!("zh/page.toml"),
    include_str!("zh/predict.toml"),
    include_str!("zh/rules.toml"),
    include_str!("zh/serving.toml"),
    include_str!("zh/summary.toml"),
    include_str!("zh/time.toml"),
    include_str!("zh/work.toml"),
    include_str!("zh/projection.toml"),
];

static EN: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::parse(Lang::En, ENGLISH));
static ZH: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::parse(Lang::Zh, CHINESE));
static KEYS: LazyLock<Catalogue> = LazyLock::new(Catalogue::of_keys);

/// The keys that are no words: what stands between words.
const PUNCTUATION: [&str; 4] = ["page.comma", "page.semicolon", "page.colon", "page.space"];

/// The languages of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Chinese in simplified characters.
    Zh,
}

impl Lang {
    /// All languages.
    pub const ALL: [Self; 2] = [Self::En, Self::Zh];

    /// The code of ISO 639-1.
    pub const fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh",
        }
    }
}

/// The messages of one language by key.
#[derive(Debug)]
pub struct Catalogue {
    lang: Lang,
    messages: BTreeMap<String, Template>,
    lines: BTreeMap<String, String>,
    /// Whether messages are shown as their keys and arguments.
    shows_keys: bool,
}

/// What represents an argument of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// Not available: clauses with it are excluded.
    Missing,
    /// What is shown.
    Shown(Vec<Inline>),
}

impl Catalogue {
    /// English.
    pub fn english() -> &'static Self {
        &EN
    }

    /// Chinese.
    pub fn chinese() -> &'static Self {
        &ZH
    }

    /// The catalogue for tests. It shows a message as its key and its arguments by name, without words:
    /// `launch_bound.advice`, `findings.sampled{samples=30, parts=libc}`. Arguments without a value are not shown.
    /// Values of data keep their names, and punctuation is English.
    pub fn keys_and_arguments() -> &'static Self {
        &KEYS
    }

    /// The catalogue of a language.
    pub fn of(lang: Lang) -> &'static Self {
        match lang {
            Lang::En => Self::english(),
            Lang::Zh => Self::chinese(),
        }
    }

    /// The language.
    pub const fn lang(&self) -> Lang {
        self.lang
    }

    fn parse(lang: Lang, files: &[&str]) -> Self {
        let mut lines = BTreeMap::new();
        for file in files {
            let table: toml::Table = toml::from_str(file).expect("a test reads the catalogue");
            flatten("", &table, &mut lines);
        }
        let messages = lines
            .iter()
            .map(|(key, line)| (key.clone(), Template::parse(line)))
            .collect();
        Self {
            lang,
            messages,
            lines,
            shows_keys: false,
        }
    }

    /// The catalogue with keys for words.
    fn of_keys() -> Self {
        let mut catalogue = Self::parse(Lang::En, ENGLISH);
        catalogue.lines.retain(|key, _| !key.starts_with("words."));
        for (key, line) in &mut catalogue.lines {
            if !PUNCTUATION.contains(&key.as_str()) {
                line.clone_from(key);
            }
        }
        catalogue.shows_keys = true;
        catalogue
    }

    /// The message of a key with these arguments.
    pub fn say(&self, key: &str, arguments: &[(&str, Arg)]) -> Vec<Inline> {
        match self.messages.get(key) {
            Some(template) if self.shows_keys => key_and_arguments(key, template, arguments),
            Some(template) => template.say(arguments),
            None => {
                debug_assert!(false, "no message {key}");
                vec![Inline::Text(key.to_owned())]
            }
        }
    }

    /// The word of pages for a value of data, such as the label of a class: that of `[words]`, or the value itself.
    /// Names from the data have no other words and do not come here.
    pub fn word<'a>(&'a self, value: &'a str) -> &'a str {
        self.lines
            .get(&format!("words.{value}"))
            .map_or(value, String::as_str)
    }

    /// A message of a rule with the arguments that it takes, if the rule has such a message.
    pub fn message(&self, rule: &str, key: &str, arguments: &[(&str, Arg)]) -> Option<Vec<Inline>> {
        let key = of_rule(rule, key);
        self.messages
            .contains_key(&key)
            .then(|| self.say(&key, arguments))
    }

    /// The message as plain text, for captions and headings.
    pub fn line(&self, key: &str, arguments: &[(&str, Arg)]) -> String {
        self.say(key, arguments).iter().map(Inline::plain).collect()
    }

    /// What stands between the items of a list.
    pub fn comma(&'static self) -> &'static str {
        self.required("page.comma")
    }

    /// What stands between longer items of a list.
    pub fn semicolon(&'static self) -> &'static str {
        self.required("page.semicolon")
    }

    /// What stands between a name and what it names.
    pub fn colon(&'static self) -> &'static str {
        self.required("page.colon")
    }

    /// What stands between two sentences.
    pub fn space(&'static self) -> &'static str {
        self.required("page.space")
    }

    /// The heading of a section.
    pub fn heading(&'static self, section: &str) -> &'static str {
        self.required(&format!("sections.{section}.title"))
    }

    /// What a rule looks for.
    pub fn rule(&'static self, rule: &str) -> &'static str {
        self.required(&of_rule(rule, "name"))
    }

    /// A line about what a rule finds: what to `do`, `if` what holds, and the `cause` that goes.
    pub fn action(&'static self, rule: &str, key: &str) -> &'static str {
        self.required(&of_rule(rule, key))
    }

    /// The advice of a rule for programs without PyTorch, where there is one.
    pub fn without_pytorch(&self, rule: &str) -> Option<Vec<Inline>> {
        let key = of_rule(rule, "advice_without_pytorch");
        self.messages
            .contains_key(&key)
            .then(|| self.say(&key, &[]))
    }

    fn required(&'static self, key: &str) -> &'static str {
        debug_assert!(self.lines.contains_key(key), "no message {key}");
        self.lines.get(key).map_or("", String::as_str)
    }

    /// The title of a data set.
    pub fn title(&self, table: &str) -> String {
        self.line(&format!("tables.{table}.title"), &[])
    }

    /// The heading of a column: that of the table, or that of all tables.
    pub fn column(&'static self, table: &str, column: &'static str) -> &'static str {
        let of_table = self.lines.get(&format!("tables.{table}.{column}"));
        // A table's `title` is that of the data set.
        let of_table = of_table.filter(|_| column != "title");
        let heading = of_table.or_else(|| self.lines.get(&format!("columns.{column}")));
        debug_assert!(
            heading.is_some(),
            "no heading of column {column} of table {table}"
        );
        heading.map_or(column, String::as_str)
    }

    /// The paragraph of the method appendix under `<key>.method`.
    pub fn method(&self, key: &str, arguments: &[(&str, Arg)]) -> Method {
        let title = self.line(&format!("{key}.method.title"), &[]);
        Method {
            title,
            text: self.say(&format!("{key}.method.text"), arguments),
        }
    }

    /// The messages below a key by the rest of their keys, as they are written: for templates.
    pub fn group(&'static self, key: &str) -> BTreeMap<&'static str, &'static str> {
        let mut group = BTreeMap::new();
        for (path, line) in &self.lines {
            if let Some(rest) = path.strip_prefix(key)
                && let Some(rest) = rest.strip_prefix('.')
            {
                group.insert(rest, line.as_str());
            }
        }
        group
    }

    /// All keys with the names of their arguments, in order.
    pub fn keys(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.messages
            .iter()
            .map(|(key, template)| (key.as_str(), template.arguments()))
    }
}

/// `key{name=value, …}`, or the key alone where no argument has a value.
fn key_and_arguments(key: &str, template: &Template, arguments: &[(&str, Arg)]) -> Vec<Inline> {
    let names = template.arguments();
    for name in &names {
        let is_given = arguments.iter().any(|(argument, _)| argument == name);
        debug_assert!(is_given, "{key}: no argument {name}");
    }
    let mut message = vec![Inline::Text(key.to_owned())];
    for (name, argument) in arguments {
        if let (Arg::Shown(inlines), true) = (argument, names.contains(name)) {
            let before = if message.len() == 1 { "{" } else { ", " };
            message.push(Inline::Text(format!("{before}{name}=")));
            message.extend(inlines.iter().cloned());
        }
    }
    if message.len() > 1 {
        message.push(Inline::from("}"));
    }
    message
}

/// The key of a line in a rule's table.
fn of_rule(rule: &str, key: &str) -> String {
    format!("{}.{key}", rule.replace('-', "_"))
}

/// Keys of nested tables are joined by dots.
fn flatten(above: &str, table: &toml::Table, lines: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let key = if above.is_empty() {
            name.clone()
        } else {
            format!("{above}.{name}")
        };
        match value {
            toml::Value::Table(table) => flatten(&key, table, lines),
            toml::Value::String(line) => {
                let before = lines.insert(key.clone(), line.clone());
                debug_assert!(before.is_none(), "{key} stands twice");
            }
            other => debug_assert!(false, "{key}: {other} is no text"),
        }
    }
}

impl Default for &'static Catalogue {
    fn default() -> Self {
        Catalogue::english()
    }
}

impl From<Vec<Inline>> for Arg {
    fn from(inlines: Vec<Inline>) -> Self {
        Self::Shown(inlines)
    }
}

impl From<Inline> for Arg {
    fn from(inline: Inline) -> Self {
        Self::Shown(vec![inline])
    }
}

impl From<Quantity> for Arg {
    fn from(quantity: Quantity) -> Self {
        Inline::Quantity(quantity).into()
    }
}

/// A number of a unit, shown as a quantity.
macro_rules! arguments_of_measures {
    ($($measure:ident)*) => {$(
        impl From<rooflens_units::$measure> for Arg {
            fn from(measure: rooflens_units::$measure) -> Self {
                Quantity::from(measure).into()
            }
        }
    )*};
}
rooflens_units::for_each_measure!(arguments_of_measures);

impl From<Seconds> for Arg {
    fn from(time: Seconds) -> Self {
        Quantity::from(time).into()
    }
}

impl From<Ns> for Arg {
    fn from(time: Ns) -> Self {
        Quantity::from(time).into()
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Inline::from(text).into()
    }
}

impl From<String> for Arg {
    fn from(text: String) -> Self {
        Inline::Text(text).into()
    }
}

impl<T: Into<Self>> From<Option<T>> for Arg {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

/// A message of the catalogue of a context, with its arguments by name:
/// `say!(context, "idle.share", stage = Inline::strong(label), share = Quantity::ratio(0.5))`.
#[macro_export]
macro_rules! say {
    ($context:expr, $key:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $context.text.say($key, &[$((stringify!($name), $crate::text::Arg::from($value))),*])
    };
}

/// The basis of a metric from values that can be shown: `basis!("basis.idle_share", time = Quantity::ns(5))`. It is
/// English in reports of all languages, because it is data.
#[macro_export]
macro_rules! basis {
    ($key:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::Catalogue::english()
            .line($key, &[$((stringify!($name), $crate::text::Arg::from(($value).to_string()))),*])
    };
}

/// A paragraph of the method appendix: `method!(context, "idle", stretch = Quantity::ns(HOST_STRETCH))` says
/// `idle.method.title` and `idle.method.text`.
#[macro_export]
macro_rules! method {
    ($context:expr, $key:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $context.text.method($key, &[$((stringify!($name), $crate::text::Arg::from($value))),*])
    };
}

/// A message as plain text, for captions, headings and legends.
#[macro_export]
macro_rules! words {
    ($context:expr, $key:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $context.text.line($key, &[$((stringify!($name), $crate::text::Arg::from($value))),*])
    };
}

#[cfg(test)]
mod tests {
    use rooflens_units::{Count, Ratio};

    use super::*;

    #[test]
    fn the_catalogue_of_keys_shows_arguments_by_name() {
        struct Speaker {
            text: &'static Catalogue,
        }
        let speaker = Speaker {
            text: Catalogue::keys_and_arguments(),
        };
        let library = words!(
            speaker,
            "findings.sampled_in",
            share = Ratio(0.5),
            library = "libc"
        );
        assert_eq!(library, "findings.sampled_in{share=50.0 %, library=libc}");
        assert_eq!(
            words!(speaker, "launch_bound.advice"),
            "launch_bound.advice"
        );
        let idle = words!(
            speaker,
            "findings.idles",
            stage = "decode",
            share = None::<Ratio>,
            least = None::<Ratio>,
            most = Ratio(0.25),
            few = None::<Count>,
            all = Count(4.0),
            time = Ns(9),
        );
        assert_eq!(
            idle,
            "findings.idles{stage=decode, most=25.0 %, all=4, time=9.00 ns}"
        );
        assert_eq!(speaker.text.rule("launch-bound"), "launch_bound.name");
        assert_eq!(
            (speaker.text.word("kernel"), speaker.text.comma()),
            ("kernel", ", ")
        );
    }
}
