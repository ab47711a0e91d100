//! A server and its client: the workload is a server, which is ended when the client that loads it has ended.

use std::fs;
use std::io::{Read as _, Stdout, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::child::{Log, tee};
use super::pass::Folders;
use super::{Session, harvest, watch, window};
use crate::error::CaptureError;
use crate::plan::READY_FILE;
use crate::{files, say};

/// Between questions whether the server is ready, whether the client has ended, and for an answer.
const POLL: Duration = Duration::from_millis(200);

/// Signals to a server whose client has ended, and seconds after that: it may write what it has.
const SIGNALS: [(u64, i32); 3] = [(0, libc::SIGINT), (20, libc::SIGTERM), (40, libc::SIGKILL)];

/// A client that is to run.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// A line of shell.
    pub(crate) command: String,
    /// `HOST:PORT/PATH` that answers 200 when the server is ready.
    pub(crate) ready: String,
    pub(crate) variables: Vec<(String, String)>,
    /// Its output.
    pub(crate) log: PathBuf,
    /// Whether the server's command is a profiler's, which must not be ended itself.
    pub(crate) is_profiled: bool,
    /// Folder in which processes of the server say how far their window of steps is; with it the client need not end.
    pub(crate) window: Option<PathBuf>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Served {
    /// Exit code; none if it was ended because all steps of the window were over.
    pub(crate) code: Option<i32>,
    /// Time until the server was ready.
    pub(crate) ready: Duration,
}

/// A client that runs or waits.
pub(super) struct Running {
    stop: Sender<()>,
    thread: JoinHandle<Option<Served>>,
}

impl Running {
    pub(super) fn start(client: &Client, server: u32, logs: [Log; 2]) -> Self {
        let (stop, stopped) = channel();
        let client = client.clone();
        let thread = thread::spawn(move || client.run(server, logs, &stopped));
        Self { stop, thread }
    }

    /// The server has ended. None if the client had not.
    pub(super) fn finish(self) -> Option<Served> {
        let _ = self.stop.send(());
        self.thread.join().unwrap_or(None)
    }
}

impl Client {
    fn run(&self, server: u32, logs: [Log; 2], stopped: &Receiver<()>) -> Option<Served> {
        let start = Instant::now();
        while !answers(&self.ready) {
            goes_on(stopped).then_some(())?;
        }
        let ready = start.elapsed();
        if let Some(folder) = &self.window {
            // Without the file no step counts, and the notes say so.
            let _ = files::write(&folder.join(READY_FILE), "");
        }
        say(&format!(
            "the server is ready after {:.1} s: the client begins",
            ready.as_secs_f64()
        ));
        let served = Served {
            code: self.load(logs, stopped)?,
            ready,
        };
        let begin = Instant::now();
        let mut signals = SIGNALS.into_iter().peekable();
        loop {
            if let Some((_, signal)) =
                signals.next_if(|(after, _)| begin.elapsed().as_secs() >= *after)
            {
                watch::end(server, self.is_profiled, signal);
            }
            if !goes_on(stopped) {
                return Some(served);
            }
        }
    }

    /// Runs the client, and gives its exit code if it ends by itself. None if the server ended before it.
    fn load(&self, [out, err]: [Log; 2], stopped: &Receiver<()>) -> Option<Option<i32>> {
        let child = Command::new("sh")
            .args(["-c", &self.command])
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        let Ok(mut child) = child else {
            return Some(Some(i32::from(crate::FAILED)));
        };
        let _ = child
            .stdout
            .take()
            .map(|from| tee(from, out, None::<Stdout>, None));
        let _ = child
            .stderr
            .take()
            .map(|from| tee(from, err, None::<Stdout>, None));
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(Some(status.code().unwrap_or(1)));
            }
            let is_over = self.window.as_deref().is_some_and(window::is_over);
            let runs = goes_on(stopped);
            if is_over || !runs {
                watch::end(child.id(), false, libc::SIGKILL);
                let _ = child.wait();
                return runs.then_some(None);
            }
        }
    }
}

/// Whether `HOST:PORT/PATH` answers 200.
pub(crate) fn answers(ready: &str) -> bool {
    let (authority, path) = ready.split_once('/').unwrap_or((ready, ""));
    let address = authority
        .to_socket_addrs()
        .ok()
        .and_then(|mut all| all.next());
    let Some(address) = address else { return false };
    let ask = || -> std::io::Result<bool> {
        let mut socket = TcpStream::connect_timeout(&address, POLL)?;
        socket.set_read_timeout(Some(10 * POLL))?;
        write!(socket, "GET /{path} HTTP/1.0\r\nHost: {authority}\r\n\r\n")?;
        let mut answer = [0; 12];
        socket.read_exact(&mut answer)?;
        Ok(answer.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

/// Takes the files of a client, such as the result of a benchmark, with those of folders below.
pub(super) fn results(
    from: &Path,
    to: &Path,
    session: &Session<'_>,
    folders: &Folders,
) -> Result<(), CaptureError> {
    for entry in fs::read_dir(from)
        .map_err(CaptureError::io(from))?
        .flatten()
    {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => results(&path, &to, session, folders)?,
            Ok(kind) if kind.is_file() => {
                files::make(to.parent().unwrap_or(&to))?;
                harvest::take(&path, &to, session, folders)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Where a server says that it is ready, as it is asked; errors say what to write.
pub(crate) fn parse_ready(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("http://").unwrap_or(text);
    let authority = address.split('/').next().unwrap_or_default();
    match authority
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    {
        true => Ok(address.to_owned()),
        false => Err(
            "expected HOST:PORT/PATH, such as localhost:8000/health; https is not asked".to_owned(),
        ),
    }
}

/// Waits a little. Gives whether the server still runs.
fn goes_on(stopped: &Receiver<()>) -> bool {
    stopped.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout)
}
