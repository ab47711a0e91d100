//! `serve` against a server whose latencies are planted.

mod fake_server;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fake_server::{Asked, End, HEAD, METRICS, Script, Server, chunk};
use rooflens_schemas::{
    ArtifactKind, LoadMode as Mode, Manifest, PassKind, RequestStatus as Status,
    ServingLine as Line, ServingRequest as Request, ServingRun as Header,
};

/// In the environment; it must be nowhere in a bundle.
const KEY: &str = "planted-key-of-the-api";

const TTFT: Duration = Duration::from_millis(40);
const ITL: Duration = Duration::from_millis(10);
const TOKENS: u32 = 8;

fn planted(_: &Asked) -> Script {
    Script::tokens(TTFT, ITL, TOKENS)
}

struct Run {
    folder: tempfile::TempDir,
    output: Output,
}

impl Run {
    fn of(server: &Server, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let output = command(&server.url(), &folder.path().join("run"), arguments).output();
        Self {
            folder,
            output: output.expect("starts"),
        }
    }

    fn bundle(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn level(&self, name: &str) -> (Header, Vec<Request>) {
        assert_eq!(self.output.status.code(), Some(0), "{}", self.said());
        read(&self.bundle().join(format!("serving/{name}.jsonl")))
    }
}

fn command(url: &str, bundle: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens-capture"));
    command
        .args(["serve", "--model", "fake", "--url", url, "-o"])
        .arg(bundle)
        .args(arguments);
    command
        .env("FAKE_KEY", KEY)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn read(path: &Path) -> (Header, Vec<Request>) {
    let text = fs::read_to_string(path).expect("is there");
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line"));
    let Some(Line::Run(header)) = lines.next() else {
        panic!("no header")
    };
    let requests = lines.map(|line| match line {
        Line::Request(request) => request,
        Line::Run(_) => panic!("a second header"),
    });
    let mut requests: Vec<Request> = requests.collect();
    requests.sort_by_key(|request| request.id);
    (header, requests)
}

/// Nearest rank.
fn percentile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() as f64 * share).ceil() as usize).max(1) - 1]
}

fn ttft(request: &Request) -> f64 {
    request.first_token_s.expect("a token") - request.start_s
}

/// How far each latency is from what was planted, in milliseconds: name, and percentile by share.
fn errors(requests: &[Request], share: f64) -> Vec<(&'static str, f64)> {
    let (first, between) = (TTFT.as_secs_f64(), ITL.as_secs_f64());
    let whole = first + between * f64::from(TOKENS - 1);
    let each = |of: fn(&Request) -> f64| requests.iter().map(of).collect();
    let latencies: [(&str, Vec<f64>, f64); 4] = [
        ("TTFT", each(ttft), first),
        (
            "TTFT from the schedule",
            each(|it| ttft(it) + it.start_s - it.scheduled_s),
            first,
        ),
        (
            "ITL",
            requests
                .iter()
                .flat_map(|it| it.itl_s.iter().copied())
                .collect(),
            between,
        ),
        ("latency", each(|it| it.end_s - it.scheduled_s), whole),
    ];
    let error = |values, planted| (percentile(values, share) - planted) * 1e3;
    latencies
        .into_iter()
        .map(|(name, values, planted)| (name, error(values, planted)))
        .collect()
}

/// Every request was sent, answered, and recorded once.
fn assert_nothing_dropped(requests: &[Request], server: &Server, warm_up: usize) {
    let ids: BTreeSet<u64> = requests.iter().map(|request| request.id).collect();
    assert_eq!(ids.len(), requests.len());
    assert_eq!(ids.last().map(|last| last + 1), Some(requests.len() as u64));
    assert_eq!(server.asked().len(), requests.len() + warm_up);
    for request in requests {
        assert_eq!((request.status, &request.error), (Status::Ok, &None));
        assert_eq!(
            (request.prompt_tokens, request.output_tokens),
            (11, TOKENS.into())
        );
        assert_eq!(request.itl_s.len(), TOKENS as usize - 1);
        assert!(request.scheduled_s <= request.start_s);
    }
}

