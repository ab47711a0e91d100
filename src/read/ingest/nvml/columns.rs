//! Columns of a sample table: their meaning and the parsers of their cells.

use rooflens_session::Ns;

/// A quantity of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// UTC nanoseconds.
    UtcNs,
    /// Local date and time in one cell.
    DateTime,
    /// Local date of a `dmon` row, `YYYYMMDD`.
    Date,
    /// Local time of day of a `dmon` row.
    Time,
    /// Device index.
    Index,
    /// UUID or PCI bus id: tells GPUs apart where there is no index.
    Identity,
    /// Board power.
    Power,
    /// SM clock.
    SmClock,
    /// Memory clock.
    MemoryClock,
    /// Share of the sample period with a kernel resident.
    GpuUtil,
    /// Share of the sample period with memory traffic.
    MemoryUtil,
    /// Temperature of the chip.
    Temperature,
    /// Device memory in use.
    MemoryUsed,
    /// Bit mask of throttle reasons.
    Reasons,
    /// Product name.
    Name,
    /// Performance state.
    State,
    /// Device memory.
    MemoryTotal,
    /// Power limit in force.
    PowerLimit,
    /// Highest SM clock.
    SmClockMax,
    /// Highest memory clock.
    MemoryClockMax,
    /// Process number of a `pmon` row.
    Pid,
    /// Command of a `pmon` row.
    Command,
}

/// Columns of our sampler: name, meaning. Units are those of the model's table.
const SAMPLER: &[(&str, Field)] = &[
    ("t_ns", Field::UtcNs),
    ("gpu", Field::Index),
    ("power_mw", Field::Power),
    ("sm_mhz", Field::SmClock),
    ("mem_mhz", Field::MemoryClock),
    ("util_gpu_pct", Field::GpuUtil),
    ("util_mem_pct", Field::MemoryUtil),
    ("temp_c", Field::Temperature),
    ("mem_used_bytes", Field::MemoryUsed),
    ("throttle_reasons", Field::Reasons),
];

/// Columns of `nvidia-smi --query-gpu`, as its header prints them without the unit.
const QUERY: &[(&str, Field)] = &[
    ("timestamp", Field::DateTime),
    ("index", Field::Index),
    ("uuid", Field::Identity),
    ("gpu_uuid", Field::Identity),
    ("pci.bus_id", Field::Identity),
    ("gpu_bus_id", Field::Identity),
    ("power.draw", Field::Power),
    ("power.draw.instant", Field::Power),
    ("power.draw.average", Field::Power),
    ("clocks.sm", Field::SmClock),
    ("clocks.current.sm", Field::SmClock),
    ("clocks.mem", Field::MemoryClock),
    ("clocks.current.memory", Field::MemoryClock),
    ("utilization.gpu", Field::GpuUtil),
    ("utilization.memory", Field::MemoryUtil),
    ("temperature.gpu", Field::Temperature),
    ("memory.used", Field::MemoryUsed),
    ("clocks_throttle_reasons.active", Field::Reasons),
    ("clocks_event_reasons.active", Field::Reasons),
    ("name", Field::Name),
    ("gpu_name", Field::Name),
    ("pstate", Field::State),
    ("memory.total", Field::MemoryTotal),
    ("power.limit", Field::PowerLimit),
    ("enforced.power.limit", Field::PowerLimit),
    ("clocks.max.sm", Field::SmClockMax),
    ("clocks.max.memory", Field::MemoryClockMax),
];

/// Columns of `nvidia-smi dmon` and `pmon`; `pclk` is the graphics clock, which is the SM's.
const DMON: &[(&str, Field)] = &[
    ("Date", Field::Date),
    ("Time", Field::Time),
    ("gpu", Field::Index),
    ("pwr", Field::Power),
    ("gtemp", Field::Temperature),
    ("temp", Field::Temperature),
    ("sm", Field::GpuUtil),
    ("mem", Field::MemoryUtil),
    ("mclk", Field::MemoryClock),
    ("pclk", Field::SmClock),
    ("pid", Field::Pid),
    ("command", Field::Command),
];

