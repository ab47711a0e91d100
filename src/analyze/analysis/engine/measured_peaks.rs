//! Peaks that were measured on the very GPU (`peaks.json`).

use crate::Context;
use rooflens_hardware::Gpu;
use rooflens_session::{PassId, Session};
use rooflens_units::{BytesPerSecond, FlopsPerSecond};

/// What was measured on one GPU: names, such as `bf16` and `copy`, with medians per second.
#[derive(Clone, Debug, Default)]
pub struct Measured<'a> {
    peaks: Vec<(&'a str, f64)>,
}

impl<'a> Measured<'a> {
    /// The peaks of the GPU of this recorded name, or of the one that the user named instead. Those that GEMMs of the
    /// bundle exceed bound nothing; by a difference that may be noise, they are what the GEMMs reach.
    pub fn of(context: &Context<'a>, recorded: &str) -> Self {
        let mut measured = Self::recorded(context, recorded);
        for beaten in context.results.beaten().into_iter().flatten() {
            let is_invalid = beaten.is_invalid();
            measured
                .peaks
                .retain(|(what, _)| !is_invalid || beaten.what != *what);
            for (what, median) in &mut measured.peaks {
                if beaten.what == *what {
                    *median = median.max(beaten.most);
                }
            }
        }
        measured
    }

    /// All peaks of that GPU.
    ///
    /// Peaks that name no GPU belong to all, and all belong to a GPU without a name.
    pub fn recorded(context: &Context<'a>, recorded: &str) -> Self {
        let (session, table) = (context.session, &context.session.measured_peaks);
        let shown = context.options.gpu.as_deref().unwrap_or(recorded);
        let entry = |name: &str| context.hardware.find(name).map(|gpu| gpu.name.as_str());
        let shown_entry = entry(shown);
        let is_own = |name: &str| {
            name.is_empty()
                || shown.is_empty()
                || name == shown
                || shown_entry.is_some() && entry(name) == shown_entry
        };
        let rows = (0..table.len()).filter(|row| is_own(session.text(table.gpu[*row])));
        Self {
            peaks: rows
                .map(|row| (session.text(table.what[row]), table.median[row]))
                .collect(),
        }
    }

    /// The bandwidth of a copy, bytes read and written per second.
    pub fn bandwidth(&self) -> Option<BytesPerSecond> {
        self.best("copy").map(BytesPerSecond)
    }

    /// The rate of products of a dtype; `gpu` is the GPU's specification.
    pub fn rate(&self, gpu: Option<&Gpu>, dtype: &str) -> Option<FlopsPerSecond> {
        // Libraries compute fp64 products on tensor cores where there are such.
        let on_tensor_cores = gpu.is_some_and(|gpu| gpu.peak("fp64_tensor").is_some());
        let rate = match dtype {
            "fp64_tensor" => self.best("fp64"),
            "fp64" if on_tensor_cores => None,
            "copy" => None,
            dtype => self.best(dtype),
        };
        rate.map(FlopsPerSecond)
    }

    /// The best one where several artifacts have it.
    fn best(&self, what: &str) -> Option<f64> {
        let same = self
            .peaks
            .iter()
            .filter(|(name, value)| *name == what && *value > 0.0);
        same.map(|(_, value)| *value).reduce(f64::max)
    }
}

/// Name of the GPU that a pass ran on; for a pass that recorded none, the one name of the bundle.
pub fn gpu_name(session: &Session, pass: Option<PassId>) -> String {
    let of_pass = |row: &usize| pass.is_none_or(|pass| session.gpus.pass[*row] == pass);
    let names = |rows: &mut dyn Iterator<Item = usize>| -> Option<String> {
        rows.map(|row| session.text(session.gpus.name[row]).to_owned())
            .find(|name| !name.is_empty())
    };
    names(&mut (0..session.gpus.len()).filter(of_pass))
        .or_else(|| names(&mut (0..session.gpus.len())))
        .or_else(|| {
            session
                .measured_peaks
                .gpu
                .first()
                .map(|gpu| session.text(*gpu).to_owned())
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::matmul::beaten::Beaten;
    use crate::{Facts, Options, Results};
    use rooflens_hardware::Hardware;
    use rooflens_session::{MeasuredPeak, Session};

    /// bf16 800 on an H200, 700 on a GPU without a name, 600 on an A100; fp64 60 on the H200; a copy.
    fn rates(recorded: &str, chosen: Option<&str>) -> [Option<f64>; 4] {
        let mut session = Session::default();
        for (gpu, what, median) in [
            ("NVIDIA H200", "bf16", 800.0),
            ("", "bf16", 700.0),
            ("NVIDIA A100-SXM4-80GB", "bf16", 600.0),
            ("NVIDIA H200", "fp64", 60.0),
            ("NVIDIA H200", "copy", 4.0),
        ] {
            let [gpu, what, artifact] = [gpu, what, ""].map(|text| session.intern(text));
            let peak = MeasuredPeak {
                gpu,
                what,
                median,
                min: None,
                max: None,
                artifact,
            };
            session.measured_peaks.push(peak);
        }
        let (facts, hardware) = (Facts::default(), Hardware::builtin());
        let options = Options {
            gpu: chosen.map(str::to_owned),
            ..Options::default()
        };
        let context = Context::new(&session, &facts, &hardware, &options);
        let measured = Measured::of(&context, recorded);
        let gpu = context.gpu_spec(recorded);
        let rate = |dtype| measured.rate(gpu, dtype).map(|rate| rate.0);
        [
            rate("bf16"),
            rate("fp64"),
            rate("fp64_tensor"),
            measured.bandwidth().map(|bandwidth| bandwidth.0),
        ]
    }

    #[test]
    fn peaks_are_those_of_the_gpu_and_of_none_other() {
        // What a library measures as fp64 ran on the tensor cores.
        let h200 = [Some(800.0), None, Some(60.0), Some(4.0)];
        assert_eq!(rates("NVIDIA H200", None), h200);
        assert_eq!(rates("", Some("H200")), h200);
        assert_eq!(
            rates("NVIDIA H200", Some("A100-SXM4-80GB")),
            [Some(700.0), None, None, None]
        );
        // No entry in the table of GPUs: the same name, or none.
        assert_eq!(rates("Some GPU", None), [Some(700.0), None, None, None]);
        assert_eq!(
            rates("", None),
            [Some(800.0), Some(60.0), Some(60.0), Some(4.0)]
        );
    }

    #[test]
    fn a_peak_is_no_less_than_what_the_run_reaches() {
        let mut session = Session::default();
        for (what, median) in [("bf16", 800.0), ("copy", 4.0)] {
            let [gpu, what, artifact] = ["", what, ""].map(|text| session.intern(text));
            session.measured_peaks.push(MeasuredPeak {
                gpu,
                what,
                median,
                min: None,
                max: None,
                artifact,
            });
        }
        let (facts, hardware, options) =
            (Facts::default(), Hardware::builtin(), Options::default());
        // 1 % more may be noise, 5 % more is not.
        let beaten = |what, measured, reached, most| Beaten {
            what,
            measured,
            reached,
            most,
        };
        let results = Results {
            beaten: Ok(vec![
                beaten("bf16", 800.0, 808.0, 812.0),
                beaten("copy", 4.0, 4.2, 4.3),
            ]),
            ..Results::NONE
        };
        let context = Context::new(&session, &facts, &hardware, &options).with(&results);
        let measured = Measured::of(&context, "");
        assert_eq!(measured.rate(None, "bf16"), Some(FlopsPerSecond(812.0)));
        assert_eq!(measured.bandwidth(), None);
    }
}
