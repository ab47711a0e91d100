//! SQL over an nsys export that gives numbers of findings again.

use std::fmt::Write;

use crate::analysis::Context;
use crate::analysis::facts::{OpSource, StageInstance};
use crate::analysis::summary::Summary;
use crate::findings::{Inline, Quantity, Query};
use crate::model::{CopyKind, Ns};
use crate::prose;

/// Tables of GPU operations in an nsys export. It holds a table only if that has rows.
const TABLES: [&str; 4] = [
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
];

/// One instance of a stage on one GPU of an nsys export.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Window {
    /// Number of the instance.
    pub(super) ordinal: u32,
    /// GPU as the export numbers it.
    pub(super) device: u32,
    /// Start and end of the projection.
    pub(super) gpu: (Ns, Ns),
    /// Start and end of the range on the host.
    pub(super) host: (Ns, Ns),
    /// Busy time of the instance, nanoseconds.
    pub(super) busy: Ns,
    /// Which of the tables hold operations of it.
    pub(super) tables: [bool; 4],
}

impl Window {
    /// The counted instance whose stage time is nearest to the median; none of several GPUs, and none
    /// where the artifact is no nsys export.
    pub(super) fn of(context: &Context<'_>, line: &Summary) -> Option<Self> {
        let (session, facts) = (context.session, context.facts);
        let stage = line.stage(facts);
        let producer = session.text(session.passes.producer[stage.pass.index()]);
        let artifact = session.text(session.passes.artifact[stage.pass.index()]);
        if !producer.starts_with("nsys") && !artifact.contains(".sqlite") {
            return None;
        }
        let far = |one: &StageInstance| (one.time().unwrap_or(Ns::MAX) as f64 - line.time).abs();
        let counted = facts.instances_of(stage).iter().filter(|one| {
            one.process == line.process && one.excluded.is_none() && one.gpus.len() == 1
        });
        let one =
            counted.min_by(|a, b| far(a).total_cmp(&far(b)).then(a.ordinal.cmp(&b.ordinal)))?;
        let mut tables = [false; 4];
        for op in &one.ops {
            tables[table(context, facts.ops.source[*op as usize])] = true;
        }
        Some(Self {
            ordinal: one.ordinal,
            device: session.gpus.ordinal[one.gpus.first()?.index()],
            gpu: one.projection?,
            host: (one.host_start, one.host_end),
            busy: one.busy,
            tables,
        })
    }

    /// Time of the instance in which the GPU runs nothing.
    pub(super) fn idle(&self) -> Query {
        let (start, end) = self.gpu;
        let idle = end - start - self.busy;
        let sql = format!(
            "WITH op AS ({}), gap AS (SELECT start - MAX(end) OVER (ORDER BY start, end ROWS BETWEEN \
             UNBOUNDED PRECEDING AND 1 PRECEDING) AS ns FROM op) SELECT SUM(ns) FROM gap WHERE ns > 0;",
            self.operations("start, end")
        );
        Query { gives: self.gives("idle nanoseconds", Quantity::ns(idle)), sql }
    }

    /// Number and mean duration of the operations on the GPU.
    pub(super) fn mean(&self) -> Query {
        let sql =
            format!("SELECT COUNT(*), AVG(ns) FROM ({});", self.operations("end - start AS ns"));
        let gives = prose![
            "number and mean nanoseconds of the operations of instance ",
            Quantity::count(u64::from(self.ordinal)),
            ", the one nearest to the median"
        ];
        Query { gives, sql }
    }

