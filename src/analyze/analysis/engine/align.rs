//! Longest common subsequence of two sequences, by the greedy algorithm of Myers ("An O(ND) Difference
//! Algorithm and Its Variations", Algorithmica 1, 1986).

/// Pairs (index in `a`, index in `b`) of a longest common subsequence, ascending; `None` if the sequences differ by
/// more than `max_edits` insertions and deletions. O((n + m) · edits) time, O(edits²) memory.
pub fn common(a: &[u32], b: &[u32], max_edits: usize) -> Option<Vec<(usize, usize)>> {
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a_rest, b_rest) = (&a[same..], &b[same..]);
    let tail = a_rest
        .iter()
        .rev()
        .zip(b_rest.iter().rev())
        .take_while(|(x, y)| x == y)
        .count();
    let (a_mid, b_mid) = (
        &a_rest[..a_rest.len() - tail],
        &b_rest[..b_rest.len() - tail],
    );
    let middle = differing(a_mid, b_mid, max_edits)?;
    let head = (0..same).map(|index| (index, index));
    let middle = middle.into_iter().map(|(x, y)| (same + x, same + y));
    let end = (0..tail).map(|index| (same + a_mid.len() + index, same + b_mid.len() + index));
    Some(head.chain(middle).chain(end).collect())
}

/// Furthest reach in `a` on the diagonals -d, -d + 2, …, d after d edits.
type Reach = Vec<usize>;

fn differing(a: &[u32], b: &[u32], max_edits: usize) -> Option<Vec<(usize, usize)>> {
    let mut steps: Vec<Reach> = Vec::new();
    for d in 0..=max_edits.min(a.len() + b.len()) {
        let mut reach = Reach::with_capacity(d + 1);
        for i in 0..=d {
            // Diagonal k = x - y = 2i - d.
            let mut x = begin(&steps, d, i).0;
            let mut y = x + d - 2 * i;
            while x < a.len() && y < b.len() && a[x] == b[y] {
                (x, y) = (x + 1, y + 1);
            }
            reach.push(x);
            if x >= a.len() && y >= b.len() {
                steps.push(reach);
                return Some(pairs(&steps, i));
            }
        }
        steps.push(reach);
    }
    None
}

/// Where the `d`-th edit leads to on the `i`-th diagonal, and which diagonal of the step before it came from.
fn begin(steps: &[Reach], d: usize, i: usize) -> (usize, usize) {
    let Some(before) = d.checked_sub(1).map(|d| &steps[d]) else {
        return (0, 0);
    };
    // From the diagonal above an insertion of b's element, from the one below a deletion of a's.
    let insert = before.get(i).map(|x| (*x, i));
    let delete = i.checked_sub(1).and_then(|i| Some((before.get(i)? + 1, i)));
    match (insert, delete) {
        (Some(insert), Some(delete)) => {
            if insert.0 >= delete.0 {
                insert
            } else {
                delete
            }
        }
        (one, other) => one.or(other).unwrap_or_default(),
    }
}

/// Walks the steps back from the end on diagonal `i` of the last one.
fn pairs(steps: &[Reach], mut i: usize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for d in (0..steps.len()).rev() {
        let (start, came_from) = begin(steps, d, i);
        pairs.extend((start..steps[d][i]).rev().map(|x| (x, x + d - 2 * i)));
        i = came_from;
    }
    pairs.reverse();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(text: &str) -> Vec<u32> {
        text.chars().map(u32::from).collect()
    }

    #[test]
    fn the_example_of_the_paper() {
        // ABCABBA and CBABAC: the longest common subsequence has 4 letters, 5 edits.
        let (a, b) = (letters("abcabba"), letters("cbabac"));
        let found = common(&a, &b, 5).expect("five edits do");
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|(x, y)| a[*x] == b[*y]));
        assert!(found.is_sorted_by(|p, q| p.0 < q.0 && p.1 < q.1));
        assert_eq!(common(&a, &b, 4), None);
    }

    #[test]
    fn what_was_inserted_or_taken_out_moves_the_rest() {
        let at = |a, b| common(&letters(a), &letters(b), 10).expect("few edits");
        assert_eq!(at("xabcy", "abc"), [(1, 0), (2, 1), (3, 2)]);
        assert_eq!(at("abc", "abxc"), [(0, 0), (1, 1), (2, 3)]);
        assert_eq!(at("abc", ""), []);
        assert_eq!(at("ab", "cd"), []);
        assert_eq!(at("", ""), []);
        assert_eq!(at("abab", "abab"), [(0, 0), (1, 1), (2, 2), (3, 3)]);
    }

    /// Length by the textbook's table.
    fn length(a: &[u32], b: &[u32]) -> usize {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                table[i + 1][j + 1] = if x == y {
                    table[i][j] + 1
                } else {
                    table[i][j + 1].max(table[i + 1][j])
                };
            }
        }
        table[a.len()][b.len()]
    }

    proptest::proptest! {
        #[test]
        fn as_long_as_the_table_says(
            a in proptest::collection::vec(0u32..4, 0..40),
            b in proptest::collection::vec(0u32..4, 0..40),
        ) {
            let found = common(&a, &b, 80).expect("at most 80 edits");
            proptest::prop_assert_eq!(found.len(), length(&a, &b));
            proptest::prop_assert!(found.iter().all(|(x, y)| a[*x] == b[*y]));
            proptest::prop_assert!(found.is_sorted_by(|p, q| p.0 < q.0 && p.1 < q.1));
        }
    }
}
