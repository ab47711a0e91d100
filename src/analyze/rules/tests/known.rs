//! Typed results of stages and kernels made by hand.

use std::mem::replace;

use super::*;
use rooflens_analysis::communication::calls::{Member, Run};
use rooflens_analysis::communication::lines::RankTimes;
use rooflens_analysis::communication::{Communication, Ranks};
use rooflens_analysis::engine::classify::{GroupTimes, KernelClass, KernelIdentity};
use rooflens_analysis::engine::facts::{OpSource, StageInstance};
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::kernels::kernel_sums::KernelSum;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::memory::transfers::sums::{Sum, Sums};
use rooflens_analysis::memory::transfers::{Place, Transfers};
use rooflens_analysis::testing::launch;
use rooflens_analysis::time::graphs::figures::Figures;
use rooflens_analysis::time::graphs::{Graphs, StageReplays};
use rooflens_analysis::time::stage_times::{StageTime, StageTimes};
use rooflens_analysis::utilization::mfu::timed;
use rooflens_analysis::utilization::mfu::work::{Formula, Work};
use rooflens_analysis::utilization::mfu::{Ceiling, StageUtilization, Utilization};
use rooflens_session::{CopyKind, KernelId, MemoryKind, PassId};
use rooflens_units::{BytesPerSecond, Flops, FlopsPerSecond};

impl Made {
    /// Changes the medians of the stage that was added last.
    pub(super) fn summary(mut self, change: impl FnOnce(&mut Summary)) -> Self {
        change(self.facts.summaries.last_mut().unwrap());
        let Summary {
            busy_share, sum, ..
        } = self.last_summary();
        let last = self.last();
        (last.busy_share, last.operation_time) = (busy_share, sum);
        last.busy = last.time * busy_share;
        self
    }

    /// The stage that was added last.
    pub(super) fn last_summary(&self) -> Summary {
        self.facts.summaries.last().unwrap().clone()
    }

    /// The busy share of the stage that was added last.
    pub(super) fn busy(self, share: f64) -> Self {
        self.summary(|summary| summary.busy_share = Ratio(share))
    }

    /// A kernel by name, with what that tells.
    pub(super) fn kernel(&mut self, name: &str, identity: KernelIdentity) -> KernelId {
        let kernel = self.session.kernel(name, "");
        self.facts
            .identities
            .resize(kernel.index() + 1, KernelIdentity::default());
        self.facts.identities[kernel.index()] = identity;
        kernel
    }

