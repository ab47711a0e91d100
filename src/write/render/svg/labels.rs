//! Where labels go: no two overlap.

use super::page::Rect;
use crate::length::{Place, Pt};

/// Places that are taken.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// Other labels: never covered.
    texts: Vec<Rect>,
    /// Lines and marks, and how bad it is to cover each.
    marks: Vec<(Rect, usize)>,
}

impl Labels {
    /// A disc that labels avoid where possible.
    pub(super) fn avoid(&mut self, mark: Rect) {
        self.marks.push((mark, 20));
    }

    /// Marks a straight line as something to avoid.
    pub(super) fn avoid_line(&mut self, from: Place, to: Place) {
        for (x, y) in along(from, to) {
            self.marks
                .push((Rect::new(x - Pt(0.5), y - Pt(0.5), Pt(1.0), Pt(1.0)), 1));
        }
    }

    /// Takes, of the candidates that are free of texts, the first that covers least of the marks.
    /// A candidate is a list of boxes, so that slanted texts can follow their line.
    pub(super) fn place(&mut self, candidates: &[Vec<Rect>]) -> Option<usize> {
        let mut best: Option<(usize, usize)> = None;
        for (n, boxes) in candidates.iter().enumerate() {
            // Nearly all is far from the whole label, and then from each of its boxes.
            let around = Rect::around(boxes);
            let covers =
                |taken: &Rect| taken.overlaps(&around) && boxes.iter().any(|b| taken.overlaps(b));
            if self.texts.iter().any(covers) {
                continue;
            }
            let covered = self.marks.iter().filter(|(mark, _)| covers(mark));
            let marks: usize = covered.map(|(_, weight)| weight).sum();
            if best.is_none_or(|(_, least)| marks < least) {
                best = Some((n, marks));
            }
            if marks == 0 {
                break;
            }
        }
        let (best, _) = best?;
        self.texts.extend_from_slice(candidates.get(best)?);
        Some(best)
    }
}

/// Points along a line, two units apart.
fn along(from: Place, to: Place) -> impl Iterator<Item = Place> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let steps = (dx.hypot(dy).0 / 2.0).clamp(1.0, 2000.0) as usize;
    (0..=steps).map(move |n| {
        let share = n as f64 / steps as f64;
        (from.0 + dx * share, from.1 + dy * share)
    })
}

/// The boxes of a text of `length` by `size` that starts at `(x, y)` and rises along the unit vector `(dx, dy)`.
pub(super) fn slanted((x, y): Place, direction: (f64, f64), length: Pt, size: Pt) -> Vec<Rect> {
    let (dx, dy) = direction;
    // The middle of the text's height lies to the left of its direction.
    let (mx, my) = (x + size * dy * 0.3, y - size * dx * 0.3);
    along((mx, my), (mx + length * dx, my + length * dy))
        .map(|(x, y)| Rect::new(x - size * 0.4, y - size * 0.4, size * 0.8, size * 0.8))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(x: f64) -> Rect {
        Rect::new(Pt(x), Pt::ZERO, Pt(10.0), Pt(10.0))
    }

    #[test]
    fn labels_take_the_first_free_place() {
        let mut labels = Labels::default();
        let candidates = [vec![square(0.0)], vec![square(20.0)]];
        assert_eq!(labels.place(&candidates), Some(0));
        assert_eq!(labels.place(&candidates), Some(1));
        assert_eq!(labels.place(&candidates), None);
    }

    #[test]
    fn marks_are_covered_only_if_nothing_else_is_free() {
        let mut labels = Labels::default();
        labels.avoid_line((Pt::ZERO, Pt(5.0)), (Pt(10.0), Pt(5.0)));
        let over = vec![square(0.0)];
        let adjacent = vec![square(20.0)];
        assert_eq!(labels.place(&[over.clone(), adjacent]), Some(1));
        assert_eq!(labels.place(&[over]), Some(0));
    }
}
