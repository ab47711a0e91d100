//! Random numbers by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).

/// A sequence of random numbers that its seed determines.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Between 0 and 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A whole number from the first to the second, both included.
    pub fn between(&mut self, (least, most): (usize, usize)) -> usize {
        least + (self.unit() * (most - least + 1) as f64) as usize
    }

    /// One of several.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between((0, choices.len() - 1))]
    }

    /// A number whose logarithm is uniform.
    pub fn scale(&mut self, (least, most): (f64, f64)) -> f64 {
        least * libm::pow(most / least, self.unit())
    }
}
