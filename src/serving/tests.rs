//! Scratch.
#[test]
fn corpus() {
    use crate::import::{File, read};
    let mut d = rooflens_model::diagnostic::Diagnostics::default();
    let mut paths: Vec<_> = Vec::new();
    for dir in std::fs::read_dir("/tmp/corpus/llm_bench").unwrap().flatten() {
        for f in std::fs::read_dir(dir.path()).unwrap().flatten() {
            paths.push(f.path());
        }
    }
    for p in paths {
        let bytes = std::fs::read(&p).unwrap();
        let name = p.display().to_string();
        let mut input = read(&[File { path: &name, bytes: &bytes }], &mut d);
        for r in &mut input.runs {
            let n = r.requests.len();
            let e = r.engine.len();
            r.engine.clear();
            let first = r.requests.first().cloned();
            r.requests.clear();
            let mut first = first;
            if let Some(f) = &mut first {
                f.itl.truncate(3);
            }
            eprintln!("{r:#?} {n} {e} {first:?}");
        }
    }
    eprintln!("{d:#?}");
}
