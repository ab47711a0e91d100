//! Sessions written as text.
//!
//! A test states a few events whose times a reader can add up mentally. As rows of tables these times would
//! disappear between field names and ids, so `trace` reads them from lines such as these:
//!
//! ```text
//! range decode 0..300                                  // nanoseconds, or `us`
//! launch 0..5 -> gemm 10..100                          // cudaLaunchKernel, and the kernel that it launches
//! cudaMemcpyAsync 20..30 -> memcpy HtoD pinned 1MiB 130..140
//! cudaGraphLaunch 40..45 -> gemm #1 150..160, axpy #2 160..170
//! operator aten::mm [[8,32],[32,16]] c10::Half 50..90
//! operator aten::copy_ [[8,32],[8,32]] float,c10::Half [[32,1],[1,8]] 91..99   // with strides
//! thread 2                                             // the next events are of this thread
//! operator MmBackward0 50..60
//! backward MmBackward0 of aten::mm
//! rank 1                                               // of another process, on its own GPU
//! stream 9: axpy <<<8x2,128>>> 5..7, memset 512B 8..9  // operations without a call
//! ```
//!
//! Further events are `frame`, `os`, `off-cpu`, `overhead` and `sample`. `pass torch operators` opens another pass;
//! a text that does not begin with one describes the timeline `nsys`. An event without a known word is a CUDA call.

use std::mem::take;
use std::ops::Range as Span;

use rooflens_schemas::PassKind;
use rooflens_session::{
    ApiCall, BackwardOperator, Copy, CopyKind, CpuSample, Dim3, Frame, GpuId, Launch, MemoryKind,
    Ns, OffCpuTime, Operator, OperatorId, OsCall, Overhead, PassId, ProcessId, Range, Session,
    StrId, ThreadId,
};

use super::{api_call, launch, operator, range};

type Parsed<T = ()> = Result<T, String>;

/// The session that a text describes. A fault of the text panics with its line.
#[track_caller]
pub fn trace(text: &str) -> Session {
    parse(text).unwrap_or_else(|fault| panic!("{fault}"))
}

fn parse(text: &str) -> Parsed<Session> {
    let mut trace = Trace::default();
    if !text.trim_start().starts_with("pass ") {
        trace.add_pass("nsys", PassKind::Timeline);
    }
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split("//").next().unwrap_or_default().trim();
        let parsed = trace.line(line);
        parsed.map_err(|fault| format!("line {number}, `{line}`: {fault}"))?;
    }
    Ok(trace.session)
}

/// A session, and where the next event belongs.
#[derive(Default)]
struct Trace {
    session: Session,
    pass: PassId,
    process: ProcessId,
    thread: ThreadId,
    gpu: GpuId,
    stream: u64,
    /// Number of the call that launches the operation.
    correlation: Option<i64>,
}

