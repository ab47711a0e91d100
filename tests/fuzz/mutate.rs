//! Inputs from inputs: a seeded mutator with a dictionary of what the formats are made of.

/// Texts and bytes that mean something to an importer.
pub(crate) const DICTIONARY: &[&[u8]] = &[
    b"\"ph\":\"X\"",
    b"\"cat\":\"kernel\"",
    b"\"cat\":\"cpu_op\"",
    b"\"cat\":\"cuda_runtime\"",
    b"\"args\":{",
    b"\"correlation\":",
    b"\"traceEvents\":[",
    b"\"External id\":",
    b"\"Input Dims\":[[",
    b"\"stream\":",
    b"\"device\":",
    b"},{",
    b"}\n,{",
    b"\\u0000",
    b"\\\"",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"1e308",
    b"-1e-320",
    b"NaN",
    b"null",
    b"0.001",
    b"4294967296",
    b"\"ID\",\"Process ID\",\"Process Name\",",
    b"\"\",\"\",",
    b"n/a",
    b"0x",
    b"\r\n",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\x0d\0\0\0",
    b"\x05\0\0\0",
    b"NVR\0",
    b"\x08\x96\x01",
    b"\x6a\0",
    b"\x12\xff\xff\xff\xff\x0f",
    b"[[stages]]",
    b"match = \"",
    b"(?i)",
    b"(a{999}){9}",
    b"\\w{99}",
    b"warmup = ",
    b"[passes.x]",
    b"../",
    b"/etc/passwd",
    b"ustar",
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"SQLite format 3\0",
    b"<nvidia_smi_log>",
    b"</gpu>",
    b"t_ns,",
    b"select ",
    b" from launches",
    b" group by ",
    b"@section:",
    b"I! cuBLAS",
    b"i!  m: type=int; val=",
    b"_ZN2at6native",
    b"1S0_S0_E",
    b"\xe2\x80\xae",
    b"\x1b[2J",
    b"=cmd()",
];

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, 0 for none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        if limit == 0 {
            0
        } else {
            (self.next() % limit as u64) as usize
        }
    }

    /// A part of so many bytes: begin, and a length of at most so many bits, short ones more often.
    fn part(&mut self, length: usize, bits: usize) -> (usize, usize) {
        let (at, longest) = (self.below(length), 1 << self.below(bits + 1));
        (at, self.below(longest.min(length - at) + 1))
    }
}

/// A copy of `seed` with one to eight changes, some of them parts of `other`.
pub(crate) fn mutated(random: &mut Random, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(data.len());
        match random.below(9) {
            0 if !data.is_empty() => data[at] ^= 1 << random.below(8),
            1 if !data.is_empty() => data[at] = random.below(256) as u8,
            2 => insert(&mut data, at, DICTIONARY[random.below(DICTIONARY.len())]),
            3 => {
                let word = DICTIONARY[random.below(DICTIONARY.len())];
                let end = (at + word.len()).min(data.len());
                data[at..end].copy_from_slice(&word[..end - at]);
            }
            4 => {
                let (at, length) = random.part(data.len(), 12);
                data.drain(at..at + length);
            }
            5 => {
                let (from, length) = random.part(data.len(), 8);
                let part = data[from..from + length].repeat(1 + random.below(64));
                insert(&mut data, at, &part);
            }
            6 => {
                let (from, length) = random.part(other.len(), 12);
                insert(&mut data, at, &other[from..from + length]);
            }
            7 => number(random, &mut data, at),
            _ if random.below(8) == 0 => data.truncate(at),
            _ => {}
        }
        data.truncate(LONGEST);
    }
    data
}

/// Longest input.
const LONGEST: usize = 128 << 10;

fn insert(data: &mut Vec<u8>, at: usize, part: &[u8]) {
    data.splice(at..at, part.iter().copied());
}

/// Another number in place of the one that begins next.
fn number(random: &mut Random, data: &mut Vec<u8>, at: usize) {
    let Some(first) = data[at..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let first = at + first;
    let length = data[first..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let numbers = [
        "0",
        "1",
        "7",
        "255",
        "65536",
        "2147483648",
        "9223372036854775807",
        "1e9",
        "00",
        "-1",
    ];
    data.splice(
        first..first + length,
        numbers[random.below(numbers.len())].bytes(),
    );
}
