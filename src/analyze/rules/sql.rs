//! SQL over an nsys export that gives numbers of findings again: each statement gives one number, and the finding
//! has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use rooflens_analysis::Context;
use rooflens_analysis::engine::facts::{OpSource, StageInstance};
use rooflens_analysis::engine::intervals::add;
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::kernels::matmul::is_helper;
use rooflens_document::{Catalogue, Quantity, Query};
use rooflens_session::{CopyKind, GpuId, Ns, PassId, Session, StrId};

/// Tables of GPU operations in an nsys export. It holds a table only if that has rows.
const TABLES: [&str; 4] = [
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
];

/// Short names of kernels that execute collectives.
const COLLECTIVES: &str = "%nccl%";

/// One instance of a stage on one GPU of an nsys export, with the sums that queries give.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    text: &'static Catalogue,
    /// Number of the instance.
    pub(crate) ordinal: u32,
    /// Pass of the export.
    pub(crate) pass: PassId,
    /// The GPU.
    gpu_id: GpuId,
    /// Which rows are of it.
    on_gpu: String,
    /// Start and end of the projection.
    pub(crate) gpu: (Ns, Ns),
    /// Which of the tables hold operations of it.
    pub(crate) tables: [bool; 4],
    /// Number and durations of the operations on the GPU in the projection, and the time without any.
    pub(crate) operations: (u64, Ns),
    pub(crate) idle: Ns,
    /// Durations of the copies among them.
    pub(crate) copies: Ns,
    /// Durations of the kernels among them, by short name and number of blocks.
    pub(crate) kernels: BTreeMap<(String, u64), Ns>,
    /// Durations of helper kernels, such as the reduction of split-K, by the short name of the kernel that they follow
    /// directly on its stream, and the short names of these helpers.
    followers: BTreeMap<String, Ns>,
    helpers: BTreeSet<String>,
    /// Time in which collectives run and no other kernel does.
    pub(crate) exposed: Ns,
}

/// Sums by short name, which equals its text: names are interned.
#[derive(Default)]
struct Names {
    kinds: BTreeMap<StrId, NameKind>,
    kernels: BTreeMap<(StrId, u64), Ns>,
    followers: BTreeMap<StrId, Ns>,
}

/// What the name of a kernel tells.
#[derive(Clone, Copy)]
struct NameKind {
    is_collective: bool,
    is_helper: bool,
}

impl Names {
    fn kind(&mut self, session: &Session, name: StrId) -> NameKind {
        *self.kinds.entry(name).or_insert_with(|| {
            let text = session.text(name);
            NameKind {
                is_collective: like(text, COLLECTIVES),
                is_helper: is_helper(text),
            }
        })
    }
}

impl Window {
    /// The instance of a stage to look at, or the counted one whose time is nearest to the median; none of several GPUs,
    /// and none where the artifact is no nsys export.
    pub(crate) fn of(
        context: &Context<'_>,
        text: &'static Catalogue,
        line: &Summary,
    ) -> Option<Self> {
        let (session, facts) = (context.session, context.facts);
        let stage = line.stage(facts);
        let producer = session.text(session.passes.producer[stage.pass.index()]);
        let artifact = session.artifact_of(stage.pass);
        if !producer.starts_with("nsys") && !artifact.contains(".sqlite") {
            return None;
        }
        let far = |instance: &StageInstance| {
            (instance.time().unwrap_or(Ns::MAX).time() - line.time).abs()
        };
        let idle = context.results.idle().ok();
        let nearest = idle.and_then(|idle| idle.nearest(facts, line.stage, line.process));
        let counted = line
            .counted_instances(facts)
            .filter(|instance| instance.gpus.len() == 1);
        let instance = nearest
            .filter(|instance| instance.gpus.len() == 1)
            .or_else(|| {
                counted.min_by(|a, b| far(a).total_cmp(&far(b)).then(a.ordinal.cmp(&b.ordinal)))
            })?;
        let mut window = Self {
            text,
            ordinal: instance.ordinal,
            pass: stage.pass,
            gpu_id: *instance.gpus.first()?,
            on_gpu: on_gpu(session, *instance.gpus.first()?),
            gpu: instance.projection?,
            tables: [false; 4],
            operations: (0, Ns::ZERO),
            idle: Ns::ZERO,
            copies: Ns::ZERO,
            kernels: BTreeMap::new(),
            followers: BTreeMap::new(),
            helpers: BTreeSet::new(),
            exposed: Ns::ZERO,
        };
        window.add_operations(context, stage.pass);
        Some(window)
    }

