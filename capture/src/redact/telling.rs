//! What looks like a secret, by its name or by itself.

use std::ops::Range;

/// Words in the names of variables, options and fields whose values are secrets.
const STRONG: [&str; 13] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "apikey",
    "api_key",
    "access_key",
    "private_key",
    "authorization",
    "cookie",
    "webhook",
];

/// Words that hold one of these and tell of no secret.
const HARMLESS: [&str; 14] = [
    "tokens",
    "tokenizer",
    "tokenize",
    "author",
    "token_id",
    "token_type",
    "per_token",
    "first_token",
    "bos_token",
    "eos_token",
    "pad_token",
    "unk_token",
    "stop_token",
    "image_token",
];

/// Last parts of names that may tell of secrets, and of other things, too: a pass of a model, the key of a sort.
const WEAK: [&str; 6] = ["key", "pass", "pwd", "pw", "psk", "jwt"];

/// Beginnings of keys that services give out.
const PREFIXES: [&str; 14] = [
    "hf_",
    "sk-",
    "sk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "nvapi-",
    "eyJ",
];

/// Options whose value is `user:password`.
const LOGINS: [&str; 4] = ["-u", "--user", "--proxy-user", "--login"];

/// What stands before the secret in the value of a header.
const SCHEMES: [&str; 4] = ["bearer ", "basic ", "token ", "digest "];

/// How sure it is that what bears a name is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// It is.
    Strong,
    /// It is unless it is an ordinary word.
    Weak,
}

/// A part of a text that is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) range: Range<usize>,
    pub(super) telling: Telling,
    /// What it is called there.
    pub(super) name: String,
}

/// Whether the value of a variable, an option or a field of this name is a secret. Counts of tokens are no tokens:
/// `--max-new-tokens` is left alone, and so is `PWD`.
pub(super) fn telling(name: &str) -> Option<Telling> {
    let lower = name.to_ascii_lowercase().replace(['-', '.'], "_");
    let mut bare = lower.clone();
    for word in HARMLESS
        .iter()
        .filter(|_| !lower.ends_with("authorization"))
    {
        bare = bare.replace(word, "");
    }
    if STRONG.iter().any(|word| bare.contains(word)) {
        return Some(Telling::Strong);
    }
    let unnumbered = bare.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    let (before, last) = unnumbered.rsplit_once('_').unwrap_or(("", unnumbered));
    // An option begins with what was a dash.
    let is_alone = before.trim_matches('_').is_empty();
    match WEAK.contains(&last) {
        true if is_alone && name.starts_with('-') => Some(Telling::Strong),
        true if !is_alone || last == "key" => Some(Telling::Weak),
        _ => bare.contains("auth").then_some(Telling::Weak),
    }
}

/// A word, a number or a path: other texts hold it without any connection.
pub(super) fn is_ordinary(value: &str) -> bool {
    let is_word = value.len() <= 20 && value.bytes().all(|c| c.is_ascii_alphabetic() || c == b'_');
    let cases = value.bytes().skip(1).filter(u8::is_ascii_uppercase).count();
    let is_lower_or_upper = cases == 0 || !value.bytes().any(|c| c.is_ascii_lowercase());
    let is_number = value.parse::<f64>().is_ok();
    is_word && is_lower_or_upper || is_number || value.starts_with(['/', '~']) || value == "."
}

/// Secrets in a text by their names, their addresses or themselves.
pub(super) fn spans(text: &str) -> Vec<Span> {
    let mut spans = in_addresses(text);
    spans.extend(after_names(text));
    spans.extend(
        words(text, |c| {
            c.is_whitespace() || "\"'`=,;&?:/()[]{}<>@\\|".contains(c)
        })
        .filter(|(_, word)| looks_secret(word))
        .map(|(at, word)| strong(at..at + word.len(), "")),
    );
    let lower = text.to_ascii_lowercase();
    spans.extend(lower.match_indices("bearer ").filter_map(|(at, scheme)| {
        let range = value_at(text, at + scheme.len());
        (range.len() >= 4).then(|| strong(range, ""))
    }));
    spans
}