/// The meaning of a column of our sampler.
pub(super) fn sampler(name: &str) -> Option<Field> {
    find(SAMPLER, name)
}

/// The meaning of a column of `--query-gpu`: `power.draw [W]`.
pub(super) fn query(name: &str) -> Option<Field> {
    find(QUERY, name.split('[').next().unwrap_or_default().trim())
}

/// The meaning of a column of `dmon`.
pub(super) fn dmon(name: &str) -> Option<Field> {
    find(DMON, name)
}

fn find(table: &[(&str, Field)], name: &str) -> Option<Field> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, field)| *field)
}

/// A cell: a number in the field's base unit (milliwatts, megahertz, percent, °C, bytes), nothing, or rubbish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// A number.
    Is(u64),
    /// The cell says that there is none.
    Absent,
    /// The cell is not a number.
    Bad,
}

/// Reads a cell of nvidia-smi: `38.74 W`, `2 MiB`, `[N/A]`, `0x4`; without a unit it is nvidia-smi's own.
pub(super) fn smi_number(field: Field, cell: &str) -> Number {
    if is_absent(cell) {
        return Number::Absent;
    }
    if let Some(hex) = cell.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_or(Number::Bad, Number::Is);
    }
    let (value, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let scale = match (field, unit.trim()) {
        (Field::Power | Field::PowerLimit, "" | "W") => 1e3,
        (Field::MemoryUsed | Field::MemoryTotal, "" | "MiB") => f64::from(1 << 20),
        (_, "" | "%" | "MHz" | "C") => 1.0,
        _ => return Number::Bad,
    };
    let value = value.parse::<f64>().ok().map(|value| value * scale);
    match value.filter(|value| (0.0..1e18).contains(value)) {
        Some(value) => Number::Is(value.round() as u64),
        None => Number::Bad,
    }
}

/// The most that a GPU can have of a field, in its base unit: what is above it is a fault of the file.
pub(super) const fn most(field: Field) -> u64 {
    match field {
        Field::GpuUtil | Field::MemoryUtil => 100,
        Field::Temperature => 200,
        Field::SmClock | Field::MemoryClock | Field::SmClockMax | Field::MemoryClockMax => 100_000,
        Field::Power | Field::PowerLimit => 100_000_000,
        Field::MemoryUsed | Field::MemoryTotal => 1 << 50,
        _ => u64::MAX,
    }
}

/// Reads a cell of our sampler: a whole number or nothing.
pub(super) fn whole_number(cell: &str) -> Number {
    if is_absent(cell) {
        return Number::Absent;
    }
    cell.parse().map_or(Number::Bad, Number::Is)
}

pub(super) fn is_absent(cell: &str) -> bool {
    let inner = cell.trim_start_matches('[').trim_end_matches(']');
    matches!(
        inner,
        "" | "-" | "N/A" | "Not Supported" | "Unknown Error" | "GPU is lost"
    ) || inner.starts_with("Requested functionality")
}

const MINUTE: Ns = Ns(60_000_000_000);

/// Nanoseconds since 1970 of `2024/01/31 12:00:00.250` (or with `-` in the date), taken as UTC; of ISO 8601 with its
/// zone (`2024-01-31T13:00:00+01:00`, `…Z`).
pub(super) fn date_time(cell: &str) -> Option<Ns> {
    let cell = cell.trim().trim_end_matches('Z');
    let (date, time) = cell.split_once([' ', 'T'])?;
    let (time, zone) = match time.rfind(['+', '-']) {
        Some(at) => (&time[..at], zone(&time[at..])?),
        None => (time, Ns::ZERO),
    };
    let mut parts = date.split(['/', '-']).map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    at(year, month, day, time)?.checked_sub(zone)
}