/// The bar of the load generator at a tenth of its rate, with medians within 2 ms instead of 1 and no bound for the tail:
/// other tests use the same cores. That no latency is shorter than planted holds on any machine.
#[test]
fn planted_latencies_are_measured() {
    let server = Server::start(planted);
    let run = Run::of(
        &server,
        &["--rate", "200", "--duration", "3s", "--nvml-period", "0"],
    );
    let (header, requests) = run.level("open-200");
    assert_eq!(
        (header.mode, header.rate, header.concurrency),
        (Mode::Open, Some(200.0), None)
    );
    assert_eq!(
        (header.model.as_deref(), header.url),
        (Some("fake"), Some(server.url()))
    );
    // 600 are expected, and scatter by √600 = 24.
    assert!((500..700).contains(&requests.len()), "{}", requests.len());
    assert_nothing_dropped(&requests, &server, 1);
    for (name, error) in errors(&requests, 0.5) {
        assert!(error.abs() < 2.0, "{name}: {error} ms");
    }
    assert!(
        requests
            .iter()
            .all(|request| ttft(request) >= TTFT.as_secs_f64())
    );
}

#[test]
fn an_https_server_is_measured_if_its_authority_is_trusted() {
    let server = Server::start(planted);
    let url = fake_server::tls::front(&server);
    let folder = tempfile::tempdir().expect("there is room");
    let arguments = ["--rate", "20", "--duration", "1", "--warmup", "0"];
    let run = |name: &str, authority: &Path| {
        let mut command = command(&url, &folder.path().join(name), &arguments);
        command
            .env("SSL_CERT_FILE", authority)
            .output()
            .expect("starts")
    };
    let trusted = run("trusted", &fake_server::tls::certificate());
    let said = String::from_utf8_lossy(&trusted.stderr);
    assert_eq!(trusted.status.code(), Some(0), "{said}");
    let (_, requests) = read(&folder.path().join("trusted/serving/open-20.jsonl"));
    assert!(requests.len() >= 15, "{} requests", requests.len());
    assert!(requests.iter().all(|request| request.status == Status::Ok));
    assert!(
        requests
            .iter()
            .all(|request| ttft(request) >= TTFT.as_secs_f64())
    );
    // Without an authority, no server is trusted.
    let empty = folder.path().join("empty.pem");
    fs::write(&empty, "").expect("there is room");
    assert_eq!(run("untrusted", &empty).status.code(), Some(125));
}

/// The bar: `cargo test --release -p rooflens-capture --test serve -- --ignored --nocapture`, with nothing else running:
/// server and generator share the machine. `docs/performance.md` has what was measured.
#[test]
#[allow(clippy::print_stdout)]
#[ignore = "needs two cores of its own and an optimized build"]
fn two_thousand_requests_a_second_are_measured_to_a_millisecond() {
    let server = Server::start(planted);
    let seconds = std::env::var("SERVE_SECONDS").unwrap_or_else(|_| "10".to_owned());
    let lengths = [
        "--prompt-tokens",
        "64",
        "--nvml-period",
        "0",
        "--duration",
        &seconds,
    ];
    let run = Run::of(&server, &[&["--rate", "2000"], &lengths[..]].concat());
    let (_, requests) = run.level("open-2000");
    assert_nothing_dropped(&requests, &server, 1);
    println!(
        "{} requests, {} in flight at most",
        requests.len(),
        server.most_in_flight()
    );
    let late: Vec<f64> = server
        .late()
        .iter()
        .map(|late| late.as_secs_f64() * 1e3)
        .collect();
    let of = |share| percentile(late.clone(), share);
    println!(
        "the server itself is late by {:.3} ms at P50, {:.3} ms at P99",
        of(0.5),
        of(0.99)
    );
    let shares = [0.5, 0.99, 0.999].map(|share| (share, errors(&requests, share)));
    for (share, errors) in &shares {
        errors
            .iter()
            .for_each(|(name, error)| println!("P{}: {name}: {error:+.3} ms", share * 100.0));
    }
    for (share, errors) in &shares[..2] {
        for (name, error) in errors {
            // What is planted is what the server keeps.
            let bound = 1.0 + of(*share);
            assert!(
                -1.0 < *error && *error < bound,
                "P{}: {name}: {error} ms",
                share * 100.0
            );
        }
    }
}