/// Secrets in a command line: the number of the argument and its part.
pub(super) fn in_arguments(arguments: &[&str]) -> Vec<(usize, Span)> {
    let mut found = Vec::new();
    let mut before: Option<&str> = None;
    for (index, argument) in arguments.iter().enumerate() {
        let option = before.take().filter(|_| !is_option(argument));
        found.extend(
            option
                .and_then(|option| of_option(option, argument))
                .map(|s| (index, s)),
        );
        if argument.starts_with('-') && !argument.contains(['=', ' ']) {
            before = Some(argument);
        }
        let login = argument
            .strip_prefix("--user=")
            .or_else(|| argument.strip_prefix("-u"));
        if let Some(login) = login.filter(|login| !login.is_empty()) {
            let start = argument.len() - login.len();
            found.extend(password(login, start).map(|span| (index, span)));
        }
        found.extend(whole(argument).map(|span| (index, span)));
        found.extend(spans(argument).into_iter().map(|span| (index, span)));
        if argument.contains(char::is_whitespace) {
            // The words of a shell.
            let (places, words): (Vec<usize>, Vec<&str>) =
                words(argument, |c| c.is_whitespace() || "\"'`;|&".contains(c)).unzip();
            found.extend(in_arguments(&words).into_iter().map(|(word, mut span)| {
                let at = places[word];
                span.range = span.range.start + at..span.range.end + at;
                (index, span)
            }));
        }
    }
    found
}

fn strong(range: Range<usize>, name: &str) -> Span {
    Span {
        range,
        telling: Telling::Strong,
        name: name.to_owned(),
    }
}

/// A long option as programs name theirs; other texts with two dashes may be values.
fn is_option(argument: &str) -> bool {
    let is_of_name = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-_.".contains(&c);
    let name = argument.strip_prefix("--").unwrap_or_default();
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.bytes().all(is_of_name)
}

/// Whether the value of `-p` may be a password: of other programs it is a port, a path, a word or a prompt.
fn is_short_password(value: &str) -> bool {
    let is_number = value
        .bytes()
        .all(|c| c.is_ascii_digit() || b",.-".contains(&c));
    let is_other = value.contains(|c: char| c.is_whitespace() || "=:/".contains(c));
    !is_number && !is_other && !is_ordinary(value) && !value.starts_with('-')
}

/// The secret of an argument that follows an option.
fn of_option(option: &str, argument: &str) -> Option<Span> {
    if LOGINS.contains(&option) {
        return password(argument, 0);
    }
    let telling = match option {
        "-p" if is_short_password(argument) => Telling::Weak,
        _ => telling(option)?,
    };
    let start = behind_scheme(argument, 0);
    let name = option.to_owned();
    (start < argument.len()).then_some(Span {
        range: start..argument.len(),
        telling,
        name,
    })
}

/// The password of `user:password`. Numbers are of a user and a group.
fn password(login: &str, start: usize) -> Option<Span> {
    let (user, password) = login.split_once(':')?;
    let is_login =
        !password.is_empty() && !login.contains("://") && password.parse::<u32>().is_err();
    let start = start + user.len() + 1;
    is_login.then(|| strong(start..start + password.len(), &format!("{user}:")))
}

/// The value of `name=value` or `Name: value` where that is all of the argument.
fn whole(argument: &str) -> Option<Span> {
    let at = argument.find(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)))?;
    let (name, rest) = argument.split_at(at);
    let separator = if rest.starts_with('=') { "=" } else { ": " };
    let value = rest
        .strip_prefix(separator)
        .filter(|value| !value.is_empty())?;
    let start = behind_scheme(argument, argument.len() - value.len());
    let telling = telling(name)?;
    Some(Span {
        range: start..argument.len(),
        telling,
        name: name.to_owned(),
    })
}

/// The offset, or that of what follows the name of a scheme there.
fn behind_scheme(text: &str, at: usize) -> usize {
    let scheme = SCHEMES.iter().find(|scheme| {
        text.get(at..at + scheme.len())
            .is_some_and(|text| text.eq_ignore_ascii_case(scheme))
    });
    at + scheme.map_or(0, |scheme| scheme.len())
}

