//! `kernels.yaml`: the kernels that ncu is to profile, as `kernels` and `rooflens kernels --top K --yaml` write them.
//!
//! ```yaml
//! kernels:
//!   - name: 'void gemm<float>(int)'
//!     regex: '^gemm$'
//!     share: 0.42
//!     launches: [17, 45]
//! window: {skip: 102, count: 12}
//! name_base: function
//! ```
//!
//! `launches` counts the launches of that function in the process from 0. ncu counts over
//! all chosen kernels together: `window` says it so, and is optional, as are `share`, `launches` and `name_base`.
//! Read is this shape and no other YAML: a reader that guesses would profile the wrong kernels.

/// The kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernels {
    /// The kernels, in the order of the file.
    pub(crate) kernels: Vec<Kernel>,
    /// Launches of all of them together: how many are passed over, how many are profiled.
    pub(crate) exact_window: Option<(u64, u64)>,
    /// Which name of a kernel the expressions match: `demangled` or `function`.
    pub(crate) base: String,
}

/// One kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) regex: String,
    /// Ordinals, from 0.
    pub(crate) launches: Vec<u64>,
}

impl Kernel {
    /// The function that the expression matches, if it matches one alone.
    pub(crate) fn function(&self) -> String {
        let inner = self.regex.trim_start_matches('^').trim_end_matches('$');
        inner.replace('\\', "")
    }
}

impl Kernels {
    /// Reads the text; errors name the line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut read = Self {
            kernels: Vec::new(),
            exact_window: None,
            base: "function".to_owned(),
        };
        for (index, line) in text.lines().enumerate() {
            read.line(line)
                .map_err(|reason| format!("line {}: {reason}", index + 1))?;
        }
        match read
            .kernels
            .iter()
            .position(|kernel| kernel.regex.is_empty())
        {
            _ if read.kernels.is_empty() => Err("it lists no kernel".to_owned()),
            Some(index) => Err(format!("kernel {} has no regex", index + 1)),
            None => Ok(read),
        }
    }

    /// One expression for all kernels.
    pub(crate) fn pattern(&self) -> String {
        let mut each: Vec<&str> = Vec::new();
        for kernel in &self.kernels {
            // Instances of one template have one function.
            if !each.contains(&kernel.regex.as_str()) {
                each.push(&kernel.regex);
            }
        }
        each.join("|")
    }

    /// Launches to pass over and to profile, counted over all kernels. Without a window in the file: as many launches
    /// precede the chosen ones as their ordinals say together, which holds if all are of one step of a loop.
    pub(crate) fn window(&self) -> (u64, u64) {
        let firsts = self
            .kernels
            .iter()
            .filter_map(|kernel| kernel.launches.first());
        let skip = firsts.fold(0, |sum: u64, first| sum.saturating_add(*first));
        let count = (4 * self.kernels.len() as u64).max(32);
        self.exact_window.unwrap_or((skip, count))
    }

    /// What the manifest says of it.
    pub(crate) fn describe_window(&self) -> String {
        let (skip, count) = self.window();
        let kernels = self.kernels.len();
        let how = if self.exact_window.is_some() {
            "by the list"
        } else {
            "estimated"
        };
        format!(
            "{kernels} kernels by name; launches {skip} to {} of them together, {how}",
            skip.saturating_add(count)
        )
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let content = line.trim_end();
        let (indent, content) = (
            content.len() - content.trim_start().len(),
            content.trim_start(),
        );
        if content.is_empty() || content.starts_with('#') || matches!(content, "kernels:" | "---") {
            return Ok(());
        }
        let (starts, content) = match content.strip_prefix("- ") {
            Some(rest) => (true, rest.trim_start()),
            None => (false, content),
        };
        if starts {
            self.kernels.push(Kernel::default());
        }
        let (key, value) = content
            .split_once(':')
            .ok_or("expected a key and a value")?;
        let value = value.trim();
        match (starts || indent > 0, key.trim(), self.kernels.last_mut()) {
            (true, "name", Some(kernel)) => kernel.name = scalar(value)?,
            (true, "regex", Some(kernel)) => kernel.regex = scalar(value)?,
            (true, "launches", Some(kernel)) => kernel.launches = list(value)?,
            // Shares and what later versions add are for people.
            (true, _, Some(_)) => {}
            (false, "window", _) => self.exact_window = Some(window(value)?),
            (false, "name_base", _) => self.base = name_base(&scalar(value)?)?,
            (false, ..) => {}
            (true, _, None) => return Err("expected a kernel that begins with \"- \"".to_owned()),
        }
        Ok(())
    }
}

