//! The secrets of an environment and a command line, covered in texts and files.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use super::masker::{Masker, Settled};
use super::needle::Needles;
use super::telling::{Telling, in_arguments, is_ordinary, spans, telling};

/// Shorter values are found everywhere by chance.
const SHORTEST: usize = 6;

/// Bytes of a file that are looked at at once.
const CHUNK: usize = 4 << 20;

/// What stands between a name and its value.
const BETWEEN: [&str; 12] = [
    "=", "='", "=\"", ": ", ":", "\": \"", "\":\"", "': '", "\", \"", "\",\"", "', '", " ",
];

/// What is masked, wherever it occurs.
pub(crate) struct Secrets {
    needles: Arc<Needles>,
    /// Names of all variables of the environment: several of them together are a dump of one.
    variables: Vec<String>,
    /// Arguments of the command that hold a secret.
    arguments: Vec<String>,
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
        let (mut needles, mut variables, mut arguments) =
            (Needles::default(), Vec::new(), Vec::new());
        for (name, value) in environment {
            if let Some(telling) = telling(&name) {
                add(&mut needles, &name, &value, telling);
            }
            for span in spans(&value) {
                add(&mut needles, &span.name, &value[span.range], span.telling);
            }
            if !keep_names {
                add_name(&mut needles, &name, &value);
            }
            variables.push(name);
        }
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        for (index, span) in in_arguments(&command) {
            let argument = command[index];
            add(
                &mut needles,
                &span.name,
                &argument[span.range],
                span.telling,
            );
            arguments.push(argument.to_owned());
        }
        Self {
            needles: Arc::new(needles),
            variables,
            arguments,
            keep_names,
        }
    }

    /// The command line without secrets.
    pub(crate) fn masked(&self, command: &[String]) -> Vec<String> {
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        let mut masked: Vec<Vec<u8>> = command.iter().map(|one| one.clone().into_bytes()).collect();
        for (index, span) in in_arguments(&arguments) {
            masked[index][span.range].fill(b'*');
        }
        let text = |one: Vec<u8>| self.masked_text(&String::from_utf8_lossy(&one));
        masked.into_iter().map(text).collect()
    }

    /// Text without secrets.
    pub(crate) fn masked_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.masker().whole(text.as_bytes())).into_owned()
    }

    /// What covers the same in bytes that come piece by piece.
    pub(crate) fn masker(&self) -> Masker {
        Masker::new(Arc::clone(&self.needles))
    }

    /// Covers what is in the file, in place. Gives the number of places. A link is an error.
    pub(crate) fn mask_file(&self, path: &Path) -> io::Result<u64> {
        let no_link = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path);
        let mut file = no_link?;
        let (mut masker, mut buffer) = (self.masker(), vec![0; CHUNK]);
        let mut written = Written::default();
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            written.masks(&file, &masker.push(&buffer[..read]))?;
        }
        written.masks(&file, &masker.finish())?;
        Ok(written.places)
    }

    /// Whether the text holds any.
    pub(crate) fn are_in(&self, text: &[u8]) -> bool {
        !self.needles.scan(text).is_empty()
    }

    /// Whether the text is an argument of the command that holds a secret.
    pub(crate) fn is_argument(&self, text: &[u8]) -> bool {
        self.arguments
            .iter()
            .any(|argument| argument.as_bytes() == text)
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

/// Adds the name of the host or of the user, where a variable of the environment gives it.
fn add_name(needles: &mut Needles, variable: &str, value: &str) {
    match variable {
        "HOME" => {
            if let Some((parent, user)) = value.rsplit_once('/')
                && !parent.is_empty()
                && !user.is_empty()
            {
                needles.add_behind(&format!("{parent}/"), user);
            }
        }
        "HOSTNAME" | "HOST" if !value.is_empty() && value != "localhost" => {
            add(needles, variable, value, Telling::Weak);
            // Shells and remote copies write `user@host`.
            needles.add_behind("@", value);
        }
        // A user may have the name of a library, which kernels have in theirs.
        "USER" | "LOGNAME" | "USERNAME" => add_behind_name(needles, variable, value),
        _ => {}
    }
}

/// Adds a value of this name. What other texts may hold by chance is covered behind the name alone.
fn add(needles: &mut Needles, name: &str, value: &str, telling: Telling) {
    let value = value.trim();
    if value.len() >= SHORTEST && !(telling == Telling::Weak && is_ordinary(value)) {
        needles.add(value);
        // Of an address whose path is the secret, programs print the path alone, too.
        let path = value
            .split_once("://")
            .and_then(|(_, rest)| rest.split_once('/'));
        for part in path.into_iter().flat_map(|(_, path)| path.split('/')) {
            if part.len() >= SHORTEST && !is_ordinary(part) {
                needles.add(part);
            }
        }
    } else {
        add_behind_name(needles, name, value);
    }
}

/// Adds a value that is covered behind its name alone.
fn add_behind_name(needles: &mut Needles, name: &str, value: &str) {
    if name.is_empty() || value.is_empty() {
        return;
    }
    // Blanks stand between words of any text, too.
    for between in BETWEEN
        .iter()
        .filter(|between| **between != " " || name.starts_with('-'))
    {
        needles.add_behind(&format!("{name}{between}"), value);
    }
}

/// How far a file is masked.
#[derive(Default)]
struct Written {
    offset: u64,
    /// Where the last mask ends.
    masked: Option<u64>,
    places: u64,
}

impl Written {
    /// Writes the masks of the next bytes.
    fn masks(&mut self, file: &File, settled: &Settled) -> io::Result<()> {
        for mask in &settled.masks {
            let start = self.offset + mask.start as u64;
            file.write_all_at(&settled.bytes[mask.clone()], start)?;
            // One that goes on where the last bytes ended is the same place.
            self.places += u64::from(self.masked != Some(start));
            self.masked = Some(start + mask.len() as u64);
        }
        self.offset += settled.bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

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
            (
                "run --token hunter2 --batch 8",
                "run --token ******* --batch 8",
            ),
            ("run --api-key=hunter22 -k a", "run --api-key=******** -k a"),
            ("env WANDB_API_KEY=abc run", "env WANDB_API_KEY=*** run"),
            (
                "run --max-new-tokens 64 --tokenizer gpt2",
                "run --max-new-tokens 64 --tokenizer gpt2",
            ),
            ("run sk-0123456789abcdef", "run *******************"),
            ("run /home/alice/x.py", "run /home/*****/x.py"),
            ("run http://u:pw@host/x", "run http://u:**@host/x"),
            (
                "run 0123456789abcdef0123456789abcdef",
                &format!("run {}", "*".repeat(32)),
            ),
            ("run x=hf_abcdefghijkl", "run x=***************"),
            (
                "ncu --kernel-name regex:^_ZN2at6native13reduce_kernelILi128ELi4ENS0_8ReduceOpIN3c10EEvT1_$",
                "ncu --kernel-name regex:^_ZN2at6native13reduce_kernelILi128ELi4ENS0_8ReduceOpIN3c10EEvT1_$",
            ),
            (
                "run _0123456789abcdef0123456789abcdef",
                &format!("run {}", "*".repeat(33)),
            ),
            ("run --pass abc --pw=d", "run --pass *** --pw=*"),
            (
                "sshpass -p s3cret ssh -p 2222 host",
                "sshpass -p ****** ssh -p 2222 host",
            ),
            (
                "run -p 512,1024 -p out/x -p word -p a:b",
                "run -p 512,1024 -p out/x -p word -p a:b",
            ),
            (
                "run --secret --X7 --use-auth-token --batch 8",
                "run --secret **** --use-auth-token --batch 8",
            ),
            (
                "env DB_PASS2=abc API_KEY_1=x run",
                "env DB_PASS2=*** API_KEY_1=* run",
            ),
            (
                "curl -u me:pw -u 1000:100 -ume:pw",
                "curl -u me:** -u 1000:100 -ume:**",
            ),
            (
                "run https://abcdef@host/x git://git@host",
                "run https://******@host/x git://git@host",
            ),
            (
                "run a=ftp://u:v@h,http://w:xy@h/?token=z&b=1",
                "run a=ftp://u:*@h,http://w:**@h/?token=*&b=1",
            ),
            (
                r#"run {"api_key":"a\"b","max_tokens":5,"deep":{"password":null}}"#,
                r#"run {"api_key":"****","max_tokens":5,"deep":{"password":****}}"#,
            ),
            (
                "run --bos-token <s> --pass-through x --passes 3",
                "run --bos-token <s> --pass-through x --passes 3",
            ),
        ] {
            assert_eq!(secrets(command).masked(&words(command)).join(" "), masked);
        }
    }

    #[test]
    fn headers_and_words_of_a_shell_lose_their_secrets() {
        for (argument, masked) in [
            (
                "Authorization: Bearer abc.def",
                "Authorization: Bearer *******",
            ),
            ("X-Api-Key: a b", "X-Api-Key: ***"),
            (
                "import os; os.environ['HF_TOKEN'] = 'ab'; f(\"API_TOKEN\", 'x', \"key\", 'y')",
                "import os; os.environ['HF_TOKEN'] = '**'; f(\"API_TOKEN\", '*', \"key\", 'y')",
            ),
            ("cookie: a=b; c=d", "cookie: ********"),
            (
                "cd; FOO_TOKEN=x run --pass y -u me:z 1",
                "cd; FOO_TOKEN=* run --pass * -u me:* 1",
            ),
            (
                "curl -H 'authorization: basic eHh4' u",
                "curl -H 'authorization: basic ****' u",
            ),
        ] {
            let command = ["sh".to_owned(), "-c".to_owned(), argument.to_owned()];
            assert_eq!(secrets("run").masked(&command)[2], masked);
        }
    }

    #[test]
    fn short_and_ordinary_values_are_covered_behind_their_names_alone() {
        let environment = [
            ("DB_PASS", "abc"),
            ("MY_PWD", "x"),
            ("SORT_KEY", "decode"),
            ("FORWARD_PASS", "prefill"),
            ("SSH_AUTH_SOCK", "/tmp/agent"),
            ("PWD", "/srv/decode"),
            ("STAGE", "sample"),
            ("SLACK_WEBHOOK", "https://hooks/T0/B0"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = Secrets::of(
            environment.into_iter(),
            &words("run --pin 1 --pass zz"),
            false,
        );
        for (text, masked) in [
            ("DB_PASS=abc abc", "DB_PASS=*** abc"),
            (
                "{'DB_PASS': 'abc', \"MY_PWD\": \"x\"}",
                "{'DB_PASS': '***', \"MY_PWD\": \"*\"}",
            ),
            (r#"{\"DB_PASS\": \"abc\"}"#, r#"{\"DB_PASS\": \"***\"}"#),
            ("DB_PASS=abd", "DB_PASS=abd"),
            (
                "SORT_KEY=decode decode prefill",
                "SORT_KEY=****** decode prefill",
            ),
            (
                "/tmp/agent /srv/decode sample",
                "/tmp/agent /srv/decode sample",
            ),
            ("run --pass zz zz", "run --pass ** zz"),
            ("to https://hooks/T0/B0", "to *******************"),
        ] {
            assert_eq!(secrets.masked_text(text), masked);
        }
        assert!(secrets.is_argument(b"zz") && !secrets.is_argument(b"run"));
    }

    #[test]
    fn output_loses_the_names_of_host_and_user_unless_they_are_kept() {
        let masked = |keep_names| {
            let environment = [("HOSTNAME", "gpu-node-17"), ("USER", "alice")];
            let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
            Secrets::of(environment.into_iter(), &words("run"), keep_names)
                .masked_text("rank 0 on gpu-node-17, alice, USER=alice")
        };
        assert_eq!(masked(false), "rank 0 on ***********, alice, USER=*****");
        assert_eq!(masked(true), "rank 0 on gpu-node-17, alice, USER=alice");
    }

    #[test]
    fn pieces_of_any_size_lose_the_same() {
        let secrets = secrets("run --token hunter2 --pass ab");
        let text = "a hf_abcdefghijkl hunter2 /home/alice hunter2hunter2 --pass ab --pass abc aHVudGVyMg== hunter hf_";
        let masked = secrets.masked_text(text);
        assert_eq!(
            masked.matches('*').count(),
            15 + 7 + 5 + 14 + 2 + 2 + 9,
            "{masked}"
        );
        for size in 1..text.len() {
            let (mut masker, mut written) = (secrets.masker(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                written.extend(masker.push(piece).bytes);
            }
            written.extend(masker.finish().bytes);
            assert_eq!(
                String::from_utf8_lossy(&written),
                masked,
                "pieces of {size}"
            );
        }
    }

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "swordfish").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(secrets("run").mask_file(&link).is_err());
        assert_eq!(secrets("run").mask_file(&file).unwrap(), 1);
    }

    #[test]
    fn files_lose_secrets_and_keep_their_size() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // The second one lies across the end of a piece.
        let mut bytes = b"a hf_abcdefghijkl b".to_vec();
        bytes.resize(CHUNK - 4, b'.');
        bytes.extend(b"swordfish and token hunter2 /home/alice/");
        fs::write(file.path(), &bytes).unwrap();
        assert_eq!(
            secrets("run --token hunter2")
                .mask_file(file.path())
                .unwrap(),
            4
        );
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
