//! Attention kernels by stage, kernel and sizes; the keys of a decode loop grow and are a range.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::matmul::roof::{Ceilings, Roof};
use super::matmul::stages::{Group, MatrixLaunch, StageProducts, of_class};
use super::matmul::{Attention, Product, Shape, Source};
use crate::engine::classify::KernelClass;
use crate::{Context, Known};
use rooflens_session::{Arrange, KernelId};
use rooflens_units::Ratio;

/// The attention of each outermost stage, the primary pass first; never missing, but empty without such kernels.
pub fn compute(context: &Context<'_>) -> Known<Vec<StageProducts>> {
    of_class(context, KernelClass::Attention, |ceilings, launches| {
        groups(context, ceilings, launches)
    })
}

fn groups(context: &Context<'_>, ceilings: &Ceilings<'_>, launches: &[MatrixLaunch]) -> Vec<Group> {
    let mut groups: BTreeMap<(KernelId, Option<Product>), Group> = BTreeMap::new();
    for launch in launches {
        let attention_work = launch.product.and_then(|product| match product.shape {
            Shape::Attention(attention) => Some((attention, product)),
            _ => None,
        });
        let alike = attention_work.map(|(attention, product)| {
            // Only decode steps, of one query, differ in keys alone.
            let keys = if attention.queries == 1 {
                0
            } else {
                attention.keys
            };
            let shape = Shape::Attention(Attention { keys, ..attention });
            Product {
                shape,
                source: Source::Operator,
                ..product
            }
        });
        let identity = &context.facts.identities[launch.kernel.index()];
        let roof = attention_work.map(|(_, product)| Roof::of(&product, identity, ceilings));
        let product = attention_work.map(|(_, product)| product);
        let group = groups
            .entry((launch.kernel, alike))
            .or_insert_with(|| Group::like(&MatrixLaunch { product, ..*launch }));
        group.sum.add(1, launch.time, launch.helpers, roof);
        if let Some((attention, product)) = attention_work {
            group.keys = (
                group.keys.0.min(attention.keys),
                group.keys.1.max(attention.keys),
            );
            group.flops_full += attention.flops_full();
            // Of several sources the least sure one represents all.
            if let Some(attention_work) = &mut group.product {
                attention_work.source = attention_work.source.max(product.source);
            }
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    // They are in the order of their keys, which decides between equal times.
    groups.arrange_by_key(|group| Reverse(group.sum.time));
    groups
}

impl Group {
    /// Share of the specified bandwidth that its bytes reach.
    pub fn of_bandwidth(&self) -> Option<Ratio> {
        Some(Ratio(self.sum.bandwidth()? / self.sum.roof?.memory?))
    }
}