fn name_base(text: &str) -> Result<String, String> {
    match text {
        "demangled" | "function" | "mangled" => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not demangled, function or mangled")),
    }
}

/// Plain, single-quoted (two quotes are one) or double-quoted as in JSON.
fn scalar(text: &str) -> Result<String, String> {
    if let Some(rest) = text.strip_prefix('\'') {
        let inner = rest.strip_suffix('\'').ok_or("expected ' at the end")?;
        let unquoted = inner.replace("''", "\0");
        match unquoted.contains('\'') {
            true => Err("a ' inside of quotes must be doubled".to_owned()),
            false => Ok(unquoted.replace('\0', "'")),
        }
    } else if text.starts_with('"') {
        serde_json::from_str(text).map_err(|error| error.to_string())
    } else if text.starts_with(['|', '>', '&', '*', '!', '%', '@', '`', '{', '[']) {
        Err("expected plain or quoted text on one line".to_owned())
    } else {
        Ok(text
            .split(" #")
            .next()
            .unwrap_or_default()
            .trim_end()
            .to_owned())
    }
}

fn list(text: &str) -> Result<Vec<u64>, String> {
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let inner = inner.ok_or("expected a list such as [1, 2]")?.trim();
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    let number = |item: &str| {
        item.trim()
            .parse()
            .map_err(|_| format!("{item:?} is no ordinal"))
    };
    inner.split(',').map(number).collect()
}

fn window(text: &str) -> Result<(u64, u64), String> {
    let inner = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or("expected {skip: N, count: N}")?;
    let (mut skip, mut count) = (None, None);
    for pair in inner.split(',') {
        let (key, value) = pair.split_once(':').ok_or("expected {skip: N, count: N}")?;
        let value: u64 = value
            .trim()
            .parse()
            .map_err(|_| format!("{value:?} is no number"))?;
        match key.trim() {
            "skip" => skip = Some(value),
            "count" => count = Some(value).filter(|count| *count > 0),
            other => return Err(format!("{other:?} is not of a window")),
        }
    }
    skip.zip(count)
        .ok_or_else(|| "a window has skip and count".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# by rooflens\nkernels:\n  - name: 'it''s<1>'\n    regex: '^it\\.s$'\n    share: 0.5\n    \
        launches: [17, 45]\n  - name: plain # a remark\n    regex: \"^a\\\\(b$\"\n    launches: [3]\n  - name: b\n    regex: '^it\\.s$'\n";

    #[test]
    fn kernels_are_read_with_their_quotes_undone() {
        let read = Kernels::parse(TEXT).expect("valid");
        assert_eq!(read.kernels[0].name, "it's<1>");
        assert_eq!(read.kernels[1].name, "plain");
        assert_eq!(read.pattern(), r"^it\.s$|^a\(b$");
        // 17 + 3 launches precede; at least 32 are profiled.
        assert_eq!(read.window(), (20, 32));
    }

    #[test]
    fn a_window_of_the_file_is_exact() {
        let read = Kernels::parse(&format!(
            "{TEXT}window: {{skip: 9, count: 4}}\nname_base: demangled\n"
        ));
        let read = read.expect("valid");
        assert_eq!((read.window(), read.base.as_str()), ((9, 4), "demangled"));
    }

    #[test]
    fn what_is_not_of_this_shape_is_refused_with_its_line() {
        for (text, reason) in [
            ("kernels:\n", "no kernel"),
            ("- name: a\n", "has no regex"),
            ("kernels:\n  regex: a\n", "line 2"),
            ("- regex: 'a\n", "line 1"),
            ("- regex: a\n  launches: 1\n", "line 2"),
            ("- regex: a\n  launches: [x]\n", "line 2"),
            ("- regex: a\nwindow: {skip: 1}\n", "line 2"),
            ("- regex: |\n", "one line"),
        ] {
            let error = Kernels::parse(text).expect_err(text);
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
