//! NVTX ranges, so that profilers can tell the cases of a benchmark apart.
//!
//! Version 3 of NVTX has no library: a program loads what the profiler names in `NVTX_INJECTION64_PATH` and hands it
//! tables of places into which the profiler writes its functions. This is that protocol, as NVIDIA's headers
//! `nvtxImpl.h` and `nvtxTypes.h` state it. We call two of the functions; without a profiler nothing happens.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::mem::{size_of, transmute};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

type Function = AtomicPtr<c_void>;

/// How many functions a module has, counting number 0, which is none: modules 1 to 6 are the core, the CUDA driver,
/// OpenCL, the CUDA runtime, domains and synchronization.
const SIZES: [usize; 6] = [16, 9, 15, 7, 16, 7];
const MOST: usize = 16;

/// Places for the functions of each module, by number; a profiler writes through the pointers in [`Table`].
static PLACES: [[Function; MOST]; 6] =
    [const { [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST] }; 6];

const RANGE_PUSH_A: usize = 9;
const RANGE_POP: usize = 11;

/// Pointers to the places of a module, ended by null.
#[derive(Clone, Copy)]
struct Table([*const Function; MOST + 1]);
// SAFETY: the pointers lead to statics.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

static TABLES: OnceLock<[Table; 6]> = OnceLock::new();

#[repr(C)]
struct Callbacks {
    size: usize,
    table: extern "C" fn(c_uint, *mut *const *const Function, *mut c_uint) -> c_int,
}

#[repr(C)]
struct Version {
    size: usize,
    version: u32,
    reserved: u32,
    set_injection: extern "C" fn(u32),
}

static CALLBACKS: Callbacks = Callbacks {
    size: size_of::<Callbacks>(),
    table: module_table,
};
static VERSION: Version = Version {
    size: size_of::<Version>(),
    version: 3,
    reserved: 0,
    set_injection: ignore,
};

extern "C" fn ignore(_: u32) {}

extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        1 => (&raw const CALLBACKS).cast(),
        3 => (&raw const VERSION).cast(),
        _ => std::ptr::null(),
    }
}

extern "C" fn module_table(
    module: c_uint,
    table: *mut *const *const Function,
    functions: *mut c_uint,
) -> c_int {
    let number = (module as usize).wrapping_sub(1);
    let tables = TABLES.get_or_init(|| std::array::from_fn(pointers));
    let (Some(found), Some(size)) = (tables.get(number), SIZES.get(number)) else {
        return 0;
    };
    // SAFETY: the profiler passes null or places to write to; the table is a static.
    unsafe {
        if !functions.is_null() {
            *functions = *size as c_uint;
        }
        if !table.is_null() {
            *table = found.0.as_ptr();
        }
    }
    1
}

fn pointers(module: usize) -> Table {
    let mut table = [std::ptr::null(); MOST + 1];
    let places = PLACES[module].iter().take(SIZES[module]);
    for (pointer, place) in table.iter_mut().zip(places).skip(1) {
        *pointer = &raw const *place;
    }
    Table(table)
}

/// The way to the profiler, if there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nvtx;

impl Nvtx {
    /// Connects to the profiler that the environment names.
    pub(crate) fn connect() -> Self {
        type Initialize = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;
        static DONE: OnceLock<()> = OnceLock::new();
        DONE.get_or_init(|| {
            let Some(path) = std::env::var_os("NVTX_INJECTION64_PATH") else {
                return;
            };
            // SAFETY: the profiler that started us asks for its library to be loaded, and the library for our tables,
            // which are statics. It stays loaded.
            unsafe {
                let Ok(library) = libloading::Library::new(path) else {
                    return;
                };
                if let Ok(start) = library.get::<Initialize>(b"InitializeInjectionNvtx2\0") {
                    start(export_table);
                }
                std::mem::forget(library);
            }
        });
        Self
    }

    /// Runs `work` inside a push/pop range of that name.
    pub(crate) fn range<T>(self, name: &str, work: impl FnOnce() -> T) -> T {
        type Push = unsafe extern "C" fn(*const c_char) -> c_int;
        type Pop = unsafe extern "C" fn() -> c_int;
        let push = PLACES[0][RANGE_PUSH_A].load(Ordering::Acquire);
        let pop = PLACES[0][RANGE_POP].load(Ordering::Acquire);
        let name = CString::new(name)
            .ok()
            .filter(|_| !push.is_null() && !pop.is_null());
        let Some(name) = name else { return work() };
        // SAFETY: the profiler wrote functions of these types; the name lives through the call.
        unsafe { transmute::<*mut c_void, Push>(push)(name.as_ptr()) };
        let done = work();
        // SAFETY: as above.
        unsafe { transmute::<*mut c_void, Pop>(pop)() };
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static PUSHED: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

    extern "C" fn push(name: *const c_char) -> c_int {
        // SAFETY: the caller passes a string.
        let name = unsafe { std::ffi::CStr::from_ptr(name) };
        PUSHED
            .lock()
            .expect("no panic")
            .push(name.to_string_lossy().into_owned());
        0
    }

    extern "C" fn pop() -> c_int {
        PUSHED.lock().expect("no panic").push("pop".to_owned());
        0
    }

    /// What a profiler does: it asks for the tables and writes its functions through them.
    #[test]
    fn a_profiler_that_fills_the_tables_sees_ranges() {
        Nvtx::connect().range("before", || ());
        let callbacks = export_table(1).cast::<Callbacks>();
        let (mut table, mut size) = (std::ptr::null(), 0);
        // SAFETY: the first export table is `Callbacks`; the core's table has 16 entries and a null.
        unsafe {
            assert_eq!(((*callbacks).table)(1, &raw mut table, &raw mut size), 1);
            assert_eq!(size, 16);
            assert!((*table).is_null() && (*table.add(16)).is_null());
            (**table.add(9)).store(push as *mut c_void, Ordering::Release);
            (**table.add(11)).store(pop as *mut c_void, Ordering::Release);
            assert_eq!(((*callbacks).table)(6, &raw mut table, &raw mut size), 1);
            assert!(size == 7 && !(*table.add(6)).is_null() && (*table.add(7)).is_null());
            assert_eq!(((*callbacks).table)(99, &raw mut table, &raw mut size), 0);
        }
        assert_eq!(Nvtx::connect().range("case", || 7), 7);
        assert_eq!(*PUSHED.lock().expect("no panic"), ["case", "pop"]);
    }
}