    /// Adds up the operations of the GPU that lie in the projection, whichever stage they are of.
    fn add_operations(&mut self, context: &Context<'_>, pass: PassId) {
        let (session, ops) = (context.session, &context.facts.ops);
        let range = context.facts.ops_of(pass);
        let first =
            range.start + ops.start[range.clone()].partition_point(|start| *start < self.gpu.0);
        // As in SQL: by start, then end.
        let (mut reached, mut busy, mut computing): (Option<Ns>, _, _) = Default::default();
        let mut before = BTreeMap::<u64, StrId>::new();
        let mut names = Names::default();
        for op in (first..range.end).take_while(|op| ops.start[*op] <= self.gpu.1) {
            let (start, end) = (ops.start[op], ops.end[op]);
            if end > self.gpu.1 || ops.gpu[op] != self.gpu_id {
                continue;
            }
            let duration = end.saturating_sub(start);
            self.idle += reached.map_or(Ns::ZERO, |reached| {
                start.saturating_sub(reached).max(Ns::ZERO)
            });
            reached = Some(reached.map_or(end, |reached| reached.max(end)));
            self.operations = (
                self.operations.0 + 1,
                self.operations.1.saturating_add(duration),
            );
            let table = table(context, ops.source[op]);
            self.tables[table] = true;
            if table == 1 {
                self.copies = self.copies.saturating_add(duration);
            }
            if let OpSource::Launch(launch) = ops.source[op] {
                let kernel = session.launches.kernel[launch.index()].index();
                let name = session.kernels.short_name[kernel];
                let kind = names.kind(session, name);
                let blocks = session.launches.grid[launch.index()].volume();
                add(names.kernels.entry((name, blocks)).or_default(), duration);
                cover(&mut busy, start, end);
                if !kind.is_collective {
                    cover(&mut computing, start, end);
                }
                let earlier = before.insert(ops.stream[op], name);
                if let Some(main) = earlier.filter(|_| kind.is_helper) {
                    add(names.followers.entry(main).or_default(), duration);
                    self.helpers.insert(session.text(name).to_owned());
                }
            }
        }
        self.exposed = busy.0 - computing.0;
        let text = |name: StrId| session.text(name).to_owned();
        let kernels = names.kernels.into_iter();
        self.kernels = kernels
            .map(|((name, blocks), ns)| ((text(name), blocks), ns))
            .collect();
        let followers = names.followers.into_iter();
        self.followers = followers.map(|(name, ns)| (text(name), ns)).collect();
    }

    /// Time of the instance in which the GPU runs nothing.
    pub(crate) fn idle(&self) -> Query {
        let sql = format!(
            "WITH op AS ({}), gap AS (SELECT start - MAX(end) OVER (ORDER BY start, end ROWS BETWEEN \
             UNBOUNDED PRECEDING AND 1 PRECEDING) AS ns FROM op) SELECT COALESCE(SUM(ns), 0) FROM gap WHERE ns > 0;",
            self.select("start, end")
        );
        self.query(words!(self, "queries.idle"), Quantity::ns(self.idle), sql)
    }

    /// Mean duration of the operations on the GPU.
    pub(crate) fn mean(&self) -> Query {
        let (count, sum) = self.operations;
        let mean = sum.time().0 / count.max(1) as f64;
        let sql = format!(
            "SELECT AVG(ns) FROM ({});",
            self.select("end - start AS ns")
        );
        let mean = Quantity::new(mean, rooflens_schemas::Unit::Nanoseconds);
        self.query(words!(self, "queries.mean"), mean, sql)
    }

