//! What is sent when: arrival times and lengths, the same for the same seed.

use std::time::Duration;

use rooflens_units::{RequestsPerSecond, Seconds};

/// Longest prompt or answer, in tokens.
const MOST_TOKENS: u32 = 1_000_000;

/// A level of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// Poisson arrivals.
    Open(RequestsPerSecond),
    /// So many requests in flight.
    Closed(u32),
}

impl Load {
    /// The name of its file, without the ending.
    pub(super) fn name(self) -> String {
        match self {
            Self::Open(rate) => format!("open-{}", rate.0),
            Self::Closed(concurrency) => format!("closed-{concurrency}"),
        }
    }
}

/// Pseudo-random numbers: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Another stream for each seed and index.
    pub(super) fn new(seed: u64, index: u64) -> Self {
        let mut mixed = Self(seed);
        let seed = mixed.next();
        Self(seed ^ index.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From 0 up to but without 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        ((self.unit() * end as f64) as usize).min(end.saturating_sub(1))
    }

    /// Exponential with mean 1.
    fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Normal with mean 0 and deviation 1, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (2.0 * self.exponential()).sqrt() * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

/// Arrival times of a Poisson process since its start, without end.
pub(super) struct Arrivals {
    random: Random,
    rate: RequestsPerSecond,
    time: Seconds,
}

impl Arrivals {
    pub(super) fn new(rate: RequestsPerSecond, random: Random) -> Self {
        Self {
            random,
            rate,
            time: Seconds::ZERO,
        }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.time += Seconds(self.random.exponential() / self.rate.0);
        Duration::try_from_secs_f64(self.time.0).ok()
    }
}

/// A distribution of lengths in tokens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lengths {
    Fixed(u32),
    /// Both ends included.
    Uniform(u32, u32),
    LogNormal {
        median: u32,
        sigma: f64,
    },
    /// One of these.
    Sampled(Vec<u32>),
}

impl Lengths {
    /// Nothing if the text is of none of the forms: it is the name of a file.
    pub(super) fn parse(text: &str) -> Option<Result<Self, String>> {
        let expected = || format!("expected tokens from 1 to {MOST_TOKENS}");
        if let Some(range) = text.strip_prefix("uniform:") {
            let ends = range
                .split_once('-')
                .and_then(|(a, b)| Some((length(a)?, length(b)?)));
            let ends = ends.filter(|(a, b)| a <= b);
            let wrong = || format!("{}: uniform:A-B with A not above B", expected());
            return Some(ends.map(|(a, b)| Self::Uniform(a, b)).ok_or_else(wrong));
        }
        if let Some(shape) = text.strip_prefix("lognormal:") {
            let parse = |(median, sigma): (&str, &str)| {
                let median = length(median)?;
                let sigma = sigma
                    .parse()
                    .ok()
                    .filter(|sigma| (0.0..=5.0).contains(sigma))?;
                Some(Self::LogNormal { median, sigma })
            };
            let wrong = || {
                format!(
                    "{}: lognormal:MEDIAN:SIGMA with SIGMA from 0 to 5",
                    expected()
                )
            };
            return Some(shape.split_once(':').and_then(parse).ok_or_else(wrong));
        }
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
        is_number.then(|| length(text).map(Self::Fixed).ok_or_else(expected))
    }

    /// A length a line.
    pub(super) fn of_lines(lines: &str) -> Result<Self, String> {
        let lines = lines
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty());
        let lengths: Result<Vec<u32>, String> = lines
            .map(|(index, line)| {
                let wrong = || format!("line {}: expected 1 to {MOST_TOKENS}", index + 1);
                length(line.trim()).ok_or_else(wrong)
            })
            .collect();
        match lengths? {
            lengths if lengths.is_empty() => Err("the file has no lengths".to_owned()),
            lengths => Ok(Self::Sampled(lengths)),
        }
    }

    /// A length in their middle: the mean of a range, or the median.
    pub(crate) fn middle(&self) -> u32 {
        match self {
            Self::Fixed(length) => *length,
            Self::Uniform(first, last) => u32::midpoint(*first, *last),
            Self::LogNormal { median, .. } => *median,
            Self::Sampled(lengths) => {
                let mut lengths = lengths.clone();
                lengths.sort_unstable();
                lengths[lengths.len() / 2]
            }
        }
    }

    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        match self {
            Self::Fixed(length) => *length,
            Self::Uniform(first, last) => first + random.below((last - first) as usize + 1) as u32,
            Self::LogNormal { median, sigma } => {
                let length = f64::from(*median) * libm::exp(sigma * random.normal());
                length.round().clamp(1.0, f64::from(MOST_TOKENS)) as u32
            }
            Self::Sampled(lengths) => lengths[random.below(lengths.len())],
        }
    }
}

