//! Formats whose files are made by hand: records, tables and logs of tools.

use rooflens_diagnostic::{Diagnostics, Severity};
use rooflens_units::{Count, Ratio, Time};

use super::{of_text, read};
use crate::import::{File, Reader};
use crate::runs::Tool;

#[test]
fn old_records_of_aiperf_are_read() {
    // As in AIPerf's examples/artifacts/run1/profile_export.jsonl, with fewer gaps.
    let record = |start: u64, metrics: &str, error: &str| {
        format!(
            "{{\"metadata\":{{\"timestamp_ns\":{start},\"credit_phase\":\"profiling\"}},\"metrics\":{{{metrics}}},\"error\":{error}}}\n"
        )
    };
    let answered = "\"input_sequence_length\":{\"value\":550,\"unit\":\"tokens\"},\"ttft\":{\"value\":1680.5,\"unit\":\"ms\"},\
        \"request_latency\":{\"value\":7936.5,\"unit\":\"ms\"},\"inter_chunk_latency\":{\"value\":[134.5,141.25],\"unit\":\"ms\"},\
        \"output_sequence_length\":{\"value\":193,\"unit\":\"tokens\"}";
    let text = [
        record(
            1_759_522_419_154_829_652,
            "\"error_request_count\":{\"value\":1,\"unit\":\"requests\"}",
            "{\"code\":499}",
        ),
        record(1_759_522_419_159_192_408, answered, "null"),
    ]
    .concat();
    let (input, _) = of_text(&text);
    let run = &input.runs[0];
    assert_eq!((run.tool, run.requests.len()), (Tool::AiPerf, 2));
    assert!(run.requests[0].failed);
    let request = &run.requests[1];
    // 159 192 408 − 154 829 652 ns after the first one.
    assert_eq!(request.due, Some(Time(4_362_756.0)));
    assert_eq!(
        (request.ttft, request.latency),
        (Some(Time(1.6805e9)), Some(Time(7.9365e9)))
    );
    assert_eq!(request.itl, [Time(134.5e6), Time(141.25e6)]);
    assert_eq!(
        (request.prompt_tokens, request.output_tokens),
        (Some(Count(550.0)), Some(Count(193.0)))
    );
}

#[test]
fn conversations_of_lmbench_are_in_seconds() {
    let text = "prompt_tokens,generation_tokens,ttft,generation_time,user_id,question_id,launch_time,finish_time\n\
        1000,11,0.5,1.0,1,1,1759522400.25,1759522401.75\n\
        1100,21,0.25,3.0,2,1,1759522401.25,1759522404.5\n";
    let (input, _) = of_text(text);
    let requests = &input.runs[0].requests;
    let figures: Vec<_> = requests
        .iter()
        .map(|request| (request.due, request.ttft, request.latency, request.tpot()))
        .collect();
    let time = |seconds: f64| Some(Time(seconds * 1e9));
    // TPOT: 1 s ÷ 10, and 3 s ÷ 20.
    assert_eq!(
        figures,
        [
            (time(0.0), time(0.5), time(1.5), time(0.1)),
            (time(1.0), time(0.25), time(3.25), time(0.15)),
        ]
    );
}

#[test]
fn a_table_without_units_needs_one() {
    let text = "ttft,latency,output_tokens\n5,25,11\n";
    let (refused, diagnostics) = of_text(text);
    assert!(refused.runs.is_empty() && diagnostics.worst() == Some(Severity::Error));
    let mut reader = Reader::of(text.len() as u64).with_unit(Some(Time(1e6)));
    let mut diagnostics = Diagnostics::default();
    let file = File {
        path: "file.csv",
        bytes: text.as_bytes(),
    };
    reader.read(&file, &mut diagnostics);
    let input = reader.finish(&mut diagnostics);
    assert_eq!(input.runs[0].requests[0].latency, Some(Time(25e6)));
}

/// A log of vLLM 0.15.1 in short, of a server with some slots that ran for two minutes from a time on.
fn log(minute: u32, slots: &str, running: u32) -> String {
    let at = |second: u32| {
        format!(
            "\u{1b}[0;36m(APIServer pid=1)\u{1b}[0;0m INFO 02-11 10:{:02}:{:02} ",
            minute + second / 60,
            second % 60
        )
    };
    format!(
        "{}[utils.py:325] version 0.15.1\n\
         {}[utils.py:261] non-default args: {{'model': 'm/Llama-2-7B-AWQ', 'dtype': 'half', 'port': 8001, 'max_model_len': 2048, \
         'enforce_eager': True, 'compilation_config': {{'level': 0, 'x': [1, 2]}}{slots}}}\n\
         {}[loggers.py:257] Engine 000: Running: {running} reqs, Waiting: 92 reqs, GPU KV cache usage: 5.0%, Prefix cache hit rate: 29.5%\n\
         {}[launcher.py:1] ends\n",
        at(0),
        at(1),
        at(40),
        at(119),
    )
}

#[test]
fn the_log_of_an_engine_gives_settings_and_samples_to_the_load_test_of_its_time() {
    let test = |minute: u32| {
        format!(
            "{{\"experiment_id\":\"a\",\"start_time\":\"2026-02-11T10:{minute:02}:30.5\",\"config\":{{\"target_rps\":2.0,\"open_loop\":true}},\
            \"records\":[{{\"timestamp_sent\":100.0,\"timestamp_first_token\":101.0,\"timestamp_last_token\":130.0,\"output_tokens\":9}}]}}"
        )
    };
    let contents = [
        test(20),
        test(30),
        log(20, "", 100),
        log(30, ", 'max_num_seqs': 8", 8),
    ];
    let paths = ["a.json", "b.json", "a.log", "b.log"];
    let files: Vec<File<'_>> = paths
        .iter()
        .zip(&contents)
        .map(|(path, text)| File {
            path,
            bytes: text.as_bytes(),
        })
        .collect();
    let mut diagnostics = Diagnostics::default();
    let input = read(&files, &mut diagnostics);
    let settings = |run: usize| {
        let settings = input.runs[run].settings.iter();
        settings
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        settings(0),
        "dtype=half enforce_eager=True engine=vLLM 0.15.1 max_model_len=2048"
    );
    assert_eq!(
        settings(1),
        "dtype=half enforce_eager=True engine=vLLM 0.15.1 max_model_len=2048 max_num_seqs=8"
    );
    assert_eq!(input.runs[1].model.as_deref(), Some("m/Llama-2-7B-AWQ"));
    // The sample at 40 s lies in the 29.5 s that a test lasts from 30.5 s on.
    let engines: Vec<_> = input.runs[2..]
        .iter()
        .map(|run| {
            (
                run.watches,
                run.engine.len(),
                run.engine[0].running,
                run.engine[0].kv_cache,
            )
        })
        .collect();
    let sample = |test, running| (Some(test), 1, Some(Count(running)), Some(Ratio(0.05)));
    assert_eq!(engines, [sample(0, 100.0), sample(1, 8.0)]);
}