/// A server that stands still for 1 s answers whatever was due in this second at its end: what is due `x` s after the
/// stall began waits 1 − x s. At 100 requests a second about 100 of them are hit, and
/// their mean latency is 0.51 s. A generator that waits for answers would have sent one of them.
#[test]
fn a_stall_is_in_the_latencies_of_all_that_was_due_in_it() {
    let service = Duration::from_millis(10);
    let server = Server::start(move |asked| {
        let stall = if asked.index == 101 {
            Duration::from_secs(1)
        } else {
            Duration::ZERO
        };
        Script {
            stall,
            ..Script::tokens(service, Duration::ZERO, 1)
        }
    });
    let run = Run::of(
        &server,
        &["--rate", "100", "--duration", "3s", "--nvml-period", "0"],
    );
    let (_, requests) = run.level("open-100");
    // One request of the warm-up came before.
    let begin = requests[100].start_s;
    let hit: Vec<&Request> = requests
        .iter()
        .filter(|request| (begin..begin + 0.97).contains(&request.scheduled_s))
        .collect();
    // 97 are expected and scatter by 10.
    assert!((60..140).contains(&hit.len()), "{}", hit.len());
    for request in &hit {
        let expected = begin + 1.0 - request.scheduled_s;
        let latency = request.end_s - request.scheduled_s;
        assert!(latency >= expected, "{request:?} waited for {expected} s");
        assert!(
            latency < expected + 0.01 + 0.1,
            "{request:?} waited for {expected} s"
        );
        // The schedule does not wait.
        assert!(request.start_s - request.scheduled_s < 0.1, "{request:?}");
    }
    let mean = hit.iter().map(|it| it.end_s - it.scheduled_s).sum::<f64>() / hit.len() as f64;
    // Uniform from 0.04 to 1.01 s: its mean 0.525 scatters by 0.28 ÷ √97 = 0.03.
    assert!((0.41..0.66).contains(&mean), "{mean}");
}

/// Four clients and 40 + 7 × 10 ms for each answer: 4 ÷ 0.11 = 36 requests a second, never more than 4 at once.
#[test]
fn a_closed_loop_keeps_its_number_of_requests_in_flight() {
    let server = Server::start(planted);
    let arguments = ["--concurrency", "1,4", "--duration", "2s", "--threads", "2"];
    let run = Run::of(&server, &[&arguments[..], &["--warmup", "0"]].concat());
    let (one, alone) = run.level("closed-1");
    assert_eq!(
        (one.mode, one.rate, one.concurrency),
        (Mode::Closed, None, Some(1))
    );
    assert!((10..=19).contains(&alone.len()), "{}", alone.len());
    let (_, requests) = run.level("closed-4");
    assert!((40..=76).contains(&requests.len()), "{}", requests.len());
    assert_eq!(server.most_in_flight(), 4);
    assert!(requests.iter().all(|request| request.status == Status::Ok));
    assert_eq!(server.asked().len(), alone.len() + requests.len());
}

#[test]
fn two_thousand_connections_are_open_at_once() {
    let server = Server::start(|_| Script::tokens(Duration::from_secs(2), ITL, 1));
    let arguments = [
        "--concurrency",
        "2000",
        "--requests",
        "2000",
        "--prompt-tokens",
        "8",
    ];
    let run = Run::of(&server, &[&arguments[..], &["--warmup", "0"]].concat());
    let (_, requests) = run.level("closed-2000");
    assert_eq!(requests.len(), 2000);
    assert!(requests.iter().all(|request| request.status == Status::Ok));
    assert!(
        server.most_in_flight() >= 1900,
        "{}",
        server.most_in_flight()
    );
}

