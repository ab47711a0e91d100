//! Sums per (pass, kernel): count, total and distribution of durations.

use crate::engine::intervals::total;
use rooflens_session::{Arrange, KernelId, Ns, PassId, Session};
use rooflens_units::Time;

/// The launches of one kernel in one pass.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSum {
    /// Pass.
    pub pass: PassId,
    /// Kernel.
    pub kernel: KernelId,
    /// Number of launches.
    pub count: u64,
    /// Sum of durations.
    pub total: Ns,
    /// Shortest launch.
    pub min: Ns,
    /// Longest launch.
    pub max: Ns,
    /// Median duration.
    pub median: Option<Time>,
    /// Sample standard deviation; absent for one launch.
    pub std: Option<Time>,
}

impl KernelSum {
    /// Mean duration.
    pub fn mean(&self) -> Option<Time> {
        (self.count > 0).then(|| self.total.time() / self.count as f64)
    }
}

/// Sums of all passes by (pass, total descending, name). A pass without launches has the sums that another
/// tool computed, if the bundle holds them.
pub(super) fn kernel_sums(session: &Session) -> Vec<KernelSum> {
    let launches = &session.launches;
    let launch = |row: usize| {
        let duration = launches.end[row].saturating_sub(launches.start[row]);
        (launches.pass[row], launches.kernel[row], duration)
    };
    let mut times: Vec<(PassId, KernelId, Ns)> = (0..launches.len()).map(launch).collect();
    times.sort_unstable();
    let groups = times.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
    let mut sums: Vec<KernelSum> = groups.map(sum).collect();
    sums.extend(imported(session, &sums));
    sums.arrange_by(|a, b| {
        let name = |sum: &KernelSum| session.kernel_name(sum.kernel);
        (a.pass, b.total)
            .cmp(&(b.pass, a.total))
            .then_with(|| name(a).cmp(name(b)))
    });
    sums
}

/// The sum of the launches of one kernel in one pass, by duration.
fn sum(launches: &[(PassId, KernelId, Ns)]) -> KernelSum {
    let (pass, kernel, min) = launches[0];
    let duration = |row: usize| launches[row].2;
    let total = total(launches.iter().map(|launch| launch.2));
    let count = launches.len();
    let median = (duration((count - 1) / 2).time() + duration(count / 2).time()) / 2.0;
    let mean = total.time() / count as f64;
    let squares = launches
        .iter()
        .map(|launch| (launch.2.time() - mean).0.powi(2))
        .sum::<f64>();
    KernelSum {
        pass,
        kernel,
        count: count as u64,
        total,
        min,
        max: duration(count - 1),
        median: Some(median),
        std: (count > 1).then(|| Time((squares / (count - 1) as f64).sqrt())),
    }
}

fn imported(session: &Session, own: &[KernelSum]) -> Vec<KernelSum> {
    let table = &session.kernel_sums;
    let row = |row: usize| KernelSum {
        pass: table.pass[row],
        kernel: table.kernel[row],
        count: table.count[row],
        total: table.total[row],
        min: table.min[row],
        max: table.max[row],
        median: table.median[row],
        std: table.std[row],
    };
    let launched = |pass| own.binary_search_by(|sum| sum.pass.cmp(&pass)).is_ok();
    (0..table.len())
        .map(row)
        .filter(|sum| !launched(sum.pass))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::trace;

    #[test]
    fn totals_medians_and_sample_deviations() {
        // Kernel a ran 10, 20 and 60 ns: mean 30, median 20, std √((400+100+900)/2) = √700.
        let session = trace("stream 7: a 0..10, b 20..25, a 30..50, a 100..160");
        let sums = kernel_sums(&session);
        assert_eq!(sums.len(), 2);
        let a = &sums[0];
        assert_eq!(session.kernel_name(a.kernel), "a");
        assert_eq!(
            (a.count, a.total, a.min, a.max),
            (3, Ns(90), Ns(10), Ns(60))
        );
        assert_eq!((a.mean(), a.median), (Some(Time(30.0)), Some(Time(20.0))));
        assert!((a.std.unwrap().0 - 700_f64.sqrt()).abs() < 1e-9);
        assert_eq!(
            (sums[1].count, sums[1].std),
            (1, None),
            "one launch has no spread"
        );
    }

    #[test]
    fn an_even_number_of_launches_has_the_mean_of_the_two_in_the_middle_as_median() {
        let session = trace("stream 7: a 0..1, a 10..14, a 20..26, a 30..130");
        assert_eq!(kernel_sums(&session)[0].median, Some(Time(5.0)));
    }

    #[test]
    fn imported_sums_count_only_where_there_are_no_launches() {
        let mut session = trace("stream 7: a 0..10");
        let sums_only = session.add_pass("sums", rooflens_schemas::PassKind::Timeline, "sums.csv");
        let kernel = session.kernel("b", "");
        for pass in [PassId(0), sums_only] {
            session.kernel_sums.push(rooflens_session::KernelSum {
                pass,
                kernel,
                count: 4,
                total: Ns(100),
                min: Ns(10),
                max: Ns(40),
                median: None,
                std: None,
            });
        }
        let rows: Vec<_> = kernel_sums(&session)
            .iter()
            .map(|s| (s.pass, s.total))
            .collect();
        assert_eq!(rows, [(PassId(0), Ns(10)), (sums_only, Ns(100))]);
    }
}
