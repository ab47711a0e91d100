//! A short expression for some kernels among those of a timeline.
//!
//! ncu compares the name of each launch with the expression. Mangled names of templates have hundreds of characters, and
//! begin alike: an alternation of whole names compares the same characters again for each of them. Here, names that
//! begin alike share their beginning, and a name ends where no other kernel of the timeline goes on like it.

/// Characters of a name that are compared at least: kernels that the timeline did not see have other ones.
const LEAST: usize = 24;

/// What ends a name that others begin with: less than all characters of names.
const END: char = '\0';

/// An expression that matches these names, and of `all` no others.
pub(super) fn filter(names: &[&str], all: &[String]) -> String {
    let others: Vec<&String> = all
        .iter()
        .filter(|other| !names.contains(&other.as_str()))
        .collect();
    let mut beginnings: Vec<Vec<char>> =
        names.iter().map(|name| beginning(name, &others)).collect();
    beginnings.sort_unstable();
    // One that begins like the one before it matches already.
    beginnings.dedup_by(|next, kept| next.starts_with(kept));
    let slices: Vec<&[char]> = beginnings.iter().map(Vec::as_slice).collect();
    format!("^{}", alternation(&slices))
}

/// The shortest beginning of a name that no other name has.
fn beginning(name: &str, others: &[&String]) -> Vec<char> {
    let mut name: Vec<char> = name.chars().collect();
    name.push(END);
    let shared = |other: &&String| {
        name.iter()
            .zip(other.chars())
            .take_while(|(a, b)| **a == *b)
            .count()
    };
    let longest = others.iter().map(shared).max().unwrap_or(0);
    name.truncate((longest + 1).max(LEAST));
    name
}

/// An expression for words in order, of which none begins like another.
fn alternation(words: &[&[char]]) -> String {
    let (Some(first), Some(last)) = (words.first(), words.last()) else {
        return String::new();
    };
    let shared = first.iter().zip(*last).take_while(|(a, b)| a == b).count();
    let mut text: String = first[..shared].iter().map(|c| escaped(*c)).collect();
    let rests: Vec<&[char]> = words.iter().map(|word| &word[shared..]).collect();
    if rests.len() > 1 {
        let groups = rests.chunk_by(|a, b| a.first() == b.first());
        let groups: Vec<String> = groups.map(alternation).collect();
        text += &format!("({})", groups.join("|"));
    }
    text
}

fn escaped(c: char) -> String {
    match c {
        END => "$".to_owned(),
        '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => {
            format!("\\{c}")
        }
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str], others: &[&str]) -> String {
        let all: Vec<String> = names
            .iter()
            .chain(others)
            .map(|name| (*name).to_owned())
            .collect();
        filter(names, &all)
    }

    #[test]
    fn names_end_where_no_other_kernel_goes_on_like_them() {
        let long = "a".repeat(30);
        let name = |ending: &str| format!("{long}{ending}");
        assert_eq!(of(&[&long], &["b"]), format!("^{}", &long[..24]));
        // The names differ after 30 characters.
        let (first, second) = (name("1xyz"), name("2xyz"));
        assert_eq!(of(&[&first], &[&second]), format!("^{long}1"));
        assert_eq!(
            of(&[&first, &second], &[&name("3")]),
            format!("^{long}(1|2)")
        );
        // All that begin so are wanted.
        assert_eq!(of(&[&first, &second], &["b"]), format!("^{}", &long[..24]));
        // Another one goes on where the name ends.
        assert_eq!(of(&[&long], &[&first]), format!("^{long}$"));
        assert_eq!(of(&[&long, &second], &[&first]), format!("^{long}($|2)"));
    }

    #[test]
    fn short_names_are_compared_to_their_end() {
        assert_eq!(of(&["gemm", "gemv"], &["ge"]), "^gem(m$|v$)");
        assert_eq!(of(&["a.b"], &["axb"]), "^a\\.b$");
        assert_eq!(of(&["gemm"], &["gemm2"]), "^gemm$");
    }
}
