//! SQL over an nsys export that gives idle time of one cause in an instance again.

use crate::evidence::Evidence;
use crate::sql::Window;
use crate::stage::StageLine;
use rooflens_analysis::time::idle::gaps::HOST_STRETCH;
use rooflens_analysis::time::idle::line::Parts;
use rooflens_analysis::time::idle::{Cause, StageIdle};
use rooflens_document::{Quantity, Query};
use rooflens_session::Ns;

/// Calls that wait, that load or link code or instantiate graphs, and that allocate.
const SYNC: &str = "name LIKE '%Synchronize%'";
const LOADS: &str = "(name LIKE 'cuModule%' OR name LIKE 'cu%Library%' OR name LIKE 'cuLink%' OR name LIKE 'cuFuncLoad%' OR \
                     name LIKE 'cuKernelGetFunction%' OR name LIKE 'cu%GraphInstantiate%')";
const ALLOCATES: &str = "(name LIKE 'cudaMalloc%' OR name LIKE 'cudaFree%' OR name LIKE 'cudaHost%' AND name NOT LIKE \
                         'cudaHostGet%' OR name LIKE 'cudaMemPool%' OR name LIKE 'cuMem%' AND name NOT LIKE 'cuMemcpy%' \
                         AND name NOT LIKE 'cuMemset%' AND name NOT LIKE 'cuMem%Get%')";

impl Evidence<'_> {
    /// The query that gives idle time of a cause in an instance, or else all of its idle time.
    pub(crate) fn query(&self, stage: &StageLine, line: &StageIdle, cause: Cause) -> Option<Query> {
        // Of what few iterations have, the typical one shows nothing.
        if line.spread(&[cause]).is_rare() {
            return None;
        }
        let window = stage.window.as_ref()?;
        let parts = line
            .nearest_parts()
            .filter(|parts| can_tell(self, window, parts));
        let query = parts.and_then(|parts| {
            let times = times(cause, parts)?;
            let what = words!(self, "queries.cause", cause = self.text.word(cause.label()));
            let time = Quantity::ns(parts.causes.of(cause));
            Some(window.query(what, time, sql(self, window, &times)))
        });
        query.or_else(|| Some(window.idle()))
    }
}

/// Whether calls of a thread follow one another, and the gaps of the instance are those of its operations.
fn can_tell(evidence: &Evidence<'_>, window: &Window, parts: &Parts) -> bool {
    let (calls, causes) = (&evidence.session.api_calls, &parts.causes);
    causes.total() - causes.of(Cause::OtherWork) == window.idle
        && causes.of(Cause::Communication) + causes.of(Cause::Profiler) == Ns::ZERO
        && !calls.nests(window.pass)
}

/// The times of the host to which a cause belongs, as far as names and times of calls tell; of *queue* none.
fn times(cause: Cause, parts: &Parts) -> Option<String> {
    let has = |causes: &[Cause]| parts.causes.sum(causes) > Ns::ZERO;
    let outside = has(&[Cause::Os, Cause::OffCpu]);
    let calls = |which: &str| format!("SELECT thread, start, end FROM call WHERE {which}");
    let free = "SELECT thread, COALESCE(before, 0), start FROM call WHERE";
    match cause {
        Cause::Sync => Some(calls(SYNC)),
        Cause::Allocator => Some(calls(ALLOCATES)),
        Cause::HostCode if !outside => Some(format!(
            "{free} before IS NULL OR start - before >= {HOST_STRETCH}"
        )),
        Cause::FirstUse if !parts.loads => Some(calls(LOADS)),
        Cause::Launching if !outside && !parts.loads && !has(&[Cause::Copy]) => {
            let issues = calls(&format!("NOT {SYNC} AND NOT {LOADS} AND NOT {ALLOCATES}"));
            Some(format!(
                "{issues} UNION ALL {free} start - before < {HOST_STRETCH}"
            ))
        }
        Cause::Queue => Some(String::new()),
        _ => None,
    }
}

/// Gaps by the call that issued what ends them, and how long the host was at `times` until it returned.
fn sql(evidence: &Evidence<'_>, window: &Window, times: &str) -> String {
    // Numbers of calls are those of a process.
    let session = evidence.session;
    let several = session
        .processes
        .pass
        .iter()
        .filter(|pass| **pass == window.pass);
    let (of_op, of_call, both) = match several.count() > 1 {
        true => (
            ", globalPid >> 24 AS pid",
            ", r.globalTid >> 24 AS pid",
            "pid, id",
        ),
        false => ("", "", "id"),
    };
    let ops = window.select(&format!("start, end, correlationId AS id{of_op}"));
    let gaps = format!(
        "WITH op AS ({ops}), gap AS (SELECT *, start AS b, MAX(end) OVER (ORDER BY start, end ROWS BETWEEN UNBOUNDED \
         PRECEDING AND 1 PRECEDING) AS a, start = MIN(start) OVER (PARTITION BY {both}) AS first FROM op), call AS (SELECT \
         r.start, r.end, r.globalTid AS thread, r.correlationId AS id{of_call}, s.value AS name, LAG(r.end) OVER (PARTITION \
         BY r.globalTid ORDER BY r.start) AS before FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId), \
         wait AS (SELECT a, b, first AND call.end > a AS host, call.end AS returned, thread FROM gap JOIN call USING ({both}) \
         WHERE b > a AND call.start <= b)"
    );
    if times.is_empty() {
        return format!(
            "{gaps} SELECT COALESCE(SUM(CASE WHEN host THEN MAX(0, b - returned) ELSE b - a END), 0) FROM wait;"
        );
    }
    format!(
        "{gaps}, time (thread, since, until) AS ({times}), point AS (SELECT thread, a AS t, 1 AS waits, 0 AS does FROM wait \
         WHERE host UNION ALL SELECT thread, MIN(b, returned), -1, 0 FROM wait WHERE host UNION ALL SELECT thread, since, 0, \
         1 FROM time UNION ALL SELECT thread, until, 0, -1 FROM time), state AS (SELECT LEAD(t) OVER o - t AS ns, SUM(waits) \
         OVER o AS waits, SUM(does) OVER o AS does FROM point WINDOW o AS (PARTITION BY thread ORDER BY t ROWS UNBOUNDED \
         PRECEDING)) SELECT COALESCE(SUM(ns), 0) FROM state WHERE waits > 0 AND does > 0;"
    )
}