    /// Calls of the host that began within the range and whose names are like one of `patterns`.
    pub(super) fn calls(&self, patterns: &[&str]) -> Query {
        let (start, end) = self.host;
        let like: Vec<String> =
            patterns.iter().map(|pattern| format!("s.value LIKE '{pattern}'")).collect();
        let sql = format!(
            "SELECT s.value, COUNT(*), SUM(r.end - r.start) AS ns FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s \
             ON s.id = r.nameId WHERE r.start BETWEEN {start} AND {end} AND ({}) GROUP BY s.value ORDER BY ns DESC;",
            like.join(" OR ")
        );
        let gives = prose![
            "the calls of instance ",
            Quantity::count(u64::from(self.ordinal)),
            " by name, of all threads, with their number and nanoseconds"
        ];
        Query { gives, sql }
    }

    /// Copies of the instance by direction and kind of memory, if there are any.
    pub(super) fn copies(&self) -> Option<Query> {
        let (start, end) = self.gpu;
        let sql = format!(
            "SELECT copyKind, srcKind, dstKind, COUNT(*), SUM(bytes), SUM(end - start) AS ns FROM {} WHERE deviceId = {} \
             AND start >= {start} AND end <= {end} GROUP BY 1, 2, 3 ORDER BY ns DESC;",
            TABLES[1], self.device
        );
        let gives = prose![
            "the copies of instance ",
            Quantity::count(u64::from(self.ordinal)),
            " by direction and memory, with their number, bytes and nanoseconds"
        ];
        self.tables[1].then_some(Query { gives, sql })
    }

    /// Kernels of the instance whose names are like `pattern`.
    pub(super) fn kernels(&self, pattern: &str) -> Query {
        let (start, end) = self.gpu;
        let sql = format!(
            "SELECT s.value, COUNT(*), SUM(k.end - k.start) AS ns FROM {} k JOIN StringIds s ON s.id = k.shortName WHERE \
             k.deviceId = {} AND k.start >= {start} AND k.end <= {end} AND s.value LIKE '{pattern}' GROUP BY s.value \
             ORDER BY ns DESC;",
            TABLES[0], self.device
        );
        let gives = prose![
            "the kernels of instance ",
            Quantity::count(u64::from(self.ordinal)),
            " by name, with their number and nanoseconds"
        ];
        Query { gives, sql }
    }

    /// Kernels of the instance by name and number of blocks, if there are any.
    pub(super) fn grids(&self) -> Option<Query> {
        let (start, end) = self.gpu;
        let sql = format!(
            "SELECT s.value, k.gridX * k.gridY * k.gridZ AS blocks, COUNT(*), SUM(k.end - k.start) AS ns FROM {} k JOIN \
             StringIds s ON s.id = k.shortName WHERE k.deviceId = {} AND k.start >= {start} AND k.end <= {end} GROUP BY 1, 2 \
             ORDER BY ns DESC;",
            TABLES[0], self.device
        );
        let gives = prose![
            "the kernels of instance ",
            Quantity::count(u64::from(self.ordinal)),
            " by name and number of blocks, with their number and nanoseconds"
        ];
        self.tables[0].then_some(Query { gives, sql })
    }

    /// Operations of the instance's GPU within its projection.
    fn operations(&self, columns: &str) -> String {
        let (start, end) = self.gpu;
        let mut sql = String::new();
        for (name, _) in TABLES.iter().zip(self.tables).filter(|(_, holds)| *holds) {
            let all = if sql.is_empty() { "" } else { " UNION ALL " };
            let _ = write!(
                sql,
                "{all}SELECT {columns} FROM {name} WHERE deviceId = {} AND start >= {start} AND end <= {end}",
                self.device
            );
        }
        sql
    }

    fn gives(&self, what: &str, value: Quantity) -> Vec<Inline> {
        prose![
            format!("{what} of instance "),
            Quantity::count(u64::from(self.ordinal)),
            ", the one nearest to the median: ",
            value
        ]
    }
}

fn table(context: &Context<'_>, source: OpSource) -> usize {
    match source {
        OpSource::Launch(_) => 0,
        OpSource::Copy(copy) if context.session.copies.kind[copy.index()] == CopyKind::Memset => 2,
        OpSource::Copy(_) => 1,
        OpSource::Graph(_) => 3,
    }
}
