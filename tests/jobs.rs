//! `rooflens report --jobs`: each input by itself, with the same bytes, and failures at the end.

use std::fs;

use crate::support::{path, rooflens};

#[test]
fn reports_of_many_have_the_bytes_of_each_alone_and_a_failure_costs_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let names = ["h200-graph-ranges", "h200-cuda-graph"];
    let [first, second] = names.map(|name| path(name).display().to_string());
    let (out, missing) = (place("out"), place("missing"));
    let arguments = [
        "report", "--jobs", "2", &first, &missing, &second, "--format", "md", "--format", "json",
        "-o", &out,
    ];
    let end = rooflens(&arguments);
    let text = String::from_utf8_lossy(&end.stderr).into_owned();
    assert_eq!(end.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("error: {missing}: ")), "{text}");
    for (name, input) in names.iter().zip([&first, &second]) {
        let alone = place(name);
        let arguments = [
            "report", input, "--format", "md", "--format", "json", "-o", &alone,
        ];
        rooflens(&arguments);
        let mut count = 0;
        for entry in fs::read_dir(&alone).expect("a folder").flatten() {
            if entry.path().is_file() {
                let of_many = format!("{out}/{name}-report");
                let of_many = fs::read(format!("{of_many}/{}", entry.file_name().display()));
                let alone = fs::read(entry.path()).expect("a file");
                assert!(of_many.expect("the same file") == alone, "{entry:?}");
                count += 1;
            }
        }
        assert!(count > 1, "{name}");
    }
}
