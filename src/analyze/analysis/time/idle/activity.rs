//! What the host did while the GPU was idle, as far as names of marks, calls and ranges tell it.

use rooflens_schemas::ranges::{DATA_LOADER, is_compilation};
use rooflens_session::{Session, StrId};

use super::cause::Cause;
use super::open::{NOTHING, Open, PathId, Source};

/// What the host did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// It compiled: Dynamo, Inductor, Triton, NVRTC.
    Compilation,
    /// It captured a stream into a CUDA graph, or instantiated one.
    GraphCapture,
    /// It wrote a checkpoint.
    Checkpoint,
    /// It waited for, or prepared, a batch of a data loader.
    DataLoader,
    /// It collected garbage.
    GarbageCollection,
    /// It returned cached memory of the allocator to the driver.
    EmptyCache,
    /// It ran the model with inputs of a shape for the first time.
    NewShape,
    /// It chose or built kernels of cuDNN for a problem, within an operator of PyTorch.
    KernelPlans,
    /// It loaded or linked GPU code.
    CodeLoading,
    /// It created a context, stream, event, or the handle of a library.
    Creation,
    /// It allocated or freed memory.
    Allocation,
    /// It waited for a result of the GPU, or did with an empty queue what follows.
    Synchronization,
    /// It waited for a copy that blocks.
    BlockingCopy,
    /// It slept, or polled.
    Sleep,
    /// It read or wrote files, or printed.
    Files,
    /// It waited for a client, such as the next request.
    Input,
    /// It was in other calls of the operating system, or on no CPU.
    System,
    /// It ran the profiler.
    Profiler,
    /// It ran code of its own between CUDA calls.
    HostCode,
    /// It issued work.
    Launching,
    /// It had issued the work, or nothing says what it did.
    NotHost,
}

impl Activity {
    /// The words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Compilation => "compilation",
            Self::GraphCapture => "graph capture",
            Self::Checkpoint => "checkpoint",
            Self::DataLoader => "data loader",
            Self::GarbageCollection => "garbage collection",
            Self::EmptyCache => "empty_cache",
            Self::NewShape => "new shape",
            Self::KernelPlans => "kernel plans",
            Self::CodeLoading => "code loading",
            Self::Creation => "creation of contexts and handles",
            Self::Allocation => "allocation",
            Self::Synchronization => "synchronization",
            Self::BlockingCopy => "blocking copy",
            Self::Sleep => "sleep",
            Self::Files => "files",
            Self::Input => "waiting for input",
            Self::System => "operating system",
            Self::Profiler => "profiler",
            Self::HostCode => "host code",
            Self::Launching => "launching",
            Self::NotHost => "not the host",
        }
    }

    /// What the host does in a time of this cause, if no name says more.
    pub const fn of_cause(cause: Cause) -> Self {
        match cause {
            Cause::Launching => Self::Launching,
            Cause::HostCode => Self::HostCode,
            Cause::FirstUse => Self::CodeLoading,
            Cause::Sync => Self::Synchronization,
            Cause::Allocator => Self::Allocation,
            Cause::Copy => Self::BlockingCopy,
            Cause::Os | Cause::OffCpu => Self::System,
            Cause::Profiler => Self::Profiler,
            Cause::Communication | Cause::Queue | Cause::OtherWork | Cause::Unknown => {
                Self::NotHost
            }
        }
    }

    /// Whether it says why the host was late; others say only that it was.
    pub const fn is_named(self) -> bool {
        !matches!(
            self,
            Self::CodeLoading
                | Self::Creation
                | Self::KernelPlans
                | Self::NewShape
                | Self::Allocation
                | Self::System
                | Self::Profiler
                | Self::HostCode
                | Self::Launching
                | Self::NotHost
        )
    }

    /// Whether all that happens within it belongs to it.
    pub(super) const fn holds_all(self) -> bool {
        matches!(
            self,
            Self::Compilation
                | Self::GraphCapture
                | Self::Checkpoint
                | Self::DataLoader
                | Self::GarbageCollection
                | Self::EmptyCache
        )
    }

    /// Whether code around it, which no mark covers, serves it: guards of a compiler, the dictionaries of a checkpoint,
    /// the choice of the kernel whose code is loaded.
    pub(super) const fn has_surroundings(self) -> bool {
        matches!(
            self,
            Self::Compilation | Self::GraphCapture | Self::Checkpoint | Self::CodeLoading
        )
    }

    /// Whether operations that it issues go with it.
    pub(super) const fn issues_work(self) -> bool {
        matches!(
            self,
            Self::Compilation | Self::GraphCapture | Self::Checkpoint | Self::KernelPlans
        )
    }

    /// Whether the host prepares kernels.
    pub(super) const fn prepares(self) -> bool {
        matches!(self, Self::NewShape | Self::KernelPlans | Self::CodeLoading)
    }

    /// Whether it belongs to a plan if the host prepares kernels in the same gap: a wait does not.
    pub(super) const fn is_of_plan(self) -> bool {
        self.is_of_shape() && !matches!(self, Self::Synchronization)
    }

    /// Whether a first call with a shape, or the choice of a kernel, explains it.
    const fn is_of_shape(self) -> bool {
        matches!(
            self,
            Self::CodeLoading
                | Self::Creation
                | Self::Allocation
                | Self::Synchronization
                | Self::Files
                | Self::HostCode
        )
    }
}

