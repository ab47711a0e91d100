//! What looks like a secret.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use memchr::memmem::Finder;

/// Words in the names of variables and options whose values are secrets.
const TELLING: [&str; 12] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "private_key",
    "auth",
];

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

/// Shorter values are found everywhere by chance.
const SHORTEST: usize = 6;

/// Bytes of a file that are looked at at once.
const CHUNK: usize = 4 << 20;

/// What is masked, wherever it occurs.
pub(crate) struct Secrets {
    /// What is covered: text, and how many bytes of its beginning stay.
    needles: Vec<(String, usize)>,
    /// Names of all variables of the environment: several of them together are a dump of one.
    variables: Vec<String>,
    /// Names of host and user are left.
    pub(crate) keep_names: bool,
}

impl Secrets {
    /// The secrets of this environment and this command line.
    pub(crate) fn of(
        environment: impl Iterator<Item = (String, String)>,
        command: &[String],
        keep_names: bool,
    ) -> Self {
        let mut secrets = Self { needles: Vec::new(), variables: Vec::new(), keep_names };
        for (name, value) in environment {
            if is_telling(&name) || looks_secret(&value) {
                secrets.add(&value, 0);
            }
            if let Some((at, password)) = password_of_url(&value) {
                secrets.add(&value[at..at + password], 0);
            }
            let home = (name == "HOME").then(|| value.rsplit_once('/')).flatten();
            if let Some((parent, user)) = home.filter(|_| !keep_names)
                && !parent.is_empty()
                && !user.is_empty()
            {
                secrets.needles.push((value.clone(), parent.len() + 1));
            }
            secrets.variables.push(name);
        }
        for (at, length, argument) in secret_arguments(command) {
            secrets.add(&argument[at..at + length], 0);
        }
        // The longest first: a secret may be part of another.
        secrets.needles.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        secrets.needles.dedup();
        secrets
    }

    fn add(&mut self, value: &str, kept: usize) {
        if value.len() >= SHORTEST {
            self.needles.push((value.to_owned(), kept));
        }
    }

    /// The command line without secrets.
    pub(crate) fn masked(&self, command: &[String]) -> Vec<String> {
        let mut masked = command.to_vec();
        for (index, argument) in masked.iter_mut().enumerate() {
            for (at, length, _) in
                secret_arguments(command).filter(|(.., whole)| *whole == command[index])
            {
                argument.replace_range(at..at + length, &"*".repeat(length));
            }
        }
        masked.into_iter().map(|argument| self.masked_text(&argument)).collect()
    }

    /// Text without secrets.
    pub(crate) fn masked_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (needle, kept) in &self.needles {
            if text.contains(needle.as_str()) {
                let mask = format!("{}{}", &needle[..*kept], "*".repeat(needle.len() - kept));
                text = text.replace(needle.as_str(), &mask);
            }
        }
        text
    }

    /// Covers what is in the file, in place. Gives the number of places.
    pub(crate) fn mask_file(&self, path: &Path) -> io::Result<u64> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let longest = self.needles.first().map_or(0, |(needle, _)| needle.len());
        let finders: Vec<(Finder<'_>, usize)> =
            self.needles.iter().map(|(needle, kept)| (Finder::new(needle), *kept)).collect();
        let size = file.metadata()?.len();
        let (mut start, mut found) = (0, 0);
        let mut buffer = vec![0; CHUNK.max(4 * longest)];
        while start < size && longest > 0 {
            let read = read_at(&file, &mut buffer, start)?;
            if read == 0 {
                break;
            }
            for (finder, kept) in &finders {
                let length = finder.needle().len();
                for at in finder.find_iter(&buffer[..read]) {
                    file.write_all_at(&vec![b'*'; length - kept], start + (at + kept) as u64)?;
                    found += 1;
                }
            }
            // What is cut by the end of this piece is whole in the next.
            let step = if read < buffer.len() { read } else { read - (longest - 1) };
            start += step as u64;
        }
        Ok(found)
    }

    /// Covers what is in the files of a folder and those below.
    pub(crate) fn mask_folder(&self, folder: &Path) -> io::Result<u64> {
        let mut found = 0;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                found += self.mask_folder(&entry.path())?;
            } else if kind.is_file() {
                found += self.mask_file(&entry.path())?;
            }
        }
        Ok(found)
    }

    /// Whether the text is a dump of an environment: it assigns several of our variables.
    pub(crate) fn is_dump(&self, text: &[u8]) -> bool {
        if text.len() < 40 || memchr::memchr(b'=', text).is_none() {
            return false;
        }
        let assigned = |name: &&String| {
            name.len() > 2 && memchr::memmem::find(text, format!("{name}=").as_bytes()).is_some()
        };
        self.variables.iter().filter(assigned).take(3).count() == 3
    }
}

