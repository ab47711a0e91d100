//! What costs a file costs that file, and what is written is written as a whole.

use super::*;

#[test]
#[cfg(unix)]
fn a_file_that_cannot_be_read_costs_itself() {
    let folder = tempdir();
    let readable = write(folder.path(), "a/trace.json", b"{}");
    // The kernel's own memory file opens but cannot be read from its start.
    let unreadable = PathBuf::from("/proc/self/mem");
    if !unreadable.exists() {
        return;
    }
    let mut diagnostics = Diagnostics::default();
    let bundle = bundle::open(&[readable, unreadable.clone()], &mut diagnostics).expect("opens");
    assert_eq!(codes(&diagnostics), ["bundle/unreadable"]);
    assert_eq!(bundle.files.len(), 1);
    let alone = bundle::open(&[unreadable], &mut diagnostics);
    assert!(matches!(
        alone,
        Err(BundleError::Io { .. } | BundleError::Archive { .. })
    ));
}

#[test]
fn what_a_report_wrote_is_no_input() {
    let folder = tempdir();
    write(folder.path(), "torch/trace.json", b"{}");
    let before = open(folder.path()).0;
    write(folder.path(), "run-report/metrics.json", b"{}");
    write(
        folder.path(),
        &format!("run-report/{}", bundle::REPORT_MARK),
        b"metrics.json\n",
    );
    let after = open(folder.path()).0;
    assert_eq!((after.files.len(), &after.id), (1, &before.id));
}

#[test]
fn an_archive_is_unpacked_as_a_whole_or_not_at_all() {
    let folder = tempdir();
    let hostile = archive(
        folder.path(),
        &[entry("a.csv", b"x"), entry("../evil", b"y")],
    );
    let target = folder.path().join("new");
    assert!(matches!(
        bundle::unpack(&hostile, &target),
        Err(BundleError::Path { .. })
    ));
    assert!(!target.exists());
    fs::create_dir(&target).expect("writable");
    assert!(matches!(
        bundle::unpack(&hostile, &target),
        Err(BundleError::Path { .. })
    ));
    assert_eq!(fs::read_dir(&target).expect("it stays").count(), 0);
    let file = write(folder.path(), "plain.txt", b"no archive");
    assert!(matches!(
        bundle::unpack(&file, &target),
        Err(BundleError::NoArchive(_))
    ));
}
