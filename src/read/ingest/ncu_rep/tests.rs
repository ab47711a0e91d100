#![allow(clippy::unwrap_used)]

mod fixture;

use proptest::prelude::*;

use super::*;
use crate::ncu;
use crate::testing::import_into;
use rooflens_session::Dim3;
use rooflens_units::Percent;

/// A field of integer type.
fn int(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

/// A field of a text or message.
fn block(number: u64, content: &[u8]) -> Vec<u8> {
    [
        &varint(number << 3 | 2),
        &varint(content.len() as u64),
        content,
    ]
    .concat()
}

fn double(number: u64, value: f64) -> Vec<u8> {
    [varint(number << 3 | 1), value.to_le_bytes().to_vec()].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn sized(message: &[u8]) -> Vec<u8> {
    [
        &u32::try_from(message.len()).unwrap().to_le_bytes()[..],
        message,
    ]
    .concat()
}

/// Magic, size and header of a file of this version.
fn head(version: u64) -> Vec<u8> {
    [MAGIC, &sized(&int(1, version))].concat()
}

/// A block with these header fields and messages.
fn file_block(header: &[Vec<u8>], messages: &[Vec<u8>]) -> Vec<u8> {
    let payload: Vec<u8> = messages.iter().flat_map(|message| sized(message)).collect();
    let process = block(6, &[int(1, 77), block(3, b"app")].concat());
    let header = [header.concat(), int(5, payload.len() as u64), process].concat();
    [sized(&header), payload].concat()
}

const NAMES: [&str; 8] = [
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "sass__inst_executed_per_opcode",
    "nvlink__source_ports",
    "group:memory__chart",
    "launch__device_id",
    "derived_tempMetric0",
    "LTS.TriageCompute.lts__throughput.avg.pct_of_peak_sustained_elapsed",
];

fn names() -> Vec<u8> {
    block(
        4,
        &NAMES
            .iter()
            .flat_map(|name| block(1, name.as_bytes()))
            .collect::<Vec<u8>>(),
    )
}

/// A metric: name, value, parts with their keys.
fn metric(name: u64, value: &[u8], parts: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let parts = parts
        .iter()
        .map(|(key, value)| block(3, &[block(1, key), block(2, value)].concat()));
    let parts: Vec<u8> = parts.flatten().collect();
    block(13, &[int(1, name), block(2, value), parts].concat())
}

fn extent(x: u64) -> Vec<u8> {
    [int(1, x), int(2, 2), int(3, 1)].concat()
}

/// A launch with one metric of each shape.
fn launch(ns: u64) -> Vec<u8> {
    let add = (block(1, b"FADD"), double(3, 4.0));
    let at_address = (int(5, 1 << 40), int(5, 7));
    [
        int(1, 9),
        block(6, b"f"),
        block(7, b"void f<(int)1>(int)"),
        block(10, &extent(32)),
        block(11, &extent(128)),
        metric(0, &int(5, 1), &[]),
        metric(1, &double(3, 64.0), std::slice::from_ref(&at_address)),
        metric(2, &double(3, 4.0), &[add]),
        metric(3, &[], &[]),
        metric(4, &block(1, b"a,b"), &[]),
        metric(5, &int(4, 1), &[]),
        metric(6, &double(3, f64::NAN), &[]),
        metric(7, &[], &[at_address]),
        metric(0, &int(5, ns), &[]),
        int(22, 3),
        int(23, 7),
    ]
    .concat()
}

/// Session, a source, two launches.
fn report() -> Vec<u8> {
    let target = [
        block(1, b"Nsight Compute Target"),
        block(2, b"2025.3.1.0 (build 1)"),
    ]
    .concat();
    let command = b"/opt/ncu --clock-control none --replay-mode=range python3 a.py --replay-mode x";
    let session = block(3, &[block(8, &target), block(11, command)].concat());
    [
        head(7),
        file_block(&[session], &[]),
        file_block(&[int(1, 1)], &[vec![0xff; 300]]),
        file_block(&[int(2, 1), names()], &[launch(5000)]),
        file_block(&[int(1, 1), int(2, 1)], &[vec![0xff; 3], launch(7000)]),
    ]
    .concat()
}

/// Reads files of one pass in order, reports and pages as they begin.
fn read(files: &[&[u8]]) -> (Session, Diagnostics, Vec<Result<(), String>>) {
    let (mut session, mut diagnostics) = (Session::default(), Diagnostics::default());
    let mut results = Vec::new();
    for (index, bytes) in files.iter().enumerate() {
        let is_page = bytes.starts_with(b"\"ID\"");
        let importer = if is_page { &ncu::IMPORTER } else { &IMPORTER };
        let path = format!("ncu/{index}");
        let (result, said) = import_into(importer, &path, bytes, &mut session);
        for diagnostic in said.iter() {
            diagnostics.push(diagnostic.clone());
        }
        results.push(result.map_err(|error| error.to_string()));
    }
    (session, diagnostics, results)
}

fn codes(diagnostics: &Diagnostics) -> Vec<&'static str> {
    diagnostics
        .iter()
        .map(|diagnostic| diagnostic.code)
        .collect()
}

/// Metric, unit, value and text of the launch in row `profile`.
fn metrics(session: &Session, profile: usize) -> Vec<(&str, &str, Option<f64>, Option<&str>)> {
    let metrics = &session.profile_metrics;
    let of_launch = metrics
        .ids()
        .map(|id| metrics.row(id))
        .filter(|row| row.profile.index() == profile);
    of_launch
        .map(|row| {
            let text = row.text.map(|text| session.text(text));
            (
                session.text(row.metric),
                session.text(row.unit),
                row.value,
                text,
            )
        })
        .collect()
}

#[test]
fn a_report_gives_the_rows_of_an_exported_page() {
    let (session, diagnostics, results) = read(&[&report()]);
    assert_eq!((results, codes(&diagnostics)), (vec![Ok(())], vec![]));
    let expected = [
        ("dram__bytes_read.sum", "byte", Some(64.0), None),
        ("sass__inst_executed_per_opcode", "", Some(4.0), None),
        ("nvlink__source_ports", "", None, Some("no data")),
        ("launch__device_id", "", Some(1.0), None),
        ("derived_tempMetric0", "", None, Some("nan")),
        // The second of two.
        ("gpu__time_duration.sum", "s", Some(5000.0 / 1e9), None),
    ];
    assert_eq!(metrics(&session, 0), expected);
    assert_eq!(metrics(&session, 1)[5].2, Some(7000.0 / 1e9));
    let profile = session
        .kernel_profiles
        .row(session.kernel_profiles.ids().next_back().unwrap());
    assert_eq!(session.text(profile.name), "void f<(int)1>(int)");
    assert_eq!(
        (profile.ordinal, profile.process, profile.device),
        (1, 77, 1)
    );
    assert_eq!(
        (profile.context, profile.stream, profile.compute_capability),
        (3, 7, None)
    );
    assert_eq!(profile.grid, Dim3 { x: 32, y: 2, z: 1 });
    assert_eq!(profile.block, Dim3 { x: 128, y: 2, z: 1 });
    // Parts by name stay, parts by address do not.
    assert_eq!(session.profile_instances.value, [4.0, 4.0]);
    assert_eq!(session.text(session.profile_instances.instance[0]), "FADD");
    let report = session
        .profile_reports
        .row(session.profile_reports.ids().next().unwrap());
    assert_eq!(report.launches, 2);
    let [version, replay, clock, cache, producer] = [
        report.version,
        report.replay_mode,
        report.clock_control,
        report.cache_control,
        session.passes.producer[0],
    ]
    .map(|id| session.text(id));
    assert_eq!(
        [version, replay, clock, cache],
        ["2025.3.1.0", "range", "none", "all"]
    );
    assert_eq!(producer, "ncu 2025.3.1.0");
}

#[test]
fn ranges_are_those_of_the_launching_thread_else_those_with_an_end_of_their_own() {
    let range = |name: &[u8]| block(3, &block(1, name));
    let thread = |id, names: &[&[u8]]| {
        let stack: Vec<u8> = names.iter().flat_map(|name| range(name)).collect();
        block(
            2,
            &[int(1, id), block(2, &[int(1, 0), stack].concat())].concat(),
        )
    };
    let loose = block(3, &block(3, &[int(1, 4), block(2, b"load")].concat()));
    let path = |state: Vec<u8>| nvtx::path(&state, 9).unwrap();
    let reports = [
        thread(8, &[b"other"]),
        thread(9, &[b"decode", b"step"]),
        loose.clone(),
    ]
    .concat();
    assert_eq!(path(reports), "decode/step");
    assert_eq!(
        path([thread(8, &[b"other"]), thread(9, &[]), loose.clone()].concat()),
        "other"
    );
    assert_eq!(path(loose), "load");
    assert_eq!(path(Vec::new()), "");
}

#[test]
fn a_rule_gives_one_remark_an_item_with_its_speedup_and_metrics() {
    let item = [
        block(1, &[block(1, b"Too @section:S:small@"), int(2, 4)].concat()),
        block(
            8,
            &[
                int(1, 1),
                block(2, b"launch__grid_size"),
                double(3, 1.0),
                block(5, b"grow"),
            ]
            .concat(),
        ),
        block(10, &[int(1, 2), double(2, 99.5)].concat()),
    ];
    let note = block(1, &[block(1, b"See"), int(2, 1)].concat());
    let body = [block(1, &item.concat()), block(1, &note), block(1, &[])].concat();
    let result = block(
        19,
        &[
            block(1, b"Config"),
            block(3, &body),
            block(4, b"LaunchStats"),
        ]
        .concat(),
    );
    let file = [
        head(7),
        file_block(&[int(2, 1), names()], &[[launch(1), result].concat()]),
    ]
    .concat();
    let (session, _, _) = read(&[&file]);
    let remarks: Vec<_> = session
        .profile_rules
        .ids()
        .map(|id| session.profile_rules.row(id))
        .collect();
    let told = remarks.iter().map(|row| {
        let texts = [
            row.section,
            row.rule,
            row.kind,
            row.description,
            row.speedup_kind,
        ];
        (texts.map(|id| session.text(id)), row.speedup)
    });
    let expected = [
        (
            ["LaunchStats", "Config", "OPT", "Too small", "global"],
            Some(Percent(99.5)),
        ),
        (["LaunchStats", "Config", "INF", "See", ""], None),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(
        session.profile_focus.rule,
        [session.profile_rules.ids().next().unwrap()]
    );
    assert_eq!(
        session.text(session.profile_focus.metric[0]),
        "launch__grid_size"
    );
    assert_eq!(session.profile_focus.value, [Some(1.0)]);
}

#[test]
fn launches_that_make_no_sense_cost_themselves() {
    let broken = [launch(1), block(13, b"\x08")].concat();
    let file = [
        head(7),
        file_block(&[int(2, 3), names()], &[launch(1), broken, launch(3)]),
        // One more is announced than is there.
        file_block(&[int(2, 2)], &[launch(4)]),
        file_block(&[int(7, 1), int(9, 1)], &[launch(5), launch(6)]),
    ];
    let (session, diagnostics, results) = read(&[&file.concat()]);
    assert_eq!(results, [Ok(())]);
    // Numbers are those of the report, that of the broken one included.
    assert_eq!(session.kernel_profiles.ordinal, [0, 2, 3]);
    let told: Vec<_> = diagnostics
        .iter()
        .map(|diagnostic| (diagnostic.code, diagnostic.severity, diagnostic.count))
        .collect();
    let loss = Severity::DataLoss;
    assert_eq!(
        told,
        [("ncu-rep/launches", loss, 2), ("ncu-rep/results", loss, 2)]
    );
}

#[test]
fn a_report_of_another_format_is_read_as_far_as_it_can_be_or_refused_with_advice() {
    let (session, diagnostics, _) =
        read(&[&[head(8), file_block(&[int(2, 1), names()], &[launch(1)])].concat()]);
    assert_eq!(session.kernel_profiles.len(), 1);
    assert_eq!(codes(&diagnostics), ["ncu-rep/version"]);
    let (session, _, results) = read(&[&[head(9), sized(b"\x0b\x01")].concat()]);
    assert!(
        results[0]
            .as_ref()
            .unwrap_err()
            .contains("not those of a known version")
    );
    assert_eq!(session.passes.len(), 0);
    // A second table of names: what follows could not be named.
    let two = [
        report(),
        file_block(&[int(2, 1), block(4, &block(1, b"x"))], &[launch(1)]),
    ]
    .concat();
    let (session, diagnostics, _) = read(&[&two]);
    assert_eq!(
        (session.kernel_profiles.len(), codes(&diagnostics)),
        (2, vec!["ncu-rep/cut"])
    );
    let (_, diagnostics, _) = read(&[&head(7)]);
    assert_eq!(codes(&diagnostics), ["ncu/no-launches"]);
}

#[test]
fn the_same_report_twice_counts_once() {
    let (session, diagnostics, _) = read(&[&report(), &report()]);
    assert_eq!(session.kernel_profiles.len(), 2);
    assert_eq!(session.profile_metrics.len(), 12);
    assert_eq!(codes(&diagnostics), ["ncu-rep/repeated"]);
}

#[test]
fn a_report_cut_at_any_byte_gives_the_launches_before_the_cut() {
    let whole = report();
    let second = whole.len() - sized(&launch(7000)).len();
    for end in 0..whole.len() {
        let (session, diagnostics, results) = read(&[&whole[..end]]);
        let launches = session.kernel_profiles.len();
        assert!(launches <= 1 && (launches == 1) >= (end >= second), "{end}");
        let told = results[0].is_err() || !codes(&diagnostics).is_empty();
        // Between two blocks the file ends as if it had been made so.
        assert!(told || launches == 1, "{end}");
        if launches == 1 && results[0].is_ok() && end > second {
            assert_eq!(diagnostics.worst(), Some(Severity::DataLoss), "{end}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read(&[&[MAGIC, &bytes].concat()]);
        read(&[&[head(7), sized(&bytes), bytes.clone()].concat()]);
        let _ = Launch::read(&bytes);
    }

    #[test]
    fn changed_bytes_add_no_launch(changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8)) {
        let mut bytes = report();
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[at % length] = byte;
        }
        let (session, _, _) = read(&[&bytes]);
        // A launch takes at least its own bytes.
        prop_assert!(session.kernel_profiles.len() <= bytes.len() / 4);
        prop_assert!(session.profile_metrics.len() <= bytes.len() / 2);
    }
}
