//! Command lines as a POSIX shell reads them.

/// Words, each quoted if it must be.
pub(crate) fn line(words: &[String]) -> String {
    words
        .iter()
        .map(|one| word(one))
        .collect::<Vec<_>>()
        .join(" ")
}

/// One word.
pub(crate) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_the_same_words() {
        let words = [
            "a b",
            "",
            "it's",
            "$HOME",
            "*",
            "x\ny",
            "^(a|b)$",
            "plain-1.0=x",
        ];
        let words = words.map(str::to_owned);
        let script = format!("printf '%s\\0' {}", line(&words));
        let output = Command::new("sh")
            .args(["-c", &script])
            .output()
            .expect("there is a shell");
        let expected: String = words.iter().map(|word| format!("{word}\0")).collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}