    /// Launches of a kernel in the primary pass, the longest first; its short name is its name.
    pub(super) fn launches(
        mut self,
        name: &str,
        class: KernelClass,
        (dtype, tensor_cores): (&'static str, Option<bool>),
        (count, total): (u64, i64),
    ) -> Self {
        let short = name.to_owned();
        let identity = KernelIdentity {
            class,
            dtype,
            short,
            tensor_cores,
            ..Default::default()
        };
        let kernel = self.kernel(name, identity);
        let mut passes = replace(&mut self.known.kernels, Ok(Vec::new())).unwrap_or_default();
        let mut pass = passes.pop().unwrap_or_default();
        let none = KernelSum {
            pass: PassId(0),
            kernel,
            count,
            total: Ns(total),
            min: Ns::ZERO,
            max: Ns(total),
            median: None,
            std: None,
        };
        pass.sums.push(none);
        pass.launches += count;
        pass.total += Ns(total);
        pass.other += if class == KernelClass::Other {
            Ns(total)
        } else {
            Ns::ZERO
        };
        self.known.kernels = Ok(vec![pass]);
        self
    }

    /// The kernels so far as operations of the measured loop of the first stage, one after another.
    pub(super) fn in_loop(&mut self) -> &Self {
        let mut end = Ns::ZERO;
        let passes = self.known.kernels.clone().unwrap_or_default();
        let ops = &mut self.facts.ops;
        for sum in passes.iter().flat_map(|pass| &pass.sums) {
            let start = end;
            end += sum.total;
            let launch = launch(PassId(0), sum.kernel, start.0..end.0);
            let launch = self.session.launches.push(launch);
            ops.start.push(start);
            ops.end.push(end);
            ops.pass.push(PassId(0));
            ops.process.push(ProcessId(0));
            ops.source.push(OpSource::Launch(launch));
        }
        self.facts.instances.push(StageInstance {
            projection: Some((Ns::ZERO, end)),
            ..StageInstance::default()
        });
        self.facts.stages[0].instances = 0..1;
        self
    }

    /// The time of a class of GPU operations of the stage that was added last, which take 100 ns in all.
    pub(super) fn work_of(mut self, class: KernelClass, time: i64) -> Self {
        let mut work = StageWork {
            summary: self.last_summary(),
            total: Ns(100),
            ..StageWork::default()
        };
        work.classes[class as usize] = (1, Ns(time));
        self.known.stage_work = Ok(vec![work]);
        self
    }

    /// The times of all stages.
    pub(super) fn times(&mut self) -> &mut StageTimes {
        if self.known.stage_times.is_err() {
            let (stages, attribution) = (Vec::new(), Vec::new());
            self.known.stage_times = Ok(StageTimes {
                primary: PassId(0),
                stages,
                attribution,
            });
        }
        self.known.stage_times.as_mut().unwrap()
    }

    /// Busy time of the stage that was added last by group of classes.
    pub(super) fn groups(mut self, parts: &[(ClassGroup, i64)]) -> Self {
        let mut groups = GroupTimes::default();
        parts
            .iter()
            .for_each(|(group, time)| groups[*group as usize] = Ns(*time));
        let (summary, groups) = (self.last_summary(), Some(groups));
        let stage = StageTime {
            pass: PassId(0),
            is_primary: true,
            summary,
            groups,
            doubtful_first: None,
        };
        self.times().stages.push(stage);
        self
    }

    /// Graphs that replay so many operations in the counted instances of the stage that was added last, and as many
    /// as there are in a stage of another pass.
    pub(super) fn replays(mut self, operations: u64) -> Self {
        let of = |summary, operations| StageReplays {
            summary,
            figures: Figures {
                operations,
                ..Figures::default()
            },
            whole: false,
        };
        let other = Summary {
            stage: 9,
            ..self.last_summary()
        };
        let stages = vec![of(other, 2000), of(self.last_summary(), operations)];
        self.known.graphs = Ok(Graphs {
            stages,
            ..Graphs::default()
        });
        self
    }

    /// MFU and MBU of the stage that was added last.
    pub(super) fn utilization(mut self, mfu: f64, mbu: f64) -> Self {
        let (summary, line) = (self.last_summary(), self.stages.last().unwrap());
        let formula = Formula {
            kind: line.kind,
            batch: 1,
            prompt: 1,
            passes: 1,
            model_parallel: 1,
            images: None,
            trained: None,
        };
        let (flops, bytes) = (Flops(mfu), Some(Bytes(mbu)));
        // As much as a stage needs at the peak.
        let peak = 1e9 / line.time.0;
        let (gpu, dtype) = ("H200".to_owned(), "bf16".to_owned());
        let one = StageUtilization {
            timed: timed::StageTime {
                stage: line.label.clone(),
                pass: "nsys".to_owned(),
                kind: line.kind,
                time: line.time,
                steps: None,
                batch: None,
                tokens: None,
                profiled: Some(summary),
            },
            work: Ok(Work {
                flops,
                flops_full: flops,
                bytes,
                tokens: Count(1.0),
                images: None,
                formula,
                shapes: Vec::new(),
                share: Ratio(1.0),
                read: 0,
            }),
            ceiling: Ok(Ceiling {
                gpu,
                dtype,
                rate: FlopsPerSecond(peak),
                source: String::new(),
                bandwidth: BytesPerSecond(peak),
                bandwidth_source: String::new(),
            }),
            measured_rate: None,
            measured_bandwidth: None,
        };
        self.known.utilization = Ok(Utilization {
            dtype: None,
            stages: vec![one],
        });
        self
    }

    /// The utilization that was made.
    pub(super) fn utilized(&mut self) -> &mut StageUtilization {
        &mut self.known.utilization.as_mut().unwrap().stages[0]
    }

    /// Copies of the stage that was added last: direction, memory of the host, bytes, time and exposed time.
    pub(super) fn copies(mut self, kinds: &[(CopyKind, MemoryKind, u64, i64, i64)]) -> Self {
        let kind = |(kind, host, bytes, total, exposed): &(CopyKind, MemoryKind, u64, i64, i64)| {
            let sum = Sum {
                bytes: *bytes,
                total: Ns(*total),
                exposed: Ns(*exposed),
                ..Sum::default()
            };
            ((*kind, *host, *host), sum)
        };
        let exposed = kinds.iter().map(|one| Ns(one.4)).sum();
        let union = kinds.iter().map(|one| Ns(one.3)).sum();
        let sums = Sums {
            kinds: kinds.iter().map(kind).collect(),
            union,
            exposed,
        };
        let summary = self.last_summary();
        let place = Place {
            others: summary.time * summary.busy_share - union.time(),
            stage: Some(summary),
            instances: vec![sums.clone()],
            sums,
            ..Place::default()
        };
        self.known.transfers = Ok(Transfers {
            places: vec![place],
            ..Transfers::default()
        });
        self
    }

    /// Collectives of the stage that was added last: exposed and waiting time.
    pub(super) fn collectives(mut self, exposed: f64, wait: Option<f64>) -> Self {
        let stage = Some(self.last_summary().stage);
        let lines = vec![RankTimes {
            stage,
            exposed: Time(exposed),
            wait: wait.map(Time),
            ..RankTimes::default()
        }];
        let run = Run {
            members: vec![Member::default()],
            ..Run::default()
        };
        let ranks = Ranks {
            run,
            lines,
            ..Ranks::default()
        };
        self.known.communication = Ok(Communication { runs: vec![ranks] });
        self
    }
}
