//! Memory that the program may still take.

use std::fs;
use std::path::Path;

/// Bytes that may be taken now: what the machine has left and at most half of what it has, and what control groups and
/// limits of the process allow. None where the system does not tell.
pub(super) fn available() -> Option<u64> {
    let machine = text("/proc/meminfo").unwrap_or_default();
    let half = field(&machine, "MemTotal:").map(|total| total / 2);
    [
        half,
        field(&machine, "MemAvailable:"),
        of_group(),
        of_process(),
    ]
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
        left_below(Path::new(root), path, (most, used))
    };
    groups.lines().filter_map(left).min()
}

/// The least that a group and the groups around it leave: a limit holds for all groups inside of it. Inside of a container
/// the path is that of the host, and only the root is there.
fn left_below(root: &Path, path: &str, (most, used): (&str, &str)) -> Option<u64> {
    let group = root.join(path.trim_start_matches('/'));
    let number = |folder: &Path, name| text(folder.join(name))?.trim().parse::<u64>().ok();
    let groups = group
        .ancestors()
        .take_while(|group| group.starts_with(root));
    groups
        .filter_map(|group| Some(number(group, most)?.saturating_sub(number(group, used)?)))
        .min()
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
    use super::{address_space, field, left_below};
    use std::fs;

    #[test]
    fn limits_of_groups_around_a_group_hold_for_it() {
        let root = tempfile::tempdir().expect("there is room for a folder");
        let write = |group: &str, most: &str, used: &str| {
            let folder = root.path().join(group);
            fs::create_dir_all(&folder).expect("there is room for a folder");
            fs::write(folder.join("most"), most).expect("there is room for a file");
            fs::write(folder.join("used"), used).expect("there is room for a file");
        };
        write("a/b", "max\n", "10\n");
        write("a", "100\n", "70\n");
        write("a/c", "20\n", "5\n");
        let left = |path| left_below(root.path(), path, ("most", "used"));
        assert_eq!(left("/a/b"), Some(30), "the group around it leaves 30");
        assert_eq!(left("/a/c"), Some(15), "its own limit is narrower");
        assert_eq!(left("/other"), None);
    }

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