/// Passwords and keys in addresses: `scheme://user:password@host`, `https://key@host`.
fn in_addresses(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    for (at, mark) in text.match_indices("://") {
        let start = at + mark.len();
        let rest = &text[start..];
        let end = rest.find(|c: char| c.is_whitespace() || "/?#\"'<>,;".contains(c));
        let Some((login, _)) = rest[..end.unwrap_or(rest.len())].rsplit_once('@') else {
            continue;
        };
        match login.split_once(':') {
            Some((_, "")) => {}
            Some((user, password)) => {
                let start = start + user.len() + 1;
                spans.push(strong(start..start + password.len(), ""));
            }
            None if login != "git" && text[..at].ends_with(['p', 's']) && !login.is_empty() => {
                let range = start..start + login.len();
                spans.push(Span {
                    range,
                    telling: Telling::Weak,
                    name: String::new(),
                });
            }
            None => {}
        }
    }
    spans
}

/// Values behind telling names: `name=value`, `"name": "value"`, `Name: value`, and in code `x["name"] = "value"` and
/// `f("name", "value")`.
fn after_names(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    for (at, separator) in text.match_indices(['=', ':', ',']) {
        let is_quoted = text[..at].trim_end().ends_with(['"', '\''])
            && text[at + 1..].trim_start().starts_with(['"', '\'', '\\']);
        if separator == "," && !is_quoted {
            continue;
        }
        let head = text[..at].trim_end_matches([' ', '"', '\'', '\\', ']']);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let name = &head[head.trim_end_matches(is_name).len()..];
        let before = head[..head.len() - name.len()].trim_end_matches([' ', '"', '\'', '\\']);
        let found = telling(name).filter(|found| {
            // In a list, what follows a telling word is any other word.
            separator != "," || *found == Telling::Strong && before.ends_with('(')
        });
        let Some(telling) = found else { continue };
        let start = at + separator.len();
        let value = text[start..].trim_start_matches([' ', '"', '\'', '\\']);
        if value.starts_with("//") {
            continue;
        }
        let start = behind_scheme(text, text.len() - value.len());
        let range = match name.to_ascii_lowercase().ends_with("cookie") {
            true => {
                start
                    ..text[start..]
                        .find(['"', '\'', '\n'])
                        .map_or(text.len(), |end| start + end)
            }
            false => value_at(text, start),
        };
        if !range.is_empty() {
            spans.push(Span {
                range,
                telling,
                name: name.to_owned(),
            });
        }
    }
    spans
}

/// A value to its end: the quote that it stands in, or what separates values.
fn value_at(text: &str, start: usize) -> Range<usize> {
    let quote = text[..start]
        .chars()
        .next_back()
        .filter(|c| ['"', '\''].contains(c));
    let ends = |c: char| match quote {
        Some(quote) => c == quote,
        None => c.is_whitespace() || "\"'`,;&)}]<>".contains(c),
    };
    let mut escaped = false;
    let end = text[start..].char_indices().find(|(_, c)| {
        let is_end = !escaped && ends(*c);
        escaped = *c == '\\' && !escaped;
        is_end
    });
    let end = end.map_or(text.len(), |(end, _)| start + end);
    // The quote of text in text is escaped.
    start..start + text[start..end].trim_end_matches('\\').len()
}

/// Words and where they begin.
fn words(
    text: &str,
    is_between: impl Fn(char) -> bool + Copy,
) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    text.split_inclusive(is_between).filter_map(move |piece| {
        let at = next;
        next += piece.len();
        let word = piece.trim_end_matches(is_between);
        (!word.is_empty()).then_some((at, word))
    })
}

/// A key by its beginning, or a long run of letters and digits that no word is; the linker's names of kernels are none.
fn looks_secret(word: &str) -> bool {
    if word.trim_start_matches('^').starts_with("_Z") {
        return false;
    }
    let known = PREFIXES.iter().any(|prefix| word.starts_with(prefix)) && word.len() >= 12;
    let runs = word.split(|c: char| !c.is_ascii_alphanumeric());
    let longest = runs.max_by_key(|run| run.len()).unwrap_or_default();
    let digits = longest.bytes().filter(u8::is_ascii_digit).count();
    known || longest.len() >= 32 && digits >= 4 && digits < longest.len()
}
