//! Ceilings of a device, how far its cases are from them, and fits of time against size.

use rooflens_document::Quantity;
use rooflens_hardware::{Gpu, Hardware};
use rooflens_schemas::Unit;
use rooflens_units::{BytesPerSecond, FlopsPerByte, FlopsPerSecond, Ratio, Seconds};

use rooflens_stats::quantile_from_nearer_end;

use crate::fit::Fit;
use crate::import::{Case, Device, Rate};

/// Operations whose work is GEMMs: dtype rates bound them. Others are bound by bandwidth alone.
const PRODUCTS: [&str; 6] = [
    "linear",
    "batched_gemm",
    "attention_prefill",
    "attention_decode",
    "conv2d",
    "lstm",
];

/// Operations whose rate is a ceiling where no `peaks.json` has one.
const GEMMS: [&str; 2] = ["linear", "batched_gemm"];

/// The copy within device memory: what bandwidth is where no `peaks.json` has it.
const COPY: &str = "copy_d2d";

/// Copies over the bus, which no ceiling of the device bounds.
const BUS: [&str; 2] = ["copy_h2d", "copy_d2h"];

/// A device with all that follows from its measurements.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    /// What was measured.
    pub device: &'a Device,
    /// The GPU of the table.
    pub specified: Option<Gpu>,
    /// Rates, then bandwidths.
    pub ceilings: Vec<Ceiling>,
    /// Cases with a time.
    pub cases: Vec<Judged<'a>>,
    /// Fits of operations with three sizes at least.
    pub fits: Vec<Series<'a>>,
}

/// A measured rate or bandwidth next to the specified one.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    /// A dtype, or `copy`, `read`, `write`.
    pub what: String,
    /// Bytes, or FLOP, per second.
    pub measured: Quantity,
    /// The same, dense.
    pub specified: Option<Quantity>,
    /// Arithmetic intensity from which on the rate bounds, not the bandwidth of a copy.
    pub ridge: Option<FlopsPerByte>,
    /// The largest of single operations, not a sustained rate.
    pub from_cases: bool,
    /// Spread, clock and power of a sustained rate.
    pub rate: Option<Rate>,
}

impl Ceiling {
    /// Measured ÷ specified.
    pub fn efficiency(&self) -> Option<Ratio> {
        Some(Ratio(self.measured.value / self.specified?.value))
    }

    /// Whether it is of bytes rather than of FLOP.
    pub fn is_bandwidth(&self) -> bool {
        self.measured.unit == Unit::BytesPerSecond
    }
}

/// A case with its roofline times.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The case.
    pub case: &'a Case,
    /// Median, least, greatest and 95th percentile of a launch.
    pub times: [Seconds; 4],
    /// Time at the measured ceilings, and whether the rate bounds.
    pub roof: Option<(Seconds, bool)>,
    /// Time at the specified ones.
    pub specified: Option<Seconds>,
}

impl Judged<'_> {
    /// Share of the measured roofline.
    pub fn efficiency(&self) -> Option<Ratio> {
        Some(Ratio(self.roof?.0 / self.times[0]))
    }

    /// Share of the specified roofline.
    pub fn of_specified(&self) -> Option<Ratio> {
        Some(Ratio(self.specified? / self.times[0]))
    }
}

/// Cases of one operation and dtype that one resource bounds, and their fit.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// The operation.
    pub operation: &'a str,
    /// Number format; copies have none.
    pub dtype: Option<&'a str>,
    /// Work is FLOP rather than bytes.
    pub in_flops: bool,
    /// Runs on the device, rather than over the bus.
    pub on_device: bool,
    /// Work and median seconds, by ascending work.
    pub points: Vec<(f64, f64)>,
    /// The fit.
    pub fit: Fit,
}

impl Series<'_> {
    /// The launch floor where it is at least half of the time of the smallest case: a line through longer launches
    /// alone tells none.
    pub fn floor(&self) -> Option<Seconds> {
        let (_, least) = self.points.first()?;
        self.fit.floor.filter(|floor| 2.0 * floor.0 >= *least)
    }
}

/// Rates by dtype and the bandwidth that roofline times divide by.
struct Roofs<'r> {
    rate: &'r dyn Fn(&str) -> Option<FlopsPerSecond>,
    bandwidth: Option<BytesPerSecond>,
}