impl Trace {
    fn line(&mut self, line: &str) -> Parsed {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "" => {}
            "pass" => self.pass(rest)?,
            "rank" => self.rank(number(rest)?),
            "thread" => self.thread = self.session.thread(self.process, number(rest)?),
            "stream" => {
                let (stream, operations) = rest.split_once(':').unwrap_or((rest, ""));
                self.stream = number(stream)?;
                self.correlation = None;
                self.operations(operations)?;
            }
            "range" => self.range(rest)?,
            "operator" => self.operator(rest)?,
            "backward" => self.backward(rest)?,
            "frame" => self.frame(rest)?,
            "os" => self.os_call(rest)?,
            "off-cpu" => self.off_cpu(rest)?,
            "overhead" => self.overhead(rest)?,
            "sample" => self.sample(rest)?,
            _ => self.call(line)?,
        }
        Ok(())
    }

    fn pass(&mut self, text: &str) -> Parsed {
        let kinds = [PassKind::Timeline, PassKind::Operators];
        let pass = text.rsplit_once(' ').and_then(|(name, label)| {
            let kind = kinds.into_iter().find(|kind| kind.label() == label);
            Some((name, kind?))
        });
        let (name, kind) = pass.ok_or("expected `pass NAME timeline` or `pass NAME operators`")?;
        self.add_pass(name, kind);
        Ok(())
    }

    fn add_pass(&mut self, name: &str, kind: PassKind) {
        self.pass = self.session.add_pass(name, kind, "artifact");
        self.stream = 7;
        self.rank(0);
    }

    /// A rank is a process with one GPU.
    fn rank(&mut self, rank: u32) {
        let process = i64::from(rank) + 1;
        self.process = self.session.process(self.pass, process, process);
        self.thread = self.session.thread(self.process, 1);
        self.gpu = self.session.gpu(self.pass, rank);
    }

    fn call(&mut self, text: &str) -> Parsed {
        let (call, operations) = text.split_once(" -> ").unwrap_or((text, ""));
        let (name, time) = self.event(call)?;
        self.correlation = Some(self.session.api_calls.len() as i64);
        let name = match self.session.text(name) {
            "launch" => self.session.intern("cudaLaunchKernel"),
            _ => name,
        };
        self.session.api_calls.push(ApiCall {
            process: self.process,
            thread: self.thread,
            correlation: self.correlation,
            ..api_call(self.pass, name, time)
        });
        self.operations(operations)
    }

    /// Operations end at their times. Commas cannot separate them, because names of kernels hold commas.
    fn operations(&mut self, text: &str) -> Parsed {
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            match time(word.trim_end_matches(',')) {
                Some(time) => self.operation(&take(&mut words), time)?,
                None => words.push(word),
            }
        }
        match words.as_slice() {
            [] => Ok(()),
            words => Err(no_time(&words.join(" "))),
        }
    }

    fn operation(&mut self, words: &[&str], time: Span<i64>) -> Parsed {
        let (words, node) = match words {
            [words @ .., node] if node.starts_with('#') => (words, Some(number(&node[1..])?)),
            _ => (words, None),
        };
        match words {
            [] => return Err("an operation has no name".to_owned()),
            ["memcpy", kind, words @ ..] => {
                self.copy(&format!("memcpy {kind}"), words, node, time)?;
            }
            ["memset", words @ ..] => self.copy("memset", words, node, time)?,
            _ => self.kernel(words, node, time)?,
        }
        Ok(())
    }

    fn copy(
        &mut self,
        kind: &str,
        words: &[&str],
        graph_node: Option<u64>,
        time: Span<i64>,
    ) -> Parsed {
        use CopyKind::{DeviceToDevice, DeviceToHost, HostToDevice, Memset};
        let kind = [HostToDevice, DeviceToHost, DeviceToDevice, Memset]
            .into_iter()
            .find(|known| known.label() == kind)
            .ok_or_else(|| format!("`{kind}` is no kind of memcpy"))?;
        let (mut host, mut bytes) = (MemoryKind::Unknown, 1);
        for word in words {
            match MemoryKind::of_name(word) {
                MemoryKind::Unknown => bytes = size(word)?,
                memory => host = memory,
            }
        }
        let (source, destination) = match kind {
            HostToDevice => (host, MemoryKind::Device),
            DeviceToHost => (MemoryKind::Device, host),
            _ => (MemoryKind::Device, MemoryKind::Device),
        };
        self.session.copies.push(Copy {
            start: Ns(time.start),
            end: Ns(time.end),
            kind,
            bytes,
            source,
            destination,
            pass: self.pass,
            gpu: self.gpu,
            process: self.process,
            stream: self.stream,
            correlation: self.correlation,
            graph_node,
            graph: None,
        });
        Ok(())
    }

    fn kernel(&mut self, words: &[&str], graph_node: Option<u64>, time: Span<i64>) -> Parsed {
        let (name, size) = match words {
            [name @ .., size] if size.starts_with("<<<") => (name, *size),
            _ => (words, "<<<1,1>>>"),
        };
        let (grid, block) = launch_size(size)?;
        let kernel = self.session.kernel(&name.join(" "), "");
        self.session.launches.push(Launch {
            gpu: self.gpu,
            process: self.process,
            stream: self.stream,
            correlation: self.correlation,
            grid,
            block,
            graph_node,
            ..launch(self.pass, kernel, time)
        });
        Ok(())
    }

    fn range(&mut self, text: &str) -> Parsed {
        let (name, time) = self.event(text)?;
        self.session.add_range(Range {
            thread: self.thread,
            ..range(self.pass, name, time)
        });
        Ok(())
    }

    fn operator(&mut self, text: &str) -> Parsed {
        let (text, time) = timed(text)?;
        let (name, inputs) = text.split_once(" [").unwrap_or((text, ""));
        let mut parts = inputs.split(' ');
        let shapes = parts.next().unwrap_or_default();
        let dtypes = parts.next().unwrap_or_default();
        let strides = parts.next().unwrap_or_default();
        let mut texts = [name.to_owned(), String::new(), String::new()];
        if !inputs.is_empty() {
            texts[1] = format!("[{shapes}");
            // One dtype is that of both inputs.
            let dtypes = match dtypes.contains(',') {
                true => dtypes.replace(',', r#"",""#),
                false => format!(r#"{dtypes}","{dtypes}"#),
            };
            texts[2] = format!(r#"["{dtypes}"]"#);
        }
        let strides = self.session.intern(strides);
        let [name, shapes, types] = texts.map(|text| self.session.intern(&text));
        self.session.operators.push(Operator {
            thread: self.thread,
            shapes,
            strides,
            types,
            ..operator(self.pass, name, time)
        });
        Ok(())
    }

    fn backward(&mut self, text: &str) -> Parsed {
        let names = text.split_once(" of ");
        let (operator, forward) = names.ok_or("expected `backward OPERATOR of OPERATOR`")?;
        let row = BackwardOperator {
            operator: self.last_operator(operator)?,
            forward: self.last_operator(forward)?,
        };
        self.session.backward_operators.push(row);
        Ok(())
    }

    fn last_operator(&self, name: &str) -> Parsed<OperatorId> {
        let mut names = self.session.operators.name.iter();
        let row = names.rposition(|operator| self.session.text(*operator) == name);
        row.map(OperatorId::at)
            .ok_or_else(|| format!("no operator `{name}` before"))
    }

    fn frame(&mut self, text: &str) -> Parsed {
        let (name, time) = self.event(text)?;
        self.session.frames.push(Frame {
            start: Ns(time.start),
            end: Ns(time.end),
            name,
            pass: self.pass,
            thread: self.thread,
        });
        Ok(())
    }

    fn os_call(&mut self, text: &str) -> Parsed {
        let (name, time) = self.event(text)?;
        self.session.os_calls.push(OsCall {
            start: Ns(time.start),
            end: Ns(time.end),
            name,
            pass: self.pass,
            thread: self.thread,
        });
        Ok(())
    }

    fn off_cpu(&mut self, text: &str) -> Parsed {
        let time = time(text).ok_or_else(|| no_time(text))?;
        self.session.off_cpu.push(OffCpuTime {
            start: Ns(time.start),
            end: Ns(time.end),
            pass: self.pass,
            thread: self.thread,
        });
        Ok(())
    }

    fn overhead(&mut self, text: &str) -> Parsed {
        let (name, time) = self.event(text)?;
        self.session.overheads.push(Overhead {
            start: Ns(time.start),
            end: Ns(time.end),
            name,
            pass: self.pass,
            process: self.process,
            thread: self.thread,
        });
        Ok(())
    }

    /// A sample of a library and, where it is known, a function.
    fn sample(&mut self, text: &str) -> Parsed {
        let (place, time) = text.rsplit_once(' ').unwrap_or((text, ""));
        let time = nanoseconds(time).ok_or("expected `sample LIBRARY FUNCTION TIME`")?;
        let (library, function) = place.split_once(' ').unwrap_or((place, ""));
        let [library, function] = [library, function].map(|name| self.session.intern(name));
        self.session.cpu_samples.push(CpuSample {
            time: Ns(time),
            function,
            library,
            pass: self.pass,
            thread: self.thread,
        });
        Ok(())
    }

    /// Name and time of an event of the host.
    fn event(&mut self, text: &str) -> Parsed<(StrId, Span<i64>)> {
        let (name, time) = timed(text)?;
        Ok((self.session.intern(name), time))
    }
}

/// A name, and the time at its end.
fn timed(text: &str) -> Parsed<(&str, Span<i64>)> {
    let (name, span) = text.rsplit_once(' ').unwrap_or(("", text));
    let time = time(span).ok_or_else(|| no_time(text))?;
    match name.trim() {
        "" => Err("an event has no name".to_owned()),
        name => Ok((name, time)),
    }
}

fn no_time(text: &str) -> String {
    format!("expected `START..END`, in this order, after `{text}`")
}

fn time(word: &str) -> Option<Span<i64>> {
    let (start, end) = word.split_once("..")?;
    let time = nanoseconds(start)?..nanoseconds(end)?;
    (time.start <= time.end).then_some(time)
}

fn nanoseconds(word: &str) -> Option<i64> {
    let (digits, unit) = match word.strip_suffix("us") {
        Some(digits) => (digits, 1_000),
        None => (word, 1),
    };
    let number: i64 = digits.replace('_', "").parse().ok()?;
    Some(number * unit)
}

fn size(word: &str) -> Parsed<u64> {
    match word.strip_suffix("MiB") {
        Some(number_of_mib) => Ok(number::<u64>(number_of_mib)? << 20),
        None => number(
            word.strip_suffix('B')
                .ok_or("expected a size such as 512B or 1MiB")?,
        ),
    }
}

/// Grid and block, as in `<<<8x2,128>>>`; a block has one thread if it is not stated.
fn launch_size(word: &str) -> Parsed<(Dim3, Dim3)> {
    let size = word
        .strip_prefix("<<<")
        .and_then(|size| size.strip_suffix(">>>"));
    let size = size.ok_or_else(|| format!("expected `<<<GRID,BLOCK>>>` instead of `{word}`"))?;
    let (grid, block) = size.split_once(',').unwrap_or((size, "1"));
    Ok((extent(grid)?, extent(block)?))
}

fn extent(text: &str) -> Parsed<Dim3> {
    let extents: Vec<u32> = text.split('x').map(number).collect::<Parsed<_>>()?;
    match extents.as_slice() {
        [x] => Ok(Dim3 { x: *x, y: 1, z: 1 }),
        [x, y] => Ok(Dim3 { x: *x, y: *y, z: 1 }),
        [x, y, z] => Ok(Dim3 {
            x: *x,
            y: *y,
            z: *z,
        }),
        _ => Err(format!("`{text}` has more than three dimensions")),
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Parsed<T> {
    let number = word.trim().parse();
    number.map_err(|_| format!("`{word}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::{parse, trace};
    use rooflens_schemas::PassKind;
    use rooflens_session::{CopyKind, Dim3, MemoryKind, Ns, Session};

    fn names(session: &Session, ids: &[rooflens_session::StrId]) -> Vec<String> {
        ids.iter().map(|id| session.text(*id).to_owned()).collect()
    }

    #[test]
    fn an_empty_text_is_a_timeline_without_events() {
        let session = trace("");
        assert_eq!(session.passes.kind, [PassKind::Timeline]);
        assert_eq!(names(&session, &session.passes.name), ["nsys"]);
        let hosts = (session.processes.len(), session.threads.len());
        assert_eq!((hosts, session.gpus.len()), ((1, 1), 1));
        assert!(!session.is_measured() && !session.has_host_work());
    }

    #[test]
    fn a_call_and_its_operations_have_one_correlation() {
        let session = trace(
            "cudaMalloc 0..5
             launch 7..9 -> void f<1, 2>(int) <<<8x2,128>>> #3 10..20, memset 512B #4 20..21
             stream 9: gemm -1_000..2us",
        );
        let (calls, launches, copies) = (&session.api_calls, &session.launches, &session.copies);
        assert_eq!(
            names(&session, &calls.name),
            ["cudaMalloc", "cudaLaunchKernel"]
        );
        assert_eq!((calls.start[1], calls.end[1]), (Ns(7), Ns(9)));
        let kernels = [0, 1].map(|row| session.kernel_name(launches.kernel[row]));
        assert_eq!(kernels, ["void f<1, 2>(int)", "gemm"]);
        assert_eq!(launches.correlation, [calls.correlation[1], None]);
        assert_eq!(copies.correlation, [calls.correlation[1]]);
        assert_ne!(calls.correlation[0], calls.correlation[1]);
        assert_eq!(
            (launches.graph_node[0], copies.graph_node[0]),
            (Some(3), Some(4))
        );
        let (grid, block) = (Dim3 { x: 8, y: 2, z: 1 }, Dim3 { x: 128, y: 1, z: 1 });
        assert_eq!((launches.grid[0], launches.block[0]), (grid, block));
        assert_eq!(launches.stream, [7, 9]);
        assert_eq!(
            (launches.start[1], launches.end[1]),
            (Ns(-1_000), Ns(2_000))
        );
    }

    #[test]
    fn a_memcpy_has_a_direction_a_size_and_a_kind_of_host_memory() {
        let session = trace(
            "stream 7: memcpy HtoD pinned 3MiB 0..1, memcpy DtoH pageable 1..2
             stream 7: memcpy DtoD 7B 2..3, memset 3..4",
        );
        let copies = &session.copies;
        use CopyKind::{DeviceToDevice, DeviceToHost, HostToDevice, Memset};
        assert_eq!(
            copies.kind,
            [HostToDevice, DeviceToHost, DeviceToDevice, Memset]
        );
        assert_eq!(copies.bytes, [3 * 1024 * 1024, 1, 7, 1]);
        use MemoryKind::{Device, Pageable, Pinned};
        assert_eq!(copies.source, [Pinned, Device, Device, Device]);
        assert_eq!(copies.destination, [Device, Pageable, Device, Device]);
    }

    #[test]
    fn the_host_s_events_belong_to_the_thread_above_them() {
        let session = trace(
            "range decode 0..9 // the stage
             thread 2
             frame train.py(3): step 1..8
             operator aten::mm [[8,32],[32,16]] c10::Half 2..7
             operator engine: MmBackward0 3..6
             backward engine: MmBackward0 of aten::mm
             os read 4..5
             rank 1
             off-cpu 5..6
             overhead CUPTI Buffer flush 6..7
             sample python3.12 _PyEval 7
             sample libcuda.so.580 8",
        );
        let (ranges, operators) = (&session.ranges, &session.operators);
        assert_eq!((ranges.end[0], ranges.thread[0].0), (Ns(9), 0));
        assert_eq!(names(&session, &session.frames.name), ["train.py(3): step"]);
        assert_eq!(
            names(&session, &operators.name),
            ["aten::mm", "engine: MmBackward0"]
        );
        assert_eq!(names(&session, &operators.shapes), ["[[8,32],[32,16]]", ""]);
        assert_eq!(
            names(&session, &operators.types),
            [r#"["c10::Half","c10::Half"]"#, ""]
        );
        let ties = &session.backward_operators;
        assert_eq!((ties.operator[0].0, ties.forward[0].0), (1, 0));
        assert_eq!(names(&session, &session.os_calls.name), ["read"]);
        let threads = [
            session.frames.thread[0],
            operators.thread[1],
            session.os_calls.thread[0],
        ];
        assert_eq!(threads.map(|thread| thread.0), [1; 3]);
        // The first thread of the second rank.
        assert_eq!(
            (session.off_cpu.thread[0].0, session.off_cpu.end[0]),
            (2, Ns(6))
        );
        assert_eq!(session.overheads.process[0].0, 1);
        let samples = &session.cpu_samples;
        assert_eq!(
            names(&session, &samples.library),
            ["python3.12", "libcuda.so.580"]
        );
        assert_eq!(names(&session, &samples.function), ["_PyEval", ""]);
        assert_eq!(samples.time, [Ns(7), Ns(8)]);
    }

    #[test]
    fn a_rank_is_a_process_with_a_gpu_of_its_pass() {
        let session = trace(
            "pass torch operators
             rank 1
             stream 9: gemm 0..1
             pass nsys timeline
             stream 7: gemm 0..1",
        );
        assert_eq!(
            session.passes.kind,
            [PassKind::Operators, PassKind::Timeline]
        );
        let launches = &session.launches;
        assert_eq!(
            launches.gpu.iter().map(|gpu| gpu.0).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(session.gpus.ordinal, [0, 1, 0]);
        assert_eq!(
            launches.pass.iter().map(|pass| pass.0).collect::<Vec<_>>(),
            [0, 1]
        );
    }

    #[test]
    fn a_faulty_line_is_reported_with_its_number_and_fault() {
        for (text, fault) in [
            (
                "launch 0..5\n\nrange decode 9..0",
                "line 3, `range decode 9..0`: expected `START..END`",
            ),
            ("launch -> gemm 0..1", "after `launch`"),
            ("range 0..1", "an event has no name"),
            ("launch 0..1 -> gemm", "after `gemm`"),
            ("launch 0..1 -> 2..3", "an operation has no name"),
            ("off-cpu 5", "after `5`"),
            ("thread two", "`two` is no number"),
            (
                "stream 7: memcpy HtoX 0..1",
                "`memcpy HtoX` is no kind of memcpy",
            ),
            ("stream 7: memset 5 0..1", "expected a size"),
            (
                "stream 7: gemm <<<1x2x3x4>>> 0..1",
                "more than three dimensions",
            ),
            ("stream 7: gemm <<<8 0..1", "expected `<<<GRID,BLOCK>>>`"),
            ("stream 7: gemm #x 0..1", "`x` is no number"),
            ("backward a of b", "no operator `a` before"),
            ("backward a", "expected `backward OPERATOR of OPERATOR`"),
            ("pass nsys", "expected `pass NAME timeline`"),
            (
                "sample python3.12",
                "expected `sample LIBRARY FUNCTION TIME`",
            ),
        ] {
            let message = parse(text).expect_err(text);
            assert!(message.contains(fault), "{message}");
        }
    }
}