/// What goes wrong, in turn, and what is said of it.
fn faults() -> Vec<(Script, &'static str)> {
    let whole = |text: &str| Script::one(text.as_bytes().to_vec(), End::Keep);
    let echo = format!("the key {KEY} is wrong");
    let refused = format!(
        "HTTP/1.1 429 Too Many Requests\r\nContent-Length: {}\r\n\r\n{echo}",
        echo.len()
    );
    let stream = |events: &[u8], end| {
        let mut bytes = HEAD.as_bytes().to_vec();
        bytes.extend(format!("{:x}\r\n", events.len()).bytes());
        bytes.extend(events);
        bytes.extend(b"\r\n0\r\n\r\n");
        Script::one(bytes, end)
    };
    let token = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
    let cut = |end| Script::one([HEAD.as_bytes(), &chunk(token)].concat(), end);
    let drip = |answer: Script| {
        let bytes: Vec<u8> = answer
            .steps
            .into_iter()
            .flat_map(|(_, bytes)| bytes)
            .collect();
        let steps = (0..)
            .zip(bytes)
            .map(|(at, byte)| (Duration::from_micros(at * 200), vec![byte]));
        Script {
            steps: steps.collect(),
            ..Script::default()
        }
    };
    let silent = Script {
        steps: vec![(Duration::from_secs(60), Vec::new())],
        ..Script::default()
    };
    let slow = Script {
        steps: vec![
            (Duration::ZERO, HEAD.into()),
            (Duration::from_secs(60), vec![]),
        ],
        ..Script::default()
    };
    vec![
        (whole(&refused), "HTTP 429"),
        (
            whole("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
            "HTTP 500",
        ),
        (
            cut(End::Close),
            "the connection was closed before the answer ended",
        ),
        (
            cut(End::Reset),
            "connection: Connection reset by peer (os error 104)",
        ),
        (
            Script::one(Vec::new(), End::Close),
            "the connection was closed before the answer ended",
        ),
        (whole("SSH-2.0-OpenSSH\r\n"), "not HTTP: no status line"),
        (
            stream(b"data: {\"choices\":[{\"text\":\"\xff\"}]}\n\n", End::Keep),
            "not an event stream of tokens: an event that is not the API's JSON",
        ),
        (
            stream(b"data: {\"choices\"\n\n", End::Keep),
            "not an event stream of tokens: an event that is not the API's JSON",
        ),
        (
            stream(&vec![b'x'; 3 << 20], End::Keep),
            "not an event stream of tokens: a line of more than 1 MiB",
        ),
        (
            stream(
                b"data: {\"error\":{\"message\":\"out of memory\"}}\n\n",
                End::Keep,
            ),
            "the server reported an error in the stream",
        ),
        (
            stream(b"data: [DONE]\n\n", End::Keep),
            "no token before the end",
        ),
        (
            stream(token.as_bytes(), End::Keep),
            "not an event stream of tokens: it has no end",
        ),
        (
            whole("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
            "not an event stream of tokens: it has no end",
        ),
        (silent, "timeout"),
        (slow, "timeout"),
        (drip(Script::tokens(ITL, ITL, 3)), ""),
        (
            planted(&Asked {
                index: 0,
                head: String::new(),
                body: String::new(),
            }),
            "",
        ),
    ]
}

#[test]
fn what_goes_wrong_is_said_of_each_request() {
    let count = faults().len();
    let server = Server::start(move |asked| {
        faults()
            .into_iter()
            .nth(asked.index)
            .map_or_else(|| planted(asked), |(script, _)| script)
    });
    let requests = count.to_string();
    let arguments = [
        "--concurrency",
        "1",
        "--warmup",
        "0",
        "--timeout",
        "1s",
        "--api-key-env",
        "FAKE_KEY",
    ];
    let run = Run::of(
        &server,
        &[&arguments[..], &["--requests", &requests]].concat(),
    );
    let (_, requests) = run.level("closed-1");
    let said: Vec<&str> = requests
        .iter()
        .map(|it| it.error.as_deref().unwrap_or(""))
        .collect();
    let expected: Vec<&str> = faults().iter().map(|(_, error)| *error).collect();
    assert_eq!(said, expected);
    for request in &requests {
        assert_eq!(request.status == Status::Ok, request.error.is_none());
        assert!(request.end_s >= request.start_s);
    }
    assert!(
        run.said()
            .contains("HTTP 429: the server says: the key ****"),
        "{}",
        run.said()
    );
    assert_secret_free(&run.bundle(), &server);
}

/// Neither the key, which the server has seen, nor a prompt is in any file, nor on the terminal.
fn assert_secret_free(bundle: &Path, server: &Server) {
    let asked = server.asked();
    assert!(asked.iter().all(|it| {
        it.head
            .contains(&format!("Authorization: Bearer {KEY}\r\n"))
    }));
    let body: serde_json::Value = serde_json::from_str(&asked[0].body).expect("JSON");
    let prompt = body["prompt"].as_str().expect("a prompt")[..30].to_owned();
    let mut folders = vec![bundle.to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = String::from_utf8_lossy(&fs::read(&path).expect("readable")).into_owned();
            for secret in [KEY, &prompt] {
                assert!(!text.contains(secret), "{secret} is in {}", path.display());
            }
            files += 1;
        }
    }
    assert!(files > 3, "{files} files");
}

/// A connection that the server closes after its answer, without saying so, costs no request.
#[test]
fn connections_that_the_server_gave_up_are_opened_again() {
    let server = Server::start(|asked| {
        let answer = Script::tokens(ITL, ITL, 1);
        // Of two requests the first is answered, the second finds a connection that is closed unanswered.
        if asked.index % 3 == 1 {
            Script::one(Vec::new(), End::Close)
        } else {
            answer
        }
    });
    let run = Run::of(
        &server,
        &["--concurrency", "1", "--requests", "9", "--warmup", "0"],
    );
    let (_, requests) = run.level("closed-1");
    assert!(
        requests.iter().all(|request| request.status == Status::Ok),
        "{requests:?}"
    );
    // Of each three that the server saw two were answered.
    assert_eq!((requests.len(), server.asked().len()), (9, 13));
}

/// The time in the first line of a snapshot, before what the server said.
fn scraped_at(path: &Path) -> f64 {
    let text = fs::read_to_string(path).expect("is there");
    let (comment, metrics) = text.split_once('\n').expect("two lines");
    assert_eq!(metrics, METRICS);
    comment
        .strip_prefix("# scraped_at ")
        .and_then(|time| time.parse().ok())
        .expect(comment)
}

#[test]
fn a_bundle_has_results_metrics_and_a_manifest() {
    let server = Server::start(planted);
    let dataset = tempfile::NamedTempFile::new().expect("there is room");
    fs::write(
        dataset.path(),
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
    )
    .expect("ok");
    let path = dataset.path().to_str().expect("text");
    let arguments = [
        "--rate",
        "20,40.5",
        "--duration",
        "1500ms",
        "--chat",
        "--dataset",
        path,
    ];
    let run = Run::of(
        &server,
        &[
            &arguments[..],
            &[
                "--name",
                "load",
                "--label",
                "a=b",
                "--label",
                "block_size=32",
            ],
        ]
        .concat(),
    );
    let header = run.level("open-20").0;
    assert_eq!(header.engine.as_deref(), Some("vLLM 0.10.1"));
    let settings: Vec<(&str, &str)> = header
        .settings
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect();
    // Of the server, of the user, and of both: the user's wins. The blocks are counted anew at each start.
    assert_eq!(
        settings,
        [("a", "b"), ("block_size", "32"), ("max_model_len", "4096")]
    );
    let requests = [run.level("open-20").1.len(), run.level("open-40.5").1.len()];
    assert_eq!(server.asked().len(), 1 + requests.iter().sum::<usize>());
    for asked in server.asked() {
        assert!(
            asked
                .head
                .starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
            "{}",
            asked.head
        );
        let body: serde_json::Value = serde_json::from_str(&asked.body).expect("JSON");
        assert_eq!(body["messages"][0]["content"], "hi");
        assert_eq!(body["stream_options"]["include_usage"], true);
    }
    let manifest = fs::read(run.bundle().join("manifest.json")).expect("is there");
    let manifest = Manifest::from_json(&manifest).expect("valid");
    assert_eq!(
        (manifest.name.as_str(), manifest.labels["a"].as_str()),
        ("load", "b")
    );
    let pass = manifest
        .passes
        .iter()
        .find(|pass| pass.id == "serving")
        .expect("a pass");
    assert_eq!((pass.kind, pass.exit_code), (PassKind::Serving, Some(0)));
    let of = |kind| {
        let artifacts = manifest
            .artifacts
            .iter()
            .filter(move |artifact| artifact.kind == kind);
        artifacts
            .map(|artifact| artifact.path.as_str())
            .collect::<Vec<&str>>()
    };
    let results = ["serving/open-20.jsonl", "serving/open-40.5.jsonl"];
    assert_eq!(of(ArtifactKind::Serving), results);
    let snapshots = of(ArtifactKind::ServerMetrics);
    let times: Vec<f64> = snapshots
        .iter()
        .map(|path| scraped_at(&run.bundle().join(path)))
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    for moment in [
        "00000-open-20-before.prom",
        "00001-open-20.prom",
        "-open-40.5-after.prom",
    ] {
        assert!(
            snapshots.iter().any(|path| path.ends_with(moment)),
            "{moment} in {snapshots:?}"
        );
    }
    let again = command(&server.url(), &run.bundle(), &["--rate", "1"])
        .output()
        .expect("starts");
    assert_eq!(again.status.code(), Some(125));
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let server = Server::start(planted);
    let folder = tempfile::tempdir().expect("there is room");
    let bundle = folder.path().join("run");
    let arguments = [
        "--rate",
        "100,200",
        "--duration",
        "60s",
        "--nvml-period",
        "0",
    ];
    let child = command(&server.url(), &bundle, &arguments)
        .spawn()
        .expect("starts");
    let start = Instant::now();
    while server.asked().len() < 100 {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "it sends nothing"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .expect("there is kill")
            .success()
    );
    let output = child.wait_with_output().expect("ends");
    assert_eq!(
        output.status.code(),
        Some(130),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(start.elapsed() < Duration::from_secs(30));
    let (_, requests) = read(&bundle.join("serving/open-100.jsonl"));
    let (whole, cut): (Vec<_>, Vec<_>) = requests.iter().partition(|it| it.status == Status::Ok);
    assert!(whole.len() >= 60, "{}", whole.len());
    assert!(
        cut.iter()
            .all(|request| request.error.as_deref() == Some("interrupted"))
    );
    assert!(!bundle.join("serving/open-200.jsonl").exists());
    let manifest = fs::read(bundle.join("manifest.json")).expect("is there");
    let manifest = Manifest::from_json(&manifest).expect("valid");
    let pass = manifest
        .passes
        .iter()
        .find(|pass| pass.id == "serving")
        .expect("a pass");
    assert!(
        pass.notes.contains(&"interrupted".to_owned()),
        "{:?}",
        pass.notes
    );
}

#[test]
fn wrong_arguments_say_what_to_do() {
    let server = Server::start(|_| {
        let answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 8\r\n\r\nno model";
        Script::one(answer.as_bytes().to_vec(), End::Keep)
    });
    let folder = tempfile::tempdir().expect("there is room");
    let bundle = folder.path().join("run");
    let damaged = folder.path().join("prompts.jsonl");
    fs::write(&damaged, "{\"prompt\": \"a\"}\n{\"prompt\": ").expect("writable");
    let url = server.url();
    let secret = url.replace("127", "me:hunter2@127");
    for (url, arguments, expected) in [
        (
            url.as_str(),
            &["--rate", "1"][..],
            "no request of the warm-up was answered: HTTP 404",
        ),
        (
            &url,
            &["--rate", "1"],
            "HTTP 404: the server says: no model",
        ),
        (&url, &[], "--rate"),
        (
            &url,
            &["--rate", "1", "--concurrency", "1"],
            "cannot be used with",
        ),
        (&url, &["--rate", "1,2,1.0"], "open-1 is asked for twice"),
        (&url, &["--rate", "0"], "expected requests a second"),
        (
            &url,
            &["--rate", "1", "--prompt-tokens", "uniform:9-3"],
            "A not above B",
        ),
        (
            &url,
            &["--rate", "1", "--dataset", damaged.to_str().expect("text")],
            "line 2",
        ),
        (
            &url,
            &["--rate", "1", "--api-key-env", "NO_SUCH_KEY"],
            "NO_SUCH_KEY of --api-key-env",
        ),
        (
            "http://127.0.0.1:1/v1",
            &["--rate", "1"],
            "start the server, or correct --url",
        ),
        (
            "https://127.0.0.1:1/v1",
            &["--rate", "1"],
            "start the server, or correct --url",
        ),
        (&secret, &["--rate", "1"], "give a key by --api-key-env"),
    ] {
        let output = command(url, &bundle, arguments).output().expect("starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
        assert!(!bundle.exists(), "{arguments:?} leaves a bundle");
    }
}
