//! A range as nsys and as ncu want it named.

/// A range and, if it is in one, its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range<'a> {
    pub(super) name: &'a str,
    pub(super) domain: Option<&'a str>,
}

impl<'a> Range<'a> {
    /// Reads `NAME`, `NAME@DOMAIN` or `NAME@*`.
    pub(super) fn of(gate: &'a str) -> Self {
        match gate.rsplit_once('@') {
            Some((name, domain)) if !name.is_empty() && !domain.is_empty() => Self {
                name,
                domain: Some(domain),
            },
            _ => Self {
                name: gate,
                domain: None,
            },
        }
    }

    /// For `--nvtx-include` of ncu: the trailing slash says that the range is pushed and popped; signs with a
    /// meaning are escaped. ncu has no word for any domain, so that such a range is looked for in the default one.
    pub(super) fn include(&self) -> String {
        let mut text = String::new();
        if let Some(domain) = self.domain.filter(|domain| *domain != "*") {
            text.push_str(&escaped(domain));
            text.push('@');
        }
        text.push_str(&escaped(self.name));
        text.push('/');
        text
    }
}

fn escaped(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if "@/[]*+,\\".contains(c) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_pop_ranges_end_in_a_slash_and_keep_their_domain() {
        for (gate, include) in [
            ("decode", "decode/"),
            ("decode@vllm", "vllm@decode/"),
            ("decode@*", "decode/"),
            ("layers/0", "layers\\/0/"),
            ("@x", "\\@x/"),
        ] {
            assert_eq!(Range::of(gate).include(), include);
        }
    }
}
