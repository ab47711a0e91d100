//! What Nsight Compute did to caches and clocks, by its command line.

/// How launches were replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control<'a> {
    /// `all` (caches are flushed before each replay) or `none`.
    pub cache: &'a str,
    /// `base` (the SM clock is locked to its base rate), `boost` or `none`.
    pub clock: &'a str,
}

/// What ncu does where its command line says nothing.
const DEFAULT: Control<'static> = Control {
    cache: "all",
    clock: "base",
};

/// The control of a recorded command line; `None` if no `ncu` is in it.
pub fn of_command(command: &str) -> Option<Control<'_>> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let program = |word: &&str| {
        word.rsplit(['/', '\\'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let start = words.iter().position(|word| {
        matches!(
            program(word).as_str(),
            "ncu" | "ncu.exe" | "nv-nsight-cu-cli"
        )
    })?;
    let option = |name: &str| {
        let arguments = &words[start..];
        arguments.iter().enumerate().find_map(|(index, word)| {
            let rest = word.strip_prefix(name)?;
            rest.strip_prefix('=').or_else(|| {
                arguments
                    .get(index + 1)
                    .copied()
                    .filter(|_| rest.is_empty())
            })
        })
    };
    Some(Control {
        cache: option("--cache-control").unwrap_or(DEFAULT.cache),
        clock: option("--clock-control").unwrap_or(DEFAULT.clock),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_both_forms_and_default_to_all_and_base() {
        let of = |command| of_command(command).map(|control| (control.cache, control.clock));
        assert_eq!(of("ncu --set full python3 x.py"), Some(("all", "base")));
        assert_eq!(
            of("/opt/ncu --cache-control=none --clock-control none python3 x.py"),
            Some(("none", "none"))
        );
        assert_eq!(
            of("env A=1 ncu --clock-control boost app"),
            Some(("all", "boost"))
        );
        assert_eq!(of("ncu --clock-control"), Some(("all", "base")));
        assert_eq!(of("python3 x.py"), None);
        assert_eq!(of(""), None);
    }
}