/// Marks of the injected modules by how they begin.
const MARKS: [(&str, Activity); 18] = [
    ("compile ", Activity::Compilation),
    ("triton compile", Activity::Compilation),
    ("cuda graph capture", Activity::GraphCapture),
    ("torch.save", Activity::Checkpoint),
    (DATA_LOADER, Activity::DataLoader),
    ("gc generation", Activity::GarbageCollection),
    ("empty_cache", Activity::EmptyCache),
    ("new shape", Activity::NewShape),
    ("item", Activity::Synchronization),
    ("tolist", Activity::Synchronization),
    ("nonzero", Activity::Synchronization),
    ("index", Activity::Synchronization),
    ("masked_select", Activity::Synchronization),
    ("equal", Activity::Synchronization),
    ("cpu", Activity::Synchronization),
    ("bool", Activity::Synchronization),
    ("int", Activity::Synchronization),
    ("float", Activity::Synchronization),
];

/// Operators of PyTorch that wait for the GPU if their tensors are there.
const SYNCHRONIZING: [&str; 6] = [
    "aten::item",
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::is_nonzero",
    "aten::equal",
];

/// The operator that counts the elements of a mask, and those that call it if an index is a mask.
const COUNTS: &str = "aten::nonzero";
const INDEXES: [&str; 3] = ["aten::index", "aten::index_put_", "aten::index_put"];

/// Parts of the names of operators that run kernels of cuDNN, or of MIOpen.
const CUDNN: [&str; 2] = ["cudnn_", "miopen_"];

/// Parts of the names of CUDA calls, and what the host does in them. The first that fits counts.
const CALLS: [(&str, Activity); 12] = [
    ("StreamBeginCapture", Activity::GraphCapture),
    ("StreamEndCapture", Activity::GraphCapture),
    ("GraphInstantiate", Activity::GraphCapture),
    ("GraphExecDestroy", Activity::GraphCapture),
    ("ModuleLoad", Activity::CodeLoading),
    ("ModuleUnload", Activity::CodeLoading),
    ("Library", Activity::CodeLoading),
    ("Link", Activity::CodeLoading),
    ("CtxCreate", Activity::Creation),
    ("PrimaryCtx", Activity::Creation),
    ("StreamCreate", Activity::Creation),
    ("nvrtc", Activity::Compilation),
];

/// Calls of the operating system in which a thread sleeps until time has passed.
const SLEEPS: [&str; 6] = [
    "nanosleep",
    "clock_nanosleep",
    "usleep",
    "sleep",
    "select",
    "sched_yield",
];

/// Calls that read, write or look up files, or print.
const FILES: [&str; 32] = [
    "printf",
    "fprintf",
    "vprintf",
    "vfprintf",
    "puts",
    "fputs",
    "putchar",
    "fputc",
    "fsync",
    "fdatasync",
    "sync",
    "syncfs",
    "read",
    "pread",
    "pread64",
    "readv",
    "write",
    "pwrite",
    "pwrite64",
    "writev",
    "open",
    "open64",
    "openat",
    "openat64",
    "close",
    "fopen",
    "fopen64",
    "fclose",
    "fwrite",
    "fread",
    "fflush",
    "rename",
];

/// Calls in which a server waits for events of its clients.
const INPUT: [&str; 5] = [
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "accept",
    "accept4",
];

/// Calls in which a thread waits for another one.
const WAITS: [&str; 10] = [
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "pthread_mutex_lock",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "futex",
    "pthread_join",
    "pthread_rwlock_rdlock",
];

/// What the paths of a session say of the host.
pub(super) struct Activities {
    /// By path; that of the path on which nothing is open comes first.
    paths: Vec<Option<Activity>>,
    /// What explains the preparation of kernels, by path.
    shapes: Vec<Option<Activity>>,
}

