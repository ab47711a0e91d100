//! Launches with counters.

use rooflens_schemas::PassKind;

use rooflens_session::{Dim3, KernelProfile, PassId, ProfileId, ProfileMetric, Session, StrId};

/// Section, metric, unit, value.
pub type Metric<'a> = (&'a str, &'a str, &'a str, f64);

/// A session with one pass: a launch a name, and its metrics.
pub fn session(launches: &[(&str, &[Metric<'_>])]) -> Session {
    let mut session = Session::default();
    let pass = session.add_pass("ncu-decode", PassKind::Counters, "ncu-decode/raw.csv");
    session.gpu(pass, 0);
    for (name, metrics) in launches {
        let profile = profile(&mut session, pass, name);
        for metric in *metrics {
            count(&mut session, profile, *metric);
        }
    }
    session
}

/// Adds a metric to a launch.
pub fn count(session: &mut Session, profile: ProfileId, metric: Metric<'_>) {
    let (section, name, unit, value) = metric;
    let [section, metric, unit] = [section, name, unit].map(|text| session.intern(text));
    let row = ProfileMetric {
        profile,
        section,
        metric,
        unit,
        value: Some(value),
        text: None,
    };
    session.profile_metrics.push(row);
}

/// Adds a launch to the only pass with profiled launches.
pub fn profile(session: &mut Session, pass: PassId, name: &str) -> ProfileId {
    let name = session.intern(name);
    session.kernel_profiles.push(KernelProfile {
        pass,
        artifact: StrId::default(),
        ordinal: u32::try_from(session.kernel_profiles.len()).unwrap(),
        name,
        process: 1,
        context: 1,
        stream: 7,
        device: 0,
        compute_capability: Some(90),
        grid: Dim3 { x: 2, y: 64, z: 1 },
        block: Dim3 { x: 384, y: 1, z: 1 },
        nvtx: StrId::default(),
    })
}
