//! Attention: sizes, rate and bandwidth of its kernels, and the time above the roofline.

mod lines;
mod tables;
#[cfg(test)]
mod tests;

use crate::analysis::engine::stage_stats::summaries;
use crate::analysis::kernels::matmul::launches::Work;
use crate::analysis::kernels::matmul::{Products, roof};
use crate::analysis::{Analysis, Context};
use crate::diagnostic::{Diagnostic, Severity};
use crate::findings::{Block, Findings, Method, Quantity, View};
use crate::prose;

use lines::StageAttention;

/// Attention. A bundle without such kernels has no such section.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "attention", title: "Attention", missing: |_| None, run };

/// Kernels that a page shows.
const SHOWN: usize = 10;

fn run(context: &Context<'_>) -> Findings {
    let (session, facts) = (context.session, context.facts);
    let primary = facts.primary_pass(session);
    let others = session.passes.ids().filter(|pass| Some(*pass) != primary);
    let work = Work::new(session, facts);
    let mut stages: Vec<StageAttention> = Vec::new();
    let mut shown = 0;
    for pass in primary.into_iter().chain(others) {
        stages.extend(lines::of_stages(context, &work, &summaries(facts, pass)));
        if Some(pass) == primary || shown == 0 {
            shown = stages.iter().map(|stage| stage.lines.len()).sum();
        }
    }
    let mut findings = Findings::default();
    if stages.is_empty() {
        return findings;
    }
    let known = stages.iter().flat_map(|stage| &stage.lines).any(|line| line.product.is_some());
    let columns: &[&str] = match known {
        true => &[
            "kernel",
            "stage",
            "shape",
            "launches",
            "time_ns",
            "share",
            "of_peak",
            "of_bandwidth",
            "bound",
            "recoverable_ns",
        ],
        false => &["kernel", "stage", "pass", "launches", "time_ns", "share"],
    };
    let lines = stages.iter().flat_map(|stage| &stage.lines);
    let under = roof::under(lines.filter_map(|line| line.sum.roof.as_ref()));
    let caption = format!("Attention kernels per instance of their stage{under}");
    findings.blocks.push(Block::Table(View::new("attention", caption, columns, shown.min(SHOWN))));
    // Where nothing is known at all, the section of matrix products says so.
    if !known && context.results.matmul().is_ok_and(Products::is_any_known) {
        let text = "sizes of attention: record a PyTorch trace with record_shapes=True, or add the model's config.json";
        findings.blocks.push(Block::Missing(text.to_owned()));
    }
    findings.diagnostics.extend(stages.iter().filter_map(|stage| above_peak(context, stage)));
    findings.datasets.push(tables::dataset(context, &stages));
    findings.methods.push(method());
    findings
}

fn above_peak(context: &Context<'_>, stage: &StageAttention) -> Option<Diagnostic> {
    let is_above = |line: &&lines::Line| line.sum.of_peak().is_some_and(|part| part > 1.0);
    let line = stage.lines.iter().find(is_above)?;
    let message = format!(
        "attention of {} runs at {} of the peak: its sizes, its mask or the peak are wrong",
        stage.summary.label(context.session, context.facts),
        Quantity::ratio(line.sum.of_peak()?),
    );
    Some(Diagnostic::new(Severity::Error, "attention/above-one", message))
}

fn method() -> Method {
    Method {
        title: "Attention".to_owned(),
        text: prose![
            "Sizes are batch B, query heads H, key-value heads G, queries Sq, keys Sk, head size D. FLOPs are two \
             products per attended pair of query and key and per query head, 2·B·H·pairs·(d_qk + d_v), in the \
             backward pass five; under a causal mask query i attends keys 1 to i. The data set holds the value for \
             all pairs beside it. Bytes are queries, keys, values and output once. Grouped heads narrow the keys and \
             values that are read, not the products. Sizes come from where those of matrix products come from; the \
             keys of a decode step grow by one with each step. Time includes the kernels that merge parts."
        ],
    }
}