impl Activities {
    /// Reads the names of all paths.
    pub(super) fn new(session: &Session, open: &Open) -> Self {
        let mut activities = Self {
            paths: vec![None],
            shapes: vec![None],
        };
        for (_, node) in open.nodes() {
            let around = activities.paths[node.parent as usize];
            let of_source = of_source(session, node.source);
            let is_new = of_source == Some(Activity::NewShape);
            let inner = of_source.filter(|_| !is_new).or(around);
            let path = around.filter(|around| around.holds_all()).or(inner);
            activities.paths.push(path);
            let shapes = match is_new {
                true => of_source,
                false => of_cudnn(session, node.source),
            };
            let around = activities.shapes[node.parent as usize];
            activities.shapes.push(shapes.or(around));
        }
        activities
    }

    /// What the host did in a time of one cause with a path open.
    pub(super) fn of(&self, cause: Cause, path: PathId) -> Activity {
        let by_cause = Activity::of_cause(cause);
        if matches!(by_cause, Activity::NotHost | Activity::Profiler) {
            return by_cause;
        }
        let activity = self.paths[path as usize].unwrap_or(by_cause);
        match self.shapes[path as usize] {
            Some(shape) if activity.is_of_shape() => shape,
            _ => activity,
        }
    }
}

/// What the name of a source says.
fn of_source(session: &Session, source: Source) -> Option<Activity> {
    let name = session.text(source.name());
    let begins =
        |(start, activity): &(&str, Activity)| name.starts_with(start).then_some(*activity);
    match source {
        Source::Mark(_) => MARKS.iter().find_map(begins).or_else(|| of_wait(name)),
        Source::Range(_) | Source::Operator(_) if name.starts_with(DATA_LOADER) => {
            Some(Activity::DataLoader)
        }
        Source::Range(_) | Source::Operator(_) if is_compilation(name) => {
            Some(Activity::Compilation)
        }
        Source::Range(_) | Source::Operator(_) | Source::Frame(_) => None,
        Source::Call(_) => {
            let mut calls = CALLS.iter();
            calls.find_map(|(part, activity)| name.contains(part).then_some(*activity))
        }
        Source::OsCall(_) if SLEEPS.contains(&name) => Some(Activity::Sleep),
        Source::OsCall(_) if FILES.contains(&name) => Some(Activity::Files),
        Source::OsCall(_) if INPUT.contains(&name) => Some(Activity::Input),
        Source::OsCall(_) => None,
    }
}

/// Operators of PyTorch that run kernels of cuDNN choose and build them, too.
fn of_cudnn(session: &Session, source: Source) -> Option<Activity> {
    let is_cudnn = matches!(source, Source::Operator(_)) && {
        let name = session.text(source.name());
        CUDNN.iter().any(|part| name.contains(part))
    };
    is_cudnn.then_some(Activity::KernelPlans)
}

/// Marks of calls whose names say that they wait: `cuda.synchronize`, `Event.synchronize`.
fn of_wait(name: &str) -> Option<Activity> {
    name.contains("synchronize")
        .then_some(Activity::Synchronization)
}

/// Whether a thread that is in this source waits for another thread.
pub(super) fn is_wait(session: &Session, source: Source) -> bool {
    match source {
        Source::OsCall(name) => WAITS.contains(&session.text(name)),
        _ => false,
    }
}

/// The name that says what the host did: of the innermost mark or source that decides the activity.
pub(super) fn subject(
    session: &Session,
    open: &Open,
    path: PathId,
    activity: Activity,
) -> Option<StrId> {
    if path == NOTHING {
        return None;
    }
    let mut sources = open.sources(path);
    let operator = |source: &Source, names: &[&str]| {
        matches!(source, Source::Operator(_)) && names.contains(&session.text(source.name()))
    };
    let decision =
        |source: &Source| of_source(session, *source).or_else(|| of_cudnn(session, *source));
    let decides = |source: &Source| {
        decision(source) == Some(activity)
            // An operator decides nothing, as tensors of the CPU have the same ones.
            || activity == Activity::Synchronization && operator(source, &SYNCHRONIZING)
    };
    let deciding = sources.find(decides).map(|source| {
        let mut indexes = sources.filter(|around| operator(around, &INDEXES));
        let index = indexes.next().filter(|_| operator(&source, &[COUNTS]));
        index.unwrap_or(source)
    });
    // A plan is known by the kernel that waits for it: what was open only names it.
    let mut sources = open
        .sources(path)
        .filter(|_| activity == Activity::KernelPlans);
    let planning = || sources.find(|source| decision(source).is_some_and(Activity::prepares));
    // Calls that allocate are known by their cause.
    let mut sources = open
        .sources(path)
        .filter(|_| activity == Activity::Allocation);
    let call = || sources.find(|source| matches!(source, Source::Call(_)));
    deciding.or_else(planning).or_else(call).map(Source::name)
}