impl<'a> Results<'a> {
    /// Evaluates a device.
    pub fn of(device: &'a Device, hardware: &Hardware) -> Self {
        let specified = hardware.find(&device.gpu).cloned();
        let ceilings = ceilings(device, specified.as_ref());
        let measured = |what: &str| ceilings.iter().find(|ceiling| ceiling.what == what);
        let of_gpu = |dtype: &str| rate_of(specified.as_ref()?, dtype);
        let reached = Roofs {
            rate: &|dtype| Some(FlopsPerSecond(measured(dtype)?.measured.value)),
            bandwidth: measured("copy").map(|copy| BytesPerSecond(copy.measured.value)),
        };
        let bandwidth = specified.as_ref().map(|gpu| gpu.memory_bandwidth);
        let stated = Roofs {
            rate: &of_gpu,
            bandwidth,
        };
        let judged = device.cases.iter().filter_map(|case| {
            let times = *case.times.as_ref().ok()?;
            let (roof, specified) = (reached.time(case), stated.time(case).map(|(time, _)| time));
            Some(Judged {
                case,
                times,
                roof,
                specified,
            })
        });
        let cases: Vec<Judged<'a>> = judged.collect();
        let fits = series(&cases);
        Self {
            device,
            specified,
            cases,
            fits,
            ceilings,
        }
    }

    /// The ceiling of that name.
    pub fn ceiling(&self, what: &str) -> Option<&Ceiling> {
        self.ceilings.iter().find(|ceiling| ceiling.what == what)
    }

    /// Cases by operation and dtype, in their order.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for judged in &self.cases {
            let (operation, dtype) = (judged.case.operation.as_str(), judged.case.dtype.as_deref());
            let group = groups
                .iter_mut()
                .find(|group| (group.operation, group.dtype) == (operation, dtype));
            match group {
                Some(group) => group.cases.push(judged),
                None => groups.push(Group {
                    device: self,
                    operation,
                    dtype,
                    cases: vec![judged],
                }),
            }
        }
        groups
    }

    /// The dtype that the first page is about: bf16 if there is one, else the first rate.
    pub fn headline(&self) -> Option<&Ceiling> {
        self.ceiling("bf16")
            .or_else(|| self.ceilings.iter().find(|ceiling| !ceiling.is_bandwidth()))
    }
}

/// Cases of one operation and dtype.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// What they were measured on.
    pub device: &'a Results<'a>,
    /// The operation.
    pub operation: &'a str,
    /// Number format; copies have none.
    pub dtype: Option<&'a str>,
    /// The cases.
    pub cases: Vec<&'a Judged<'a>>,
}

impl Group<'_> {
    /// A share of each case that has it, ascending.
    pub fn shares(&self, share: fn(&Judged<'_>) -> Option<Ratio>) -> Vec<Ratio> {
        let mut shares: Vec<Ratio> = self
            .cases
            .iter()
            .filter_map(|judged| share(judged))
            .collect();
        shares.sort_by(Ratio::total_cmp);
        shares
    }

    /// The median efficiency against the measured roofline.
    pub fn median(&self) -> Option<Ratio> {
        let efficiencies = self.shares(|judged| judged.efficiency());
        quantile_from_nearer_end(&efficiencies, 0.5)
    }

    /// The median share of the specified roofline.
    pub fn median_of_specified(&self) -> Option<Ratio> {
        let shares = self.shares(|judged| judged.of_specified());
        quantile_from_nearer_end(&shares, 0.5)
    }

    /// The median of |roofline time − time| ÷ time.
    pub fn apart(&self) -> Option<Ratio> {
        let errors = self.shares(|judged| Some((judged.efficiency()? - Ratio::ONE).abs()));
        quantile_from_nearer_end(&errors, 0.5)
    }

    /// Times of all cases with a roofline time: at the roofline, and measured.
    pub fn sums(&self) -> (Seconds, Seconds) {
        let (mut at_roof, mut measured) = (Seconds::ZERO, Seconds::ZERO);
        for judged in &self.cases {
            if let Some((roof, _)) = judged.roof {
                at_roof += roof;
                measured += judged.times[0];
            }
        }
        (at_roof, measured)
    }
}

