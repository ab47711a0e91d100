//! Trees as flame graphs: of the GPU's time, down to kernels, and of the host's time, down to CUDA calls.

#[cfg(test)]
mod tests;

use rooflens_schemas::Unit;
use rooflens_session::Ns;
use rooflens_units::{Ratio, Time};

use crate::Context;
use crate::class_color;
use rooflens_analysis::engine::classify::{KernelClass, copy_class};
use rooflens_analysis::operators::call_tree::{Activity, Leaf, Node, Tree};
use rooflens_document::Chart;
use rooflens_document::chart::{Color, Flame, FlameFrame, Part, Plot};

/// Frames narrower than this share of the width are merged into one.
const NARROW: Ratio = Ratio(0.003);

/// Rows of a chart.
const MAX_ROWS: u32 = 12;

/// A frame that no other is within.
struct Tip {
    node: u32,
    label: String,
    time: Ns,
    part: usize,
}

/// A tree being laid out.
struct Layout<'a> {
    context: &'a Context<'a>,
    tree: &'a Tree,
    children: Vec<Vec<u32>>,
    weight: &'a dyn Fn(&Node) -> Ns,
    /// By (node, time descending).
    tips: Vec<Tip>,
    total: Time,
    frames: Vec<FlameFrame>,
}

/// The flame graph of GPU time, the sum of the durations of operations; none without such time.
pub(super) fn of_device(context: &Context<'_>, tree: &Tree, id: String) -> Option<Chart> {
    let name = |activity: Activity| match activity {
        Activity::Kernel(kernel) => {
            let identity = &context.facts.identities[kernel.index()];
            (identity.short.clone(), class_color(identity.class))
        }
        Activity::Copy(kind) => (kind.label().to_owned(), class_color(copy_class(kind))),
        Activity::Graph => (
            KernelClass::Graph.label().to_owned(),
            class_color(KernelClass::Graph),
        ),
    };
    let named = tree.work.iter().map(|leaf| (leaf, name(leaf.what)));
    let named: Vec<(&Leaf<Activity>, (String, Color))> = named.collect();
    let used: Vec<Color> = Color::KERNELS
        .into_iter()
        .filter(|color| named.iter().any(|(_, (_, own))| own == color))
        .collect();
    let part = |color: &Color| used.iter().position(|part| part == color).unwrap_or(0);
    let tips = named.into_iter().map(|(leaf, (label, color))| {
        let (node, time, part) = (leaf.node, leaf.time, part(&color));
        Tip {
            node,
            label,
            time,
            part,
        }
    });
    let parts = used.iter().map(|color| Part::new(color.label(), *color));
    let flame = layout(
        context,
        tree,
        &|node| node.sum.within.device,
        tips.collect(),
        parts.collect(),
    )?;
    let labels = [
        words!(context, "flame.device"),
        words!(context, "flame.issuer"),
        words!(context, "flame.device_width"),
    ];
    Some(chart(context, tree, id, labels, flame))
}

/// The flame graph of the time of the thread that opened the stage; none without spans on it.
pub(super) fn of_host(context: &Context<'_>, tree: &Tree, id: String) -> Option<Chart> {
    let session = context.session;
    let tips = tree.calls.iter().map(|leaf| Tip {
        node: leaf.node,
        label: session.text(leaf.what).to_owned(),
        time: leaf.time,
        part: 0,
    });
    let tips: Vec<Tip> = tips.collect();
    let calls = Part::new(words!(context, "flame.calls"), Color::Elementwise);
    let parts = if tips.is_empty() {
        Vec::new()
    } else {
        vec![calls]
    };
    let flame = layout(context, tree, &|node| node.sum.host_total, tips, parts)?;
    let labels = [
        words!(context, "flame.host"),
        words!(context, "flame.caller"),
        words!(context, "flame.host_width"),
    ];
    Some(chart(context, tree, id, labels, flame))
}