    /// Copies of the instance, if there are any.
    pub(crate) fn copies(&self) -> Option<Query> {
        let sql = format!(
            "SELECT COALESCE(SUM(end - start), 0) FROM {};",
            self.of_table(1)
        );
        self.tables[1].then(|| {
            self.query(
                words!(self, "queries.copies"),
                Quantity::ns(self.copies),
                sql,
            )
        })
    }

    /// Kernels of the instance whose names are like `pattern`.
    pub(crate) fn kernels(&self, pattern: &str) -> Query {
        let own = self
            .kernels
            .iter()
            .filter(|((name, _), _)| like(name, pattern));
        let time = sum(own.map(|(_, time)| *time));
        let sql = format!("{} AND s.value LIKE '{pattern}';", self.kernel_time());
        self.query(words!(self, "queries.kernels"), Quantity::ns(time), sql)
    }

    /// Time of the instance in which collectives run and no other kernel does.
    pub(crate) fn exposed(&self) -> Query {
        let (start, end) = self.gpu;
        let covered = |of: &str| {
            format!(
                "(SELECT COALESCE(SUM(MAX(0, end - MAX(start, COALESCE(reached, start)))), 0) FROM (SELECT start, end, \
                 MAX(end) OVER (ORDER BY start, end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached FROM \
                 op{of}))"
            )
        };
        let sql = format!(
            "WITH op AS (SELECT k.start AS start, k.end AS end, s.value AS name FROM {} k JOIN StringIds s ON s.id = \
             k.shortName WHERE {} AND k.start >= {start} AND k.end <= {end}) SELECT {} - {};",
            TABLES[0],
            self.on_gpu,
            covered(""),
            covered(&format!(" WHERE name NOT LIKE '{COLLECTIVES}'"))
        );
        self.query(
            words!(self, "queries.exposed"),
            Quantity::ns(self.exposed),
            sql,
        )
    }

    /// Kernels of the instance of one name, with the helpers that follow them directly on their stream.
    pub(crate) fn with_helpers(&self, name: &str) -> Query {
        let helped = self.followers.iter().filter(|(main, _)| like(main, name));
        let helpers = sum(helped.map(|(_, time)| *time));
        let plain: Vec<String> = self
            .helpers
            .iter()
            .map(|helper| format!("'{helper}'"))
            .collect();
        if helpers == Ns::ZERO
            || !self
                .helpers
                .iter()
                .all(|helper| crate::products::is_plain(helper))
        {
            return self.kernels(name);
        }
        let own = self.kernels.iter().filter(|((own, _), _)| like(own, name));
        let time = helpers.saturating_add(sum(own.map(|(_, time)| *time)));
        let (start, end) = self.gpu;
        let sql = format!(
            "SELECT COALESCE(SUM(ns + CASE WHEN next IN ({}) THEN next_ns ELSE 0 END), 0) FROM (SELECT s.value AS name, \
             k.end - k.start AS ns, LEAD(s.value) OVER w AS next, LEAD(k.end - k.start) OVER w AS next_ns FROM {} k JOIN \
             StringIds s ON s.id = k.shortName WHERE {} AND k.start >= {start} AND k.end <= {end} WINDOW w \
             AS (PARTITION BY k.streamId ORDER BY k.start, k.end)) WHERE name LIKE '{name}';",
            plain.join(", "),
            TABLES[0],
            self.on_gpu
        );
        self.query(
            words!(self, "queries.with_helpers"),
            Quantity::ns(time),
            sql,
        )
    }

    /// Kernels of the instance of one name and number of blocks.
    pub(crate) fn grid(&self, name: &str, blocks: u64) -> Query {
        let own = self
            .kernels
            .iter()
            .filter(|((own, its), _)| like(own, name) && *its == blocks);
        let time = sum(own.map(|(_, time)| *time));
        let sql = format!(
            "{} AND s.value LIKE '{name}' AND k.gridX * k.gridY * k.gridZ = {blocks};",
            self.kernel_time()
        );
        self.query(words!(self, "queries.grid"), Quantity::ns(time), sql)
    }