impl Roofs<'_> {
    fn time(&self, case: &Case) -> Option<(Seconds, bool)> {
        if BUS.contains(&case.operation.as_str()) {
            return None;
        }
        let memory = case.bytes / self.bandwidth?;
        if !PRODUCTS.contains(&case.operation.as_str()) {
            return Some((memory, false));
        }
        let compute = case.flops / (self.rate)(case.dtype.as_deref()?)?;
        Some((memory.max(compute), compute > memory))
    }
}

/// The dense rate of a dtype as measurements name it.
fn rate_of(gpu: &Gpu, dtype: &str) -> Option<FlopsPerSecond> {
    // Libraries compute fp64 products on tensor cores where there are such.
    let names: &[&str] = match dtype {
        "fp64" => &["fp64_tensor", "fp64"],
        "fp8_e4m3" => &["fp8"],
        dtype => &[dtype],
    };
    names
        .iter()
        .find_map(|name| gpu.peak(name))
        .map(|peak| peak.dense)
}

fn ceilings(device: &Device, gpu: Option<&Gpu>) -> Vec<Ceiling> {
    let mut ceilings: Vec<Ceiling> = Vec::new();
    let mut add = |what: &str, measured: Quantity, rate: Option<&Rate>| {
        let specified = match measured.unit {
            Unit::BytesPerSecond => gpu.map(|gpu| gpu.memory_bandwidth.into()),
            _ => gpu.and_then(|gpu| Some(rate_of(gpu, what)?.into())),
        };
        let earlier = ceilings.iter_mut().find(|ceiling| ceiling.what == what);
        let ceiling = Ceiling {
            what: what.to_owned(),
            measured,
            specified,
            ridge: None,
            from_cases: rate.is_none(),
            rate: rate.cloned(),
        };
        match earlier {
            // A sustained rate stands; of several, and of cases, the largest does.
            Some(earlier) if rate.is_none() && !earlier.from_cases => {}
            Some(earlier) if earlier.measured.value >= measured.value => {}
            Some(earlier) => *earlier = ceiling,
            None => ceilings.push(ceiling),
        }
    };
    for rate in &device.rates {
        if let Ok(measured) = rate.rate {
            add(&rate.what, measured, Some(rate));
        }
    }
    for case in &device.cases {
        let Ok([median, ..]) = case.times else {
            continue;
        };
        match (case.operation.as_str(), case.dtype.as_deref()) {
            (COPY, _) => add("copy", (case.bytes / median).into(), None),
            (operation, Some(dtype)) if GEMMS.contains(&operation) => {
                add(dtype, (case.flops / median).into(), None);
            }
            _ => {}
        }
    }
    let copy = ceilings.iter().find(|ceiling| ceiling.what == "copy");
    if let Some(bandwidth) = copy.map(|copy| copy.measured.value) {
        for ceiling in &mut ceilings {
            if !ceiling.is_bandwidth() {
                ceiling.ridge = Some(FlopsPerByte(ceiling.measured.value / bandwidth));
            }
        }
    }
    ceilings.sort_by_key(Ceiling::is_bandwidth);
    ceilings
}

/// Cases by operation, dtype and what bounds them, in the order of the cases.
fn series<'a>(cases: &[Judged<'a>]) -> Vec<Series<'a>> {
    let key = |judged: &Judged<'a>| {
        let in_flops = judged.roof.is_some_and(|(_, by_rate)| by_rate);
        let case = judged.case;
        (case.operation.as_str(), case.dtype.as_deref(), in_flops)
    };
    let mut keys: Vec<_> = Vec::new();
    for judged in cases {
        if !keys.contains(&key(judged)) {
            keys.push(key(judged));
        }
    }
    let fitted = keys.into_iter().filter_map(|(operation, dtype, in_flops)| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for judged in cases {
            if key(judged) == (operation, dtype, in_flops) {
                let case = judged.case;
                let work = if in_flops { case.flops.0 } else { case.bytes.0 };
                points.push((work, judged.times[0].0));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let fit = Fit::of(&points)?;
        let on_device = !BUS.contains(&operation);
        Some(Series {
            operation,
            dtype,
            in_flops,
            on_device,
            points,
            fit,
        })
    });
    fitted.collect()
}
