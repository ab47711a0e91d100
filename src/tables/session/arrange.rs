//! Sorting of lists that are short or sorted once: the code is compiled once, not for each type and key.

use std::cmp::Ordering;

/// Stable sorts like those of slices, of which each costs the compiler as much as a module.
pub trait Arrange<T> {
    /// Like `sort_by`.
    fn arrange_by(&mut self, order: impl Fn(&T, &T) -> Ordering);

    /// Like `sort_by_key`.
    fn arrange_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.arrange_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> Arrange<T> for [T] {
    fn arrange_by(&mut self, order: impl Fn(&T, &T) -> Ordering) {
        for (a, b) in swaps(self.len(), &|a, b| order(&self[a], &self[b])) {
            self.swap(a, b);
        }
    }
}

/// The swaps that put so many elements into order.
fn swaps(count: usize, order: &dyn Fn(usize, usize) -> Ordering) -> Vec<(usize, usize)> {
    let mut sorted: Vec<usize> = (0..count).collect();
    sorted.sort_by(|a, b| order(*a, *b));
    // Where each element goes.
    let mut goal = vec![0; count];
    sorted
        .iter()
        .enumerate()
        .for_each(|(to, from)| goal[*from] = to);
    let mut swaps = Vec::new();
    for at in 0..count {
        while goal[at] != at {
            let to = goal[at];
            swaps.push((at, to));
            goal.swap(at, to);
        }
    }
    swaps
}

#[cfg(test)]
mod tests {
    use super::Arrange;

    #[test]
    fn equal_elements_keep_their_order() {
        for count in [0, 1, 2, 3, 10, 1000] {
            // Keys 0 to 6 in no order, each with where it stood.
            let list: Vec<(usize, usize)> = (0..count).map(|at| (at * at * 31 % 7, at)).collect();
            let (mut arranged, mut expected) = (list.clone(), list);
            arranged.arrange_by_key(|one| one.0);
            expected.sort_by_key(|one| one.0);
            assert_eq!(arranged, expected);
            arranged.arrange_by(|a, b| b.0.cmp(&a.0));
            expected.sort_by_key(|one| std::cmp::Reverse(one.0));
            assert_eq!(arranged, expected);
        }
    }
}