fn length(text: &str) -> Option<u32> {
    text.parse()
        .ok()
        .filter(|length| (1..=MOST_TOKENS).contains(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First values of the reference implementation (Vigna's splitmix64.c) from the state 0.
    #[test]
    fn the_generator_is_splitmix64() {
        let mut random = Random(0);
        let first = [random.next(), random.next()];
        assert_eq!(first, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    /// Gaps are exponential: their mean and deviation are 1 ÷ rate, 1 ÷ e of them are longer than that. With n gaps
    /// these scatter by 1 ÷ √n, 2 ÷ √n (of the variance ≈ √8 ÷ √n ÷ 2 for the deviation) and 0.48 ÷ √n.
    #[test]
    fn arrivals_are_a_poisson_process() {
        let n = 100_000;
        let times: Vec<f64> = Arrivals::new(RequestsPerSecond(50.0), Random::new(7, 0))
            .take(n)
            .map(|at| at.as_secs_f64())
            .collect();
        let gaps: Vec<f64> = times
            .iter()
            .scan(0.0, |last, at| Some(at - std::mem::replace(last, *at)))
            .collect();
        let mean = gaps.iter().sum::<f64>() / n as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n as f64;
        let long = gaps.iter().filter(|gap| **gap > 0.02).count() as f64 / n as f64;
        assert!((mean / 0.02 - 1.0).abs() < 0.013, "{mean}");
        assert!((square.sqrt() / 0.02 - 1.0).abs() < 0.02, "{square}");
        assert!((long - 0.367_879).abs() < 0.006, "{long}");
        let again = Arrivals::new(RequestsPerSecond(50.0), Random::new(7, 0)).take(3);
        assert!(
            again
                .map(|at| at.as_secs_f64())
                .eq(times[..3].iter().copied())
        );
    }

    #[test]
    fn lengths_follow_their_distribution() {
        let draw = |text: &str| {
            let lengths = Lengths::parse(text).expect("known").expect("valid");
            let mut random = Random::new(1, 2);
            let mut drawn: Vec<u32> = (0..10_001).map(|_| lengths.draw(&mut random)).collect();
            drawn.sort_unstable();
            drawn
        };
        assert_eq!(draw("17"), [17; 10_001]);
        let uniform = draw("uniform:3-6");
        assert_eq!((uniform[0], uniform[10_000]), (3, 6));
        // A quarter each; 2 500 scatter by 43.
        let threes = uniform.iter().filter(|length| **length == 3).count();
        assert!((2_300..2_700).contains(&threes), "{threes}");
        // The median is 512; 84.13 % lie below 512 × e^0.4 = 763.8. Both scatter by less than 1 %.
        let normal = draw("lognormal:512:0.4");
        assert!(normal[5_000].abs_diff(512) < 15, "{}", normal[5_000]);
        assert!(normal[8_413].abs_diff(764) < 25, "{}", normal[8_413]);
    }

    #[test]
    fn lengths_that_make_no_sense_are_refused() {
        for text in [
            "0",
            "uniform:9-3",
            "uniform:3",
            "lognormal:5",
            "lognormal:5:-1",
            "9999999",
        ] {
            assert!(matches!(Lengths::parse(text), Some(Err(_))), "{text}");
        }
        assert_eq!(Lengths::parse("lengths.txt"), None);
        assert_eq!(
            Lengths::of_lines("3\n\n 5 \n"),
            Ok(Lengths::Sampled(vec![3, 5]))
        );
        assert_eq!(
            Lengths::of_lines("3\nx"),
            Err("line 2: expected 1 to 1000000".to_owned())
        );
        assert!(Lengths::of_lines("\n").is_err());
    }
}