/// Nanoseconds by which a zone is before UTC: `+01:00`, `-0530`, `+01`.
fn zone(text: &str) -> Option<Ns> {
    let (sign, digits) = text.split_at_checked(1)?;
    let digits = digits.replace(':', "");
    let is_zone =
        matches!(digits.len(), 2 | 4) && digits.bytes().all(|digit| digit.is_ascii_digit());
    let (hours, minutes) = digits.split_at_checked(2).filter(|_| is_zone)?;
    let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().unwrap_or(0);
    Some(MINUTE * minutes * if sign == "-" { -1 } else { 1 })
}

/// Nanoseconds since 1970 of `20240131` and `12:00:00`, taken as UTC.
pub(super) fn dmon_time(date: &str, time: &str) -> Option<Ns> {
    let digits: i64 = date.parse().ok()?;
    at(digits / 10_000, digits / 100 % 100, digits % 100, time)
}

fn at(year: i64, month: i64, day: i64, time: &str) -> Option<Ns> {
    // Beyond these years nanoseconds leave 64 bits, or the file is not of a GPU.
    let plausible = (1970..2200).contains(&year) && (1..=12).contains(&month);
    if !plausible || !(1..=31).contains(&day) {
        return None;
    }
    let mut parts = time.trim().split(':');
    let (hour, minute) = (
        parts.next()?.parse::<u32>().ok()?,
        parts.next()?.parse::<u32>().ok()?,
    );
    let second: f64 = parts.next()?.parse().ok()?;
    if hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) || parts.next().is_some() {
        return None;
    }
    let minutes =
        (days_since_1970(year, month, day) * 24 + i64::from(hour)) * 60 + i64::from(minute);
    Some(MINUTE * minutes + Ns((second * 1e9).round() as i64))
}

/// Days of the Gregorian calendar: years begin in March, so that the leap day is the last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_dates_are_days_since_1970() {
        // date -u -d DATE +%s, divided by 86400.
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((2000, 2, 29), 11_016),
            ((2000, 3, 1), 11_017),
            ((2024, 2, 29), 19_782),
            ((2024, 12, 31), 20_088),
            ((2100, 3, 1), 47_541),
        ] {
            assert_eq!(days_since_1970(date.0, date.1, date.2), days, "{date:?}");
        }
    }

    #[test]
    fn impossible_times_are_refused() {
        assert_eq!(date_time("1970/01/01 00:00:01.5"), Some(Ns(1_500_000_000)));
        assert_eq!(
            date_time("1970-01-01T01:00:01+01:00"),
            Some(Ns(1_000_000_000))
        );
        assert_eq!(date_time("1969-12-31T23:30:00Z"), None);
        assert_eq!(
            date_time("1970-01-01T00:00:00-0030"),
            Some(Ns(1_800_000_000_000))
        );
        assert_eq!(date_time("1970-01-01T00:00:00+1"), None);
        for bad in [
            "",
            "2024/01/31",
            "2024/13/01 00:00:00",
            "2024/01/31 24:00:00",
            "x y",
            "9/9/9 1:1",
        ] {
            assert_eq!(date_time(bad), None, "{bad}");
        }
        assert_eq!(dmon_time("99999999", "00:00:00"), None);
    }

    #[test]
    fn cells_are_numbers_absent_or_bad() {
        assert_eq!(smi_number(Field::Power, "38.74 W"), Number::Is(38_740));
        assert_eq!(smi_number(Field::MemoryUsed, "2 MiB"), Number::Is(2 << 20));
        assert_eq!(
            smi_number(Field::Reasons, "0x0000000000000004"),
            Number::Is(4)
        );
        assert_eq!(
            smi_number(Field::GpuUtil, "[Not Supported]"),
            Number::Absent
        );
        assert_eq!(smi_number(Field::GpuUtil, "-1"), Number::Bad);
        assert_eq!(smi_number(Field::GpuUtil, "NaN"), Number::Bad);
        assert_eq!(smi_number(Field::MemoryUsed, "2 GiB"), Number::Bad);
        assert_eq!(whole_number(""), Number::Absent);
        assert_eq!(whole_number("1.5"), Number::Bad);
    }
}
