//! One message: text with places for arguments.

use super::Arg;
use crate::{Inline, Quantity};

/// A parsed message.
#[derive(Debug, PartialEq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    Code(String),
    Strong(String),
    Argument(String),
    /// One word for one, another for more.
    Plural {
        argument: String,
        one: String,
        more: String,
    },
    Clause(Template),
}

impl Template {
    pub(super) fn parse(text: &str) -> Self {
        let mut characters = text.chars();
        Self::until(&mut characters, None)
    }

    /// The pieces up to a closing character, or to the end.
    fn until(characters: &mut std::str::Chars<'_>, end: Option<char>) -> Self {
        let (mut pieces, mut text) = (Vec::new(), String::new());
        while let Some(character) = characters.next() {
            let piece = match character {
                '\\' => {
                    text.extend(characters.next());
                    continue;
                }
                _ if Some(character) == end => break,
                '{' => argument(&taken(characters, "}")),
                '[' => Piece::Clause(Self::until(characters, Some(']'))),
                '`' => Piece::Code(taken(characters, "`")),
                '*' if characters.as_str().starts_with('*') => {
                    characters.next();
                    Piece::Strong(taken(characters, "**"))
                }
                _ => {
                    text.push(character);
                    continue;
                }
            };
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(piece);
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Self(pieces)
    }

    /// The message with these arguments.
    pub(super) fn say(&self, arguments: &[(&str, Arg)]) -> Vec<Inline> {
        let mut message = Vec::new();
        self.add(arguments, &mut message);
        message
    }

    fn add(&self, arguments: &[(&str, Arg)], message: &mut Vec<Inline>) {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => push(message, Inline::Text(text.clone())),
                Piece::Code(code) => message.push(Inline::Code(code.clone())),
                Piece::Strong(words) => message.push(Inline::Strong(words.clone())),
                Piece::Argument(name) => {
                    for inline in shown(arguments, name) {
                        push(message, inline.clone());
                    }
                }
                Piece::Plural {
                    argument,
                    one,
                    more,
                } => {
                    let is_one = matches!(shown(arguments, argument), [Inline::Quantity(Quantity { value, .. })] if *value == 1.0);
                    push(
                        message,
                        Inline::Text(if is_one { one } else { more }.clone()),
                    );
                }
                Piece::Clause(clause) if clause.is_known(arguments) => {
                    clause.add(arguments, message)
                }
                Piece::Clause(_) => {}
            }
        }
    }

    /// Whether all arguments outside of inner clauses are there.
    fn is_known(&self, arguments: &[(&str, Arg)]) -> bool {
        let is_missing = |name: &str| {
            let mut missing = arguments.iter().filter(|(_, arg)| *arg == Arg::Missing);
            missing.any(|(argument, _)| *argument == name)
        };
        !self.0.iter().any(|piece| match piece {
            Piece::Argument(name) | Piece::Plural { argument: name, .. } => is_missing(name),
            _ => false,
        })
    }

    /// Names of the arguments, sorted, each once.
    pub(super) fn arguments(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter().flat_map(Piece::arguments).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Piece {
    fn arguments(&self) -> Vec<&str> {
        match self {
            Self::Argument(name) | Self::Plural { argument: name, .. } => vec![name],
            Self::Clause(clause) => clause.arguments(),
            Self::Text(_) | Self::Code(_) | Self::Strong(_) => Vec::new(),
        }
    }
}

/// `count`, or `count?call|calls`.
fn argument(inside: &str) -> Piece {
    if let Some((argument, words)) = inside.split_once('?')
        && let Some((one, more)) = words.split_once('|')
    {
        return Piece::Plural {
            argument: argument.to_owned(),
            one: one.to_owned(),
            more: more.to_owned(),
        };
    }
    Piece::Argument(inside.to_owned())
}

/// What stands before the closing characters, which are taken too.
fn taken(characters: &mut std::str::Chars<'_>, end: &str) -> String {
    let text = characters.as_str();
    let length = text.find(end).unwrap_or(text.len());
    *characters = text.get(length + end.len()..).unwrap_or_default().chars();
    text[..length].to_owned()
}

fn shown<'a>(arguments: &'a [(&str, Arg)], name: &str) -> &'a [Inline] {
    let argument = arguments.iter().find(|(argument, _)| *argument == name);
    debug_assert!(argument.is_some(), "no argument {name}");
    match argument {
        Some((_, Arg::Shown(inlines))) => inlines,
        _ => &[],
    }
}

/// Adds a piece; texts that touch become one.
fn push(message: &mut Vec<Inline>, piece: Inline) {
    match (message.last_mut(), piece) {
        (Some(Inline::Text(last)), Inline::Text(text)) => {
            if touches(last, &text) {
                last.push(' ');
            }
            last.push_str(&text);
        }
        (_, piece) => message.push(piece),
    }
}

/// Whether a Chinese character and a Latin letter or a digit would touch: typography has a space between them.
fn touches(before: &str, after: &str) -> bool {
    let is_han = |character: char| ('\u{4e00}'..='\u{9fff}').contains(&character);
    let is_latin = |character: char| character.is_ascii_alphanumeric();
    match (before.chars().next_back(), after.chars().next()) {
        (Some(before), Some(after)) => {
            is_han(before) && is_latin(after) || is_latin(before) && is_han(after)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_both_scripts_do_not_touch() {
        let stage = |name: &'static str| [("stage", Arg::from(name))];
        assert_eq!(said("占{stage}时间", &stage("prefill")), "占 prefill 时间");
        assert_eq!(said("占{stage}时间", &stage("训练步")), "占训练步时间");
        assert_eq!(said("{stage}：空闲", &stage("prefill")), "prefill：空闲");
    }

    fn said(template: &str, arguments: &[(&str, Arg)]) -> String {
        Template::parse(template)
            .say(arguments)
            .iter()
            .map(Inline::plain)
            .collect()
    }

    #[test]
    fn a_clause_goes_with_its_missing_argument() {
        let arguments = |calls: Option<u64>| {
            [
                ("stage", Arg::from("decode")),
                ("calls", calls.map(Quantity::count).into()),
            ]
        };
        let template = "{stage} waits[, in {calls} {calls?call|calls}].";
        assert_eq!(said(template, &arguments(None)), "decode waits.");
        assert_eq!(
            said(template, &arguments(Some(1))),
            "decode waits, in 1 call."
        );
        assert_eq!(
            said(template, &arguments(Some(2))),
            "decode waits, in 2 calls."
        );
        assert_eq!(Template::parse(template).arguments(), ["calls", "stage"]);
    }

    #[test]
    fn code_and_strong_words_are_pieces_and_a_backslash_takes_the_next_character() {
        let pieces = Template::parse(r"run `a b` **now** \[x\]").say(&[]);
        let expected = [
            Inline::from("run "),
            Inline::Code("a b".to_owned()),
            Inline::from(" "),
            Inline::Strong("now".to_owned()),
            Inline::from(" [x]"),
        ];
        assert_eq!(pieces, expected);
    }
}
