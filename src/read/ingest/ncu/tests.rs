#![allow(clippy::unwrap_used)]

use rooflens_schemas::PassKind;

use super::*;
use crate::testing::{import_into, sniffs};
use rooflens_session::Dim3;
use rooflens_units::Percent;

const IDENTITY: &str = r#""ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC""#;
const LAUNCH: &str = r#""0","77","app","127.0.0.1","void f<1, 2>(int)","1","7","(128, 1, 1)","(32, 4, 1)","0","12.0""#;

/// Reads files of one pass in order.
fn read(pages: &[&str]) -> (Session, Diagnostics, Vec<Result<(), String>>) {
    let (mut session, mut diagnostics) = (Session::default(), Diagnostics::default());
    let mut results = Vec::new();
    for page in pages {
        let (result, said) = import_into(&IMPORTER, "ncu/page.csv", page, &mut session);
        for diagnostic in said.iter() {
            diagnostics.push(diagnostic.clone());
        }
        results.push(result.map_err(|error| error.to_string()));
    }
    (session, diagnostics, results)
}

fn metric(session: &Session, section: &str, name: &str) -> Option<(Option<f64>, String)> {
    let metrics = &session.profile_metrics;
    let row = metrics
        .ids()
        .map(rooflens_session::ProfileMetricId::index)
        .find(|row| {
            session.text(metrics.section[*row]) == section
                && session.text(metrics.metric[*row]) == name
        })?;
    Some((
        metrics.value[row],
        session.text(metrics.unit[row]).to_owned(),
    ))
}