    fn kernel_time(&self) -> String {
        let (start, end) = self.gpu;
        format!(
            "SELECT COALESCE(SUM(k.end - k.start), 0) FROM {} k JOIN StringIds s ON s.id = k.shortName WHERE {} \
             AND k.start >= {start} AND k.end <= {end}",
            TABLES[0], self.on_gpu
        )
    }

    /// Operations of the instance's GPU within its projection.
    pub(crate) fn select(&self, columns: &str) -> String {
        let mut sql = String::new();
        for table in (0..TABLES.len()).filter(|table| self.tables[*table]) {
            let all = if sql.is_empty() { "" } else { " UNION ALL " };
            let _ = write!(sql, "{all}SELECT {columns} FROM {}", self.of_table(table));
        }
        sql
    }

    fn of_table(&self, table: usize) -> String {
        let (start, end) = self.gpu;
        let (name, on_gpu) = (TABLES[table], &self.on_gpu);
        format!("{name} WHERE {on_gpu} AND start >= {start} AND end <= {end}")
    }

    /// What the statement gives, with the number.
    pub(crate) fn query(&self, what: String, value: Quantity, sql: String) -> Query {
        let instance = Quantity::count(u64::from(self.ordinal));
        let gives = say!(
            self,
            "queries.gives",
            what = what,
            instance = instance,
            value = value
        );
        Query { gives, sql }
    }
}

/// Adds the part of an operation that ends after all before it: the time covered so far, and where it ends.
fn cover(covered: &mut (Ns, Option<Ns>), start: Ns, end: Ns) {
    let reached = covered.1.unwrap_or(start);
    covered.0 += (end - start.max(reached)).max(Ns::ZERO);
    covered.1 = Some(reached.max(end));
}

fn sum(times: impl Iterator<Item = Ns>) -> Ns {
    times.fold(Ns::ZERO, Ns::saturating_add)
}

/// `LIKE` of SQLite: `%` is any text, `_` any character, letters of either case are alike.
fn like(text: &str, pattern: &str) -> bool {
    // Where the last % stood, and the text that it had to take at least.
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let (mut at, mut own, mut retry) = (0, 0, None);
    while at < text.len() {
        match pattern.get(own) {
            Some(b'%') => {
                retry = Some((own, at));
                own += 1;
            }
            Some(one) if *one == b'_' || one.eq_ignore_ascii_case(&text[at]) => {
                (at, own) = (at + 1, own + 1);
            }
            _ => {
                let Some((star, taken)) = retry else {
                    return false;
                };
                retry = Some((star, taken + 1));
                (at, own) = (taken + 1, star + 1);
            }
        }
    }
    pattern[own..].iter().all(|one| *one == b'%')
}

/// Which rows are of a GPU: CUDA's number of it, unless processes differ in that.
fn on_gpu(session: &Session, gpu: GpuId) -> String {
    let (row, gpus) = (gpu.index(), &session.gpus);
    match gpus.cuda_ordinal[row] {
        Some(ordinal) => format!("deviceId = {ordinal}"),
        None => format!(
            "(globalPid >> 24 & 0xffffff, deviceId) IN (SELECT pid, cudaId FROM TARGET_INFO_CUDA_DEVICE WHERE gpuId = {})",
            gpus.ordinal[row]
        ),
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

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn like_is_that_of_sqlite() {
        for (text, pattern) in [
            ("cudaMalloc", "cudaMalloc%"),
            ("cudaMallocAsync", "cudaMalloc%"),
            ("cudaStreamSynchronize", "cuda%Synchronize%"),
            ("ncclDevKernel_AllReduce", "%NCCL%"),
            ("a_b", "a_b"),
            ("axb", "a_b"),
            ("aab", "%ab"),
        ] {
            assert!(like(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [
            ("cudaFree", "cudaMalloc%"),
            ("xcudaMalloc", "cudaMalloc%"),
            ("a", "a_"),
            ("ab", "a"),
            ("", "_"),
        ] {
            assert!(!like(text, pattern), "{text} {pattern}");
        }
    }
}
