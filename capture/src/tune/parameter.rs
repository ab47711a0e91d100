//! Parameters of a server: an option, its values, and the command with one of them.

use super::search::Axis;

/// Most values of a range.
const MOST: u64 = 100_000;

/// An option and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

impl Parameter {
    /// `NAME=A..B`, both included, or `NAME=V,…`. Numbers are sorted.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "expected NAME=1..64 or NAME=0.85,0.9".to_owned();
        let (name, values) = text.split_once('=').ok_or_else(wrong)?;
        let name = name.trim_start_matches('-');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(wrong());
        }
        let mut values: Vec<String> = match values.split_once("..") {
            Some((first, last)) => {
                let (first, last): (u64, u64) = first
                    .parse()
                    .ok()
                    .zip(last.parse().ok())
                    .ok_or_else(wrong)?;
                if first > last || last - first >= MOST {
                    return Err(format!(
                        "expected A..B with A not above B, and at most {MOST} values"
                    ));
                }
                (first..=last).map(|value| value.to_string()).collect()
            }
            None => values.split(',').map(str::to_owned).collect(),
        };
        if values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        if values.iter().all(|value| number(value).is_some()) {
            values.sort_by(|a, b| number(a).partial_cmp(&number(b)).expect("finite"));
        }
        let mut seen = std::collections::BTreeSet::new();
        if let Some(twice) = values.iter().find(|value| !seen.insert(value.as_str())) {
            return Err(format!("{twice} is there twice"));
        }
        Ok(Self {
            name: name.to_owned(),
            values,
        })
    }

    /// Its values for the search: in order if all are numbers.
    pub(super) fn axis(&self) -> Axis {
        let numbers: Option<Vec<f64>> = self.values.iter().map(|value| number(value)).collect();
        numbers.map_or(Axis::Named(self.values.len()), Axis::Ordered)
    }

    /// Where the search begins: at the value of the command, or else in the middle of powers of two.
    pub(super) fn start(&self, command: &[String]) -> usize {
        let options = command
            .iter()
            .zip(command.iter().skip(1).map(Some).chain([None]));
        let stated = options.filter_map(|(word, next)| match word.split_once('=') {
            Some((option, value)) if self.is(option) => Some(value),
            None if self.is(word) => next.map(String::as_str),
            _ => None,
        });
        let of_command = stated
            .last()
            .and_then(|stated| self.values.iter().position(|value| value == stated));
        if let Some(place) = of_command {
            return place;
        }
        match self.axis() {
            Axis::Ordered(values) => {
                let middle = (values[0].max(1e-9) * values[values.len() - 1].max(1e-9)).sqrt();
                let place = values.partition_point(|value| *value < middle);
                place.min(values.len() - 1)
            }
            Axis::Named(_) => 0,
        }
    }

    /// Whether a word is this option; programs take `-` and `_` alike.
    fn is(&self, word: &str) -> bool {
        let plain = |name: &str| name.replace('_', "-");
        word.strip_prefix("--")
            .is_some_and(|name| plain(name) == plain(&self.name))
    }

    /// The command with a value: in the place of `{NAME}`, or of the option, or else at its end.
    pub(super) fn put(&self, command: &[String], value: &str) -> Vec<String> {
        let hole = format!("{{{}}}", self.name);
        if command.iter().any(|word| word.contains(&hole)) {
            let filled = command.iter().map(|word| word.replace(&hole, value));
            return filled.collect();
        }
        let option = match value {
            "false" => Vec::new(),
            "true" => vec![format!("--{}", self.name)],
            value => vec![format!("--{}", self.name), value.to_owned()],
        };
        let mut with = Vec::new();
        let mut place = None;
        let mut words = command.iter().peekable();
        while let Some(word) = words.next() {
            let is_whole = self.is(word);
            if !is_whole && !word.split_once('=').is_some_and(|(name, _)| self.is(name)) {
                with.push(word.clone());
                continue;
            }
            place = place.or(Some(with.len()));
            if is_whole && !matches!(value, "true" | "false") {
                words.next_if(|next| !next.starts_with("--"));
            }
        }
        let place = place.unwrap_or(with.len());
        with.splice(place..place, option);
        with
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn values_are_ranges_or_lists() {
        let range = Parameter::parse("max-num-seqs=2..5").expect("a range");
        assert_eq!(range.values, ["2", "3", "4", "5"]);
        let list = Parameter::parse("--gpu-memory-utilization=0.9,0.85").expect("a list");
        assert_eq!(list.values, ["0.85", "0.9"]);
        assert_eq!(list.axis(), Axis::Ordered(vec![0.85, 0.9]));
        let names = Parameter::parse("dtype=half,auto").expect("names");
        assert_eq!(names.axis(), Axis::Named(2));
        for text in [
            "",
            "x",
            "=1",
            "x=",
            "x=1,,2",
            "x=5..1",
            "x=1..999999",
            "x=a..b",
            "x=1,1",
            "a b=1",
        ] {
            assert!(Parameter::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_option_is_replaced_where_it_stands() {
        let seqs = Parameter::parse("max-num-seqs=1..64").expect("a range");
        for (command, with) in [
            ("serve m", "serve m --max-num-seqs 8"),
            ("serve --max-num-seqs 4 m", "serve --max-num-seqs 8 m"),
            ("serve --max_num_seqs=4 m", "serve --max-num-seqs 8 m"),
            ("serve -n {max-num-seqs} m", "serve -n 8 m"),
            (
                "serve --max-num-seqs 4 --max-num-seqs 5",
                "serve --max-num-seqs 8",
            ),
        ] {
            assert_eq!(seqs.put(&words(command), "8"), words(with), "{command}");
        }
        let eager = Parameter::parse("enforce-eager=true,false").expect("names");
        let command = words("serve --enforce-eager m");
        assert_eq!(eager.put(&command, "false"), words("serve m"));
        assert_eq!(eager.put(&command, "true"), command);
    }

    #[test]
    fn the_search_begins_at_the_value_of_the_command() {
        let seqs = Parameter::parse("max-num-seqs=1..64").expect("a range");
        // √(1 × 64) = 8 is at place 7.
        for (command, place) in [
            ("serve m", 7),
            ("serve --max-num-seqs 4 m", 3),
            ("serve --max-num-seqs=64", 63),
            ("serve --max-num-seqs 900", 7),
        ] {
            assert_eq!(seqs.start(&words(command)), place, "{command}");
        }
    }
}