fn raw_page(columns: &str, units: &str, values: &str) -> String {
    let blank = [r#""""#; 11].join(",");
    format!("{IDENTITY},{columns}\n{blank},{units}\n{LAUNCH},{values}\n")
}

fn details_page(columns: &str, rows: &[&str]) -> String {
    let mut page = format!("{IDENTITY},{columns}\n");
    for row in rows {
        page += &format!("{LAUNCH},{row}\n");
    }
    page
}

const LONG: &str = r#""Section Name","Metric Name","Metric Unit","Metric Value""#;
const RULES: &str =
    r#""Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup""#;

#[test]
fn a_raw_page_gives_base_units_and_the_gpu() {
    let page = raw_page(
        r#""gpu__time_duration.sum","dram__bytes_read.sum","flop_count_hp.sum","empty","device__attribute_display_name","device__attribute_multiprocessor_count","device__attribute_clock_rate""#,
        r#""us","Mbyte","","","","","""#,
        r#""7.392000","33.635584","n/a","","NVIDIA H200","132","1,980,000""#,
    );
    let (session, _, results) = read(&[&format!(
        "==PROF== Connected to process 77 (app)\nhello, \"world\"\n{page}==PROF== Disconnected\n"
    )]);
    assert_eq!(results, [Ok(())]);
    assert_eq!(session.kernel_profiles.len(), 1);
    let launch = session
        .kernel_profiles
        .row(session.kernel_profiles.ids().next().unwrap());
    assert_eq!((launch.ordinal, launch.process, launch.stream), (0, 77, 7));
    assert_eq!(launch.compute_capability, Some(120));
    assert_eq!(launch.grid, Dim3 { x: 32, y: 4, z: 1 });
    assert_eq!(session.text(launch.name), "void f<1, 2>(int)");
    // 7.392 us; 33.635584 MB with M = 10^6.
    assert_eq!(
        metric(&session, "", "gpu__time_duration.sum"),
        Some((Some(7.392 / 1e6), "s".into()))
    );
    assert_eq!(
        metric(&session, "", "dram__bytes_read.sum"),
        Some((Some(33_635_584.0), "byte".into()))
    );
    assert_eq!(
        metric(&session, "", "flop_count_hp.sum"),
        Some((None, String::new()))
    );
    assert_eq!(metric(&session, "", "empty"), None);
    assert_eq!(session.text(session.gpus.name[0]), "NVIDIA H200");
    assert_eq!(session.gpus.sm_count[0], Some(132));
    assert_eq!(session.gpus.clock_hz[0], Some(1_980_000_000));
    assert_eq!(session.passes.kind[0], PassKind::Counters);
}

#[test]
fn details_rows_may_be_ragged_and_same_names_are_told_by_section_and_label() {
    let page = details_page(
        &format!(
            r#""Section Name","Body Item Label","Metric Name","Metric Unit","Metric Value",{RULES}"#
        ),
        &[
            r#""GPU Speed Of Light Throughput","","Memory Throughput","%","12.50","#,
            r#""Memory Workload Analysis","","Memory Throughput","Gbyte/s","9.49","#,
            r#""Roofline","Single","SM Frequency","Ghz","1.96","#,
            r#""Roofline","Double","SM Frequency","cycle/nsecond","1.95","#,
            r#""Launch Statistics","","Threads","thread","13,485","#,
            r#""Launch Statistics","","Function Cache Configuration","","CachePreferNone","#,
            r#""SpeedOfLight","","","","","SOLBottleneck","OPT","Too small, ""0.7"" waves","global","75.76""#,
        ],
    );
    let (session, _, results) = read(&[&page]);
    assert_eq!(results, [Ok(())]);
    assert_eq!(session.kernel_profiles.len(), 1);
    assert_eq!(
        metric(
            &session,
            "GPU Speed Of Light Throughput",
            "Memory Throughput"
        ),
        Some((Some(12.5), "%".into()))
    );
    assert_eq!(
        metric(&session, "Memory Workload Analysis", "Memory Throughput"),
        Some((Some(9.49e9), "byte/s".into()))
    );
    assert_eq!(
        metric(&session, "Roofline: Single", "SM Frequency"),
        Some((Some(1.96e9), "Hz".into()))
    );
    assert_eq!(
        metric(&session, "Roofline: Double", "SM Frequency"),
        Some((Some(1.95e9), "Hz".into()))
    );
    assert_eq!(
        metric(&session, "Launch Statistics", "Threads"),
        Some((Some(13_485.0), "thread".into()))
    );
    assert_eq!(session.profile_metrics.len(), 6);
    let text = session
        .profile_metrics
        .text
        .iter()
        .flatten()
        .next()
        .unwrap();
    assert_eq!(session.text(*text), "CachePreferNone");
    assert_eq!(session.profile_rules.speedup, [Some(Percent(75.76))]);
    assert_eq!(
        session.text(session.profile_rules.description[0]),
        "Too small, \"0.7\" waves"
    );
}

#[test]
fn two_pages_of_one_report_join_and_the_raw_page_wins() {
    let details = details_page(
        LONG,
        &[
            r#""Command line profiler metrics","dram__bytes_read.sum","Mbyte","33.64""#,
            r#""GPU Speed Of Light Throughput","Duration","us","7.39""#,
        ],
    );
    let raw = raw_page(r#""dram__bytes_read.sum""#, r#""Mbyte""#, r#""33.635584""#);
    for pages in [
        [details.as_str(), raw.as_str()],
        [raw.as_str(), details.as_str()],
    ] {
        let (session, diagnostics, _) = read(&pages);
        assert_eq!(session.passes.len(), 1);
        assert_eq!(session.kernel_profiles.len(), 1);
        assert_eq!(session.profile_metrics.len(), 2);
        assert_eq!(
            metric(&session, "", "dram__bytes_read.sum"),
            Some((Some(33_635_584.0), "byte".into()))
        );
        assert_eq!(diagnostics.worst(), None);
    }
}

#[test]
fn raw_pages_that_contradict_each_other_are_told() {
    let first = raw_page(r#""dram__bytes_read.sum""#, r#""byte""#, r#""1""#);
    let second = raw_page(r#""dram__bytes_read.sum""#, r#""byte""#, r#""2""#);
    let (session, diagnostics, _) = read(&[&first, &second]);
    assert_eq!(session.profile_metrics.value, [Some(1.0)]);
    assert!(diagnostics.iter().any(|d| d.code == "ncu/conflict"));
}

#[test]
fn nvtx_columns_before_the_kernel_name_are_found_by_name() {
    let page = concat!(
        r#""ID","Process ID","Process Name","Host Name","thread Domain:Push/Pop_Range:PL_Type","Id:Domain:Start/Stop_Range:PL_Type","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value""#,
        "\n",
        r#""3","9","p","h","9  ""<default domain>:outer:none:none:none:none:none:none""  ""<default domain>:inner:none:none:none:none:none:none"" ","","k","1","7","(1, 1, 1)","(1, 1, 1)","0","9.0","S","M","","1""#,
        "\n",
    );
    let (session, _, _) = read(&[page]);
    assert_eq!(session.text(session.kernel_profiles.nvtx[0]), "outer/inner");
    assert_eq!(session.text(session.kernel_profiles.name[0]), "k");
}

#[test]
fn without_a_units_row_values_keep_no_unit() {
    let page = format!("{IDENTITY},\"gpu__time_duration.sum\"\n{LAUNCH},\"7.39\"\n");
    let (session, _, _) = read(&[&page]);
    assert_eq!(
        metric(&session, "", "gpu__time_duration.sum"),
        Some((Some(7.39), String::new()))
    );
}

#[test]
fn an_unknown_chip_prints_nanoseconds_without_a_unit() {
    let page = raw_page(r#""gpu__time_duration.sum""#, r#""""#, r#""5184""#);
    let (session, _, _) = read(&[&page]);
    assert_eq!(
        metric(&session, "", "gpu__time_duration.sum"),
        Some((Some(5184.0 / 1e9), "s".into()))
    );
}

#[test]
fn a_cut_row_and_foreign_lines_are_told() {
    let page = raw_page(r#""a__x.sum","b__x.sum""#, r#""byte","byte""#, r#""1""#) + "loss, 3.2\n";
    let (session, diagnostics, _) = read(&[&page]);
    assert_eq!(session.profile_metrics.value, [Some(1.0)]);
    let codes: Vec<_> = diagnostics.iter().map(|d| d.code).collect();
    assert_eq!(codes, ["ncu/foreign-rows", "ncu/short-rows"]);
}

#[test]
fn pages_that_name_no_launch_are_refused_with_the_reason() {
    let permission = "==PROF== Connected to process 1 (a)\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n";
    let summary = r#""Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Invocations","Minimum","Maximum","Average""#;
    let source = "\"Kernel Name\",\"f(int)\"\n\"#\",\"Address\",\"Source\"\n";
    let (session, _, results) = read(&[
        permission,
        summary,
        source,
        "==PROF== x\n  Section: GPU Speed Of Light\n",
        "hello",
    ]);
    let told: Vec<_> = results
        .into_iter()
        .map(|result| result.unwrap_err())
        .collect();
    assert!(told[0].contains("no permission"), "{told:?}");
    assert!(told[1].contains("--print-summary"), "{told:?}");
    assert!(told[2].contains("source page"), "{told:?}");
    assert!(told[3].contains("console report"), "{told:?}");
    assert!(told[4].contains("no header"), "{told:?}");
    assert_eq!(session.passes.len(), 0);
}

#[test]
fn a_page_without_rows_is_a_notice() {
    let (session, diagnostics, results) = read(&[&format!("{IDENTITY},{LONG}\n")]);
    assert_eq!(results, [Ok(())]);
    assert_eq!(session.passes.len(), 0);
    assert!(diagnostics.iter().any(|d| d.code == "ncu/no-launches"));
}

#[test]
fn a_page_cut_before_its_first_value_is_a_loss() {
    let page = details_page(LONG, &[r#""S","M","us","1.5""#]);
    let (before, _) = page.split_once(",\"us\"").unwrap();
    let (_, diagnostics, _) = read(&[before]);
    assert!(diagnostics.iter().any(|d| d.code == "ncu/short-rows"));
}

#[test]
fn a_page_cut_at_any_byte_is_read_or_refused() {
    let raw = raw_page(
        r#""a__x.sum","b__x.sum""#,
        r#""Kbyte","us""#,
        r#""1,024","n/a""#,
    );
    let details = details_page(
        &format!("{LONG},{RULES}"),
        &[
            r#""S","M","us","1.5","#,
            r#""S","","","","R","OPT","why ""so""","global","7""#,
        ],
    );
    for page in [raw, details] {
        let (whole, _, _) = read(&[&page]);
        for end in 0..page.len() {
            let (session, _, _) = read(&[&page[..end]]);
            // What is read is a beginning of what the whole page holds.
            let names = &session.kernel_profiles.name;
            assert!(
                names
                    .iter()
                    .all(|name| session.text(*name) == "void f<1, 2>(int)"),
                "{end}"
            );
            let values = &session.profile_metrics.value;
            assert!(whole.profile_metrics.value.starts_with(values), "{end}");
        }
    }
}

#[test]
fn numbers_out_of_range_are_no_launch_or_no_number() {
    let launch = LAUNCH.replace("\"0\",\"77\"", "\"99999999999\",\"77\"");
    let page = format!("{IDENTITY},{LONG}\n{launch},\"S\",\"M\",\"us\",\"1\"\n");
    assert_eq!(read(&[&page]).0.kernel_profiles.len(), 0);
    let launch = LAUNCH
        .replace("12.0", "4294967295.9")
        .replace("(32, 4, 1)", "(99999999999, 4)");
    let page = format!("{IDENTITY},{LONG}\n{launch},\"S\",\"M\",\"us\",\"1e999\"\n");
    let (session, _, _) = read(&[&page]);
    assert_eq!(session.kernel_profiles.compute_capability, [None]);
    assert_eq!(session.kernel_profiles.grid, [Dim3 { x: 0, y: 4, z: 0 }]);
    assert_eq!(session.profile_metrics.value, [None]);
}

#[test]
fn other_tools_tables_are_not_taken_for_a_page() {
    let sniffed = |text: &str| sniffs(&IMPORTER, "x.csv", text);
    assert!(sniffed(&format!("==PROF== Connected\n{IDENTITY},{LONG}\n")));
    assert!(sniffed("==ERROR== ERR_NVGPUCTRPERM - no\n"));
    assert!(!sniffed(
        "timestamp, index, utilization.gpu [%], power.draw [W]\n"
    ));
    assert!(!sniffed(
        "Time (%),Total Time (ns),Instances,Avg (ns),Name\n"
    ));
    assert!(!sniffed(
        "Start (ns),Duration (ns),CorrId,GrdX,Device,Ctx,Strm,Name\n"
    ));
    assert!(!sniffed(
        "==PROF== Connected to process 3 (python)\n==PROF== Profiling \"k\" - 0: 100%\n"
    ));
    assert!(!sniffed("kernel_id,kernel_name,Process ID\n"));
}
