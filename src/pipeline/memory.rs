//! Memory that the program may still take.

use std::fs;
use std::path::Path;

/// Bytes that may be taken now: what the machine has left, and what control groups and limits of the process allow. None
/// where the system does not tell.
pub(super) fn available() -> Option<u64> {
    let machine = || field(&text("/proc/meminfo")?, "MemAvailable:");
    [machine(), of_group(), of_process()]
        .into_iter()
        .flatten()
        .min()
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Bytes of a line such as `VmSize:   123 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    kilobytes.checked_mul(1024)
}

/// What the limits of the control group leave, in version 2 and in version 1.
fn of_group() -> Option<u64> {
    let groups = text("/proc/self/cgroup")?;
    let left = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, most, used) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            "memory" => (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            ),
            _ => return None,
        };
        // Inside of a container the path is not that of the host.
        let folder = Path::new(root).join(path.trim_start_matches('/'));
        let folders = [folder.as_path(), Path::new(root)];
        let number = |folder: &Path, name| text(folder.join(name))?.trim().parse::<u64>().ok();
        folders
            .into_iter()
            .find_map(|folder| Some(number(folder, most)?.saturating_sub(number(folder, used)?)))
    };
    groups.lines().filter_map(left).min()
}

/// What `ulimit -v` leaves.
fn of_process() -> Option<u64> {
    let most = address_space(&text("/proc/self/limits")?)?;
    let used = field(&text("/proc/self/status")?, "VmSize:")?;
    Some(most.saturating_sub(used))
}

/// The soft limit of `Max address space`; none if there is none.
fn address_space(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{address_space, field};

    #[test]
    fn limits_are_read_as_the_kernel_prints_them() {
        let limits = |most: &str| {
            format!("Limit  Soft\nMax address space         {most}   unlimited  bytes\n")
        };
        assert_eq!(address_space(&limits("2097152000")), Some(2_097_152_000));
        assert_eq!(address_space(&limits("unlimited")), None);
        let text = "MemTotal:       24000000 kB\nMemAvailable:       2048 kB\n";
        assert_eq!(field(text, "MemAvailable:"), Some(2 << 20));
    }
}