/// A chart of what: the time, what it is by where functions are not known, and what the width of a frame is.
fn chart(
    context: &Context<'_>,
    tree: &Tree,
    id: String,
    [time, by, width]: [String; 3],
    flame: Flame,
) -> Chart {
    let (stage, pass) = (tree.label.as_str(), context.session.pass_name(tree.pass));
    let instances = match tree.instances {
        1 => words!(context, "flame.one_instance"),
        count => words!(context, "flame.instances", count = count.to_string()),
    };
    let (by, frames) = match tree.has_functions() {
        true => (
            words!(context, "flame.function"),
            words!(context, "flame.frames"),
        ),
        false => (by, words!(context, "flame.folded_frames")),
    };
    let description = words!(
        context,
        "flame.chart_text",
        stage = stage,
        pass = pass,
        instances = instances.as_str(),
        width = width,
        frames = frames,
    );
    let title = words!(
        context,
        "flame.chart",
        time = time,
        stage = stage,
        by = by,
        pass = pass,
        instances = instances,
    );
    Chart {
        id,
        title,
        description,
        plot: Plot::Flame(flame),
    }
}

fn layout(
    context: &Context<'_>,
    tree: &Tree,
    weight: &dyn Fn(&Node) -> Ns,
    tips: Vec<Tip>,
    parts: Vec<Part>,
) -> Option<Flame> {
    let root = tree.nodes.first().filter(|_| tree.has_inner())?;
    let total = weight(root).time();
    let children = tree.children(weight);
    let mut layout = Layout {
        context,
        tree,
        children,
        weight,
        tips,
        total,
        frames: Vec::new(),
    };
    if total <= Time::ZERO {
        return None;
    }
    layout.place(0, &tree.label, Time::ZERO, total);
    Some(Flame {
        unit: Unit::Nanoseconds,
        total,
        parts,
        frames: layout.frames,
    })
}

impl Layout<'_> {
    /// Places a node and all within it; at most [`MAX_ROWS`] levels.
    fn place(&mut self, node: u32, label: &str, start: Time, time: Time) {
        let depth = self.tree.nodes[node as usize].depth;
        self.frames.push(FlameFrame {
            label: label.to_owned(),
            depth,
            start,
            time,
            part: None,
        });
        if depth + 1 >= MAX_ROWS {
            return;
        }
        let inner = self.inner(node);
        let sum: Time = inner.iter().map(|(time, ..)| *time).sum();
        // Spans of several threads at once can last longer than the one around them.
        let squeeze = if sum > time { time / sum } else { 1.0 };
        let narrow = self.total * NARROW;
        let (mut position, mut rest, mut merged) = (start, Time::ZERO, 0_usize);
        for (time, label, what) in inner {
            let width = time * squeeze;
            if width < narrow {
                (rest, merged) = (rest + width, merged + 1);
                continue;
            }
            match what {
                Ok(child) => self.place(child, &label, position, width),
                Err(part) => {
                    let (depth, part) = (depth + 1, Some(part));
                    self.frames.push(FlameFrame {
                        label,
                        depth,
                        start: position,
                        time: width,
                        part,
                    });
                }
            }
            position += width;
        }
        if rest >= narrow {
            let label = words!(self.context, "flame.more", count = merged.to_string());
            let depth = depth + 1;
            self.frames.push(FlameFrame {
                label,
                depth,
                start: position,
                time: rest,
                part: None,
            });
        }
    }

    /// What is directly within a node, the longest first: nodes, and the parts of tips.
    fn inner(&self, node: u32) -> Vec<(Time, String, Result<u32, usize>)> {
        let nodes = self.children[node as usize].iter().map(|child| {
            let time = (self.weight)(&self.tree.nodes[*child as usize]).time();
            (time, self.tree.label(*child).to_owned(), Ok(*child))
        });
        let from = self.tips.partition_point(|tip| tip.node < node);
        let to = self.tips.partition_point(|tip| tip.node <= node);
        let tips = self.tips[from..to]
            .iter()
            .map(|tip| (tip.time.time(), tip.label.clone(), Err(tip.part)));
        let parts = nodes.chain(tips);
        let mut inner: Vec<_> = parts.filter(|(time, ..)| time.is_positive()).collect();
        inner.sort_by(|a, b| {
            b.0.total_cmp(&a.0)
                .then_with(|| a.1.cmp(&b.1))
                .then(a.2.cmp(&b.2))
        });
        inner
    }
}
