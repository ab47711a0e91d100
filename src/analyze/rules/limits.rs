//! What keeps shorter kernels from shortening a stage: another rank, or the CPU.

use crate::stage::StageLine;
use crate::{Evidence, Look, Outcome};
use rooflens_analysis::communication::Ranks;
use rooflens_analysis::time::idle::Cause;
use rooflens_document::{Finding, GainKind, Severity};

/// Share of the stage time below which, where the CPU explains most of the rest, the stage is as long as the CPU takes.
const BUSY: f64 = 0.50;

/// Share of the idle time that the CPU has to explain.
const BY_HOST: f64 = 0.50;

impl Evidence<'_> {
    /// Finds the limits of all stages.
    pub(crate) fn add_limits(&mut self) {
        let limits = |stage: &StageLine| (self.waits_for(stage), self.is_host_bound(stage));
        let limits: Vec<_> = self.stages.iter().map(limits).collect();
        for (stage, (rank, is_host_bound)) in self.stages.iter_mut().zip(limits) {
            (stage.waits_for, stage.is_host_bound) = (rank, is_host_bound);
        }
    }

    /// The rank that computes longer in the same stage, or in the whole pass where the stage holds no collectives: with
    /// shorter kernels of its own, a rank waits longer for it.
    fn waits_for(&self, stage: &StageLine) -> Option<u32> {
        let of_run = |ranks: &Ranks| {
            let is_own =
                |at: &usize| ranks.run.members[ranks.lines[*at].member].process == stage.process;
            let of = |stage: Option<usize>| {
                (0..ranks.lines.len())
                    .filter(is_own)
                    .find(|at| ranks.lines[*at].stage == stage)
            };
            let own = of(Some(stage.stage)).or_else(|| of(None))?;
            let name = |at: usize| ranks.lines[at].stage_name(&self.context);
            let of_stage = ranks
                .imbalances
                .iter()
                .find(|one| name(one.slowest) == name(own))?;
            of_stage
                .waits(&ranks.lines[own])
                .then(|| ranks.lines[of_stage.slowest].rank)
        };
        self.results
            .communication()
            .ok()?
            .runs
            .iter()
            .find_map(of_run)
    }

    /// Whether the GPU idles for most of the stage, unprofiled where that is known, and mostly because of the CPU.
    fn is_host_bound(&self, stage: &StageLine) -> bool {
        let Some(line) = self.idle(stage.key()) else {
            return false;
        };
        let host = line.pool.causes.sum(&Cause::HOST);
        stage.busy < BUSY * stage.reference() && host as f64 >= BY_HOST * line.idle() as f64
    }

    /// Looks at a stage, unless it is a rank that waits for another one.
    pub(crate) fn look_at_kernels(
        &self,
        stage: &StageLine,
        look: impl FnOnce(&StageLine) -> Look,
    ) -> Look {
        match stage.waits_for {
            Some(rank) => Look::Suppressed(words!(self, "findings.waits", rank = rank.to_string())),
            None => look(stage),
        }
    }

    /// Looks at each stage that shorter kernels could shorten; abstains if that needs what no stage has.
    pub(crate) fn each_of_kernels(
        &self,
        needs: &str,
        look: impl Fn(&StageLine) -> Look,
    ) -> Outcome {
        self.each_stage(needs, |stage| self.look_at_kernels(stage, &look))
    }
}

impl StageLine {
    /// A finding about this stage that could save at most `saved` nanoseconds of the kernels of each instance: of a
    /// stage that the CPU bounds, a part of its busy time that counts only after the CPU is out of the way.
    pub(crate) fn saving_kernels(&self, saved: f64, basis: &str) -> Finding {
        if !self.is_host_bound {
            return self.saving(saved, basis);
        }
        let mut found = self.saving(saved.min(self.busy), basis);
        found.severity = Severity::Note;
        if let Some(gain) = &mut found.gain {
            (gain.saved_ns, gain.of_ns) = (saved.clamp(0.0, self.busy), self.busy);
            gain.kind = GainKind::WorkAfterCpu;
            gain.of = words!(self, "findings.busy_time", stage = self.label.as_str());
            gain.basis = basis.to_owned() + &words!(self, "findings.after_host");
        }
        found
    }
}