fn read_at(file: &fs::File, buffer: &mut [u8], start: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], start + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Parts of arguments that are secrets: offset, length, and the whole argument.
fn secret_arguments(command: &[String]) -> impl Iterator<Item = (usize, usize, &str)> {
    let mut parts = Vec::new();
    let mut is_value = false;
    for argument in command {
        let whole = argument.as_str();
        if is_value && !whole.starts_with("--") {
            parts.push((0, whole.len(), whole));
        }
        is_value = false;
        let named = whole.split_once('=');
        match named {
            Some((name, value)) if is_telling(name) || looks_secret(value) => {
                parts.push((name.len() + 1, value.len(), whole));
            }
            None if whole.starts_with('-') && is_telling(whole) => is_value = true,
            None if looks_secret(whole) => parts.push((0, whole.len(), whole)),
            _ => {}
        }
        if let Some((at, length)) = password_of_url(whole) {
            parts.push((at, length, whole));
        }
    }
    parts.into_iter()
}

/// Counts of tokens are no tokens: `--max-new-tokens` is left alone.
fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let counts = ["tokens", "tokenizer", "author"];
    let mut bare = name.clone();
    for word in counts {
        bare = bare.replace(word, "");
    }
    TELLING.iter().any(|word| bare.contains(word))
        || bare.ends_with("_key")
        || bare.ends_with("-key")
        || bare == "key"
}

/// A key by its beginning, or a long run of letters and digits that no word is.
fn looks_secret(value: &str) -> bool {
    let known = PREFIXES.iter().any(|prefix| value.starts_with(prefix)) && value.len() >= 12;
    let mut run = 0;
    let mut longest = "";
    for (at, c) in value.char_indices().chain([(value.len(), ' ')]) {
        if c.is_ascii_alphanumeric() {
            run += 1;
        } else {
            if run > longest.len() {
                longest = &value[at - run..at];
            }
            run = 0;
        }
    }
    let digits = longest.bytes().filter(u8::is_ascii_digit).count();
    known || longest.len() >= 32 && digits >= 4 && digits < longest.len()
}

/// Where the password is in `scheme://user:password@host`.
fn password_of_url(text: &str) -> Option<(usize, usize)> {
    let (scheme, rest) = text.split_once("://")?;
    let login = rest.split(['/', ' ']).next()?.rsplit_once('@')?.0;
    let (user, password) = login.split_once(':')?;
    Some((scheme.len() + 3 + user.len() + 1, password.len())).filter(|(_, length)| *length > 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn secrets(command: &str) -> Secrets {
        let environment = [
            ("HF_TOKEN", "hf_abcdefghijkl"),
            ("HOME", "/home/alice"),
            ("DATABASE", "postgres://me:swordfish@host/db"),
            ("PATH", "/usr/bin"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Secrets::of(environment.into_iter(), &words(command), false)
    }

    #[test]
    fn command_lines_keep_their_arguments_but_no_secret() {
        for (command, masked) in [
            ("run --token hunter2 --batch 8", "run --token ******* --batch 8"),
            ("run --api-key=hunter22 -k a", "run --api-key=******** -k a"),
            ("env WANDB_API_KEY=abc run", "env WANDB_API_KEY=*** run"),
            (
                "run --max-new-tokens 64 --tokenizer gpt2",
                "run --max-new-tokens 64 --tokenizer gpt2",
            ),
            ("run sk-0123456789abcdef", "run *******************"),
            ("run /home/alice/x.py", "run /home/*****/x.py"),
            ("run http://u:pw@host/x", "run http://u:**@host/x"),
            ("run 0123456789abcdef0123456789abcdef", &format!("run {}", "*".repeat(32))),
            ("run x=hf_abcdefghijkl", "run x=***************"),
        ] {
            assert_eq!(secrets(command).masked(&words(command)).join(" "), masked);
        }
    }

    #[test]
    fn files_lose_secrets_and_keep_their_size() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // The second one lies across the end of a piece.
        let mut bytes = b"a hf_abcdefghijkl b".to_vec();
        bytes.resize(CHUNK - 4, b'.');
        bytes.extend(b"swordfish and token hunter2 /home/alice/");
        fs::write(file.path(), &bytes).unwrap();
        assert_eq!(secrets("run --token hunter2").mask_file(file.path()).unwrap(), 4);
        let masked = fs::read(file.path()).unwrap();
        assert_eq!(masked.len(), bytes.len());
        assert!(masked.starts_with(b"a *************** b"));
        assert!(masked.ends_with(b"********* and token ******* /home/*****/"));
    }

    #[test]
    fn several_assignments_are_a_dump() {
        let secrets = secrets("run");
        assert!(secrets.is_dump(b"HF_TOKEN=x\nHOME=/home/alice\nPATH=/usr/bin:/bin:/sbin"));
        assert!(!secrets.is_dump(b"the variable PATH=/usr/bin is set to something long"));
    }
}
