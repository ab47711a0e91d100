//! The host: processor, memory, kernel. Never its name.

use std::fs;
use std::path::Path;

use rooflens_schemas::Fact;

/// Facts from the files that Linux offers below `root`.
pub(crate) fn facts(root: &Path) -> Vec<Fact> {
    let processors = "proc/cpuinfo";
    let cores = |text: &str| {
        let count = text
            .lines()
            .filter(|line| field(line, "processor", ':').is_some())
            .count();
        (count > 0).then(|| count.to_string())
    };
    let memory = |text: &str| {
        let kibibytes = find(text, "MemTotal", ':')?
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()?;
        Some(kibibytes.checked_mul(1024)?.to_string())
    };
    let whole = |text: &str| Some(text.trim().to_owned());
    let system = |text: &str| Some(find(text, "PRETTY_NAME", '=')?.trim_matches('"').to_owned());
    let governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    vec![
        fact(root, "cpu", "model", processors, |text| {
            find(text, "model name", ':')
        }),
        fact(root, "cpu", "logical_cores", processors, cores),
        fact(root, "cpu", "governor", governor, whole),
        fact(root, "memory", "total_bytes", "proc/meminfo", memory),
        fact(root, "os", "name", "etc/os-release", system),
        fact(
            root,
            "os",
            "kernel_release",
            "proc/sys/kernel/osrelease",
            whole,
        ),
        container(root),
        fact(
            root,
            "container",
            "cpu_limit",
            "sys/fs/cgroup/cpu.max",
            cpu_limit,
        ),
        fact(
            root,
            "container",
            "memory_limit_bytes",
            "sys/fs/cgroup/memory.max",
            whole,
        ),
    ]
}

/// Files that container runtimes leave, and what made them.
const CONTAINER_MARKS: [(&str, &str); 4] = [
    (".dockerenv", "docker"),
    ("run/.containerenv", "podman"),
    ("run/secrets/kubernetes.io", "kubernetes"),
    (".singularity.d", "apptainer"),
];

/// Words in the control groups of process 1 that tell of a container.
const CONTAINER_GROUPS: [&str; 5] = ["docker", "kubepods", "containerd", "libpod", "lxc"];

/// Whether this is a container, as far as anything hints at it.
pub(crate) fn is_container(root: &Path) -> bool {
    runtime(root).is_some()
}

/// What made the container: a hint, because nothing says so for sure.
fn runtime(root: &Path) -> Option<&'static str> {
    let mark = CONTAINER_MARKS
        .iter()
        .find(|(file, _)| root.join(file).exists());
    let groups = fs::read_to_string(root.join("proc/1/cgroup")).unwrap_or_default();
    let group = CONTAINER_GROUPS
        .into_iter()
        .find(|word| groups.contains(word));
    mark.map(|(_, name)| *name).or(group)
}

fn container(root: &Path) -> Fact {
    match runtime(root) {
        Some(name) => Fact::known("container", "runtime", name),
        None => Fact::missing("container", "runtime", "nothing hints at a container"),
    }
}

/// Cores from a quota and its period in microseconds; `max` where there is none.
fn cpu_limit(text: &str) -> Option<String> {
    let (quota, period) = text.trim().split_once(' ')?;
    let Ok(quota) = quota.parse::<f64>() else {
        return Some(quota.to_owned());
    };
    let period = period.parse::<f64>().ok().filter(|period| *period > 0.0)?;
    Some((quota / period).to_string())
}

fn fact(
    root: &Path,
    subject: &str,
    key: &str,
    file: &str,
    read: impl Fn(&str) -> Option<String>,
) -> Fact {
    match fs::read_to_string(root.join(file)) {
        Ok(text) => match read(&text).filter(|value| !value.is_empty()) {
            Some(value) => Fact::known(subject, key, value),
            None => Fact::missing(subject, key, format!("/{file} does not say")),
        },
        Err(error) => Fact::missing(subject, key, format!("/{file} cannot be read: {error}")),
    }
}

/// The value of the first line that has this key.
fn find(text: &str, key: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| field(line, key, separator))
}

fn field(line: &str, key: &str, separator: char) -> Option<String> {
    let (found, value) = line.split_once(separator)?;
    (found.trim() == key).then(|| value.trim().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn facts_come_from_linux_s_files() {
        let root = tempfile::tempdir().unwrap();
        let processor = "processor\t: 0\nmodel name\t: Fast CPU @ 4 GHz\n\n";
        write(root.path(), "proc/cpuinfo", &processor.repeat(3));
        write(
            root.path(),
            "proc/meminfo",
            "MemTotal:       2048 kB\nMemFree: 1 kB\n",
        );
        write(
            root.path(),
            "etc/os-release",
            "NAME=\"Linux\"\nPRETTY_NAME=\"Linux 24.04\"\n",
        );
        write(root.path(), "proc/sys/kernel/osrelease", "6.18.44\n");
        write(root.path(), "proc/1/cgroup", "0::/kubepods.slice/pod1\n");
        write(root.path(), "sys/fs/cgroup/cpu.max", "250000 100000\n");
        write(root.path(), "sys/fs/cgroup/memory.max", "max\n");
        let facts = facts(root.path());
        for (subject, key, value) in [
            ("cpu", "model", "Fast CPU @ 4 GHz"),
            ("cpu", "logical_cores", "3"),
            ("memory", "total_bytes", "2097152"),
            ("os", "name", "Linux 24.04"),
            ("os", "kernel_release", "6.18.44"),
            ("container", "runtime", "kubepods"),
            ("container", "cpu_limit", "2.5"),
            ("container", "memory_limit_bytes", "max"),
        ] {
            assert!(
                facts.contains(&Fact::known(subject, key, value)),
                "{key}: {facts:?}"
            );
        }
        let governor = facts.iter().find(|fact| fact.key == "governor").unwrap();
        assert_eq!(governor.value.known(), None);
    }

    #[test]
    fn files_that_say_nothing_are_a_reason() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/cpuinfo", "");
        write(root.path(), "proc/meminfo", "MemTotal: many kB\n");
        assert!(
            facts(root.path())
                .iter()
                .all(|fact| fact.value.known().is_none())
        );
    }
}
