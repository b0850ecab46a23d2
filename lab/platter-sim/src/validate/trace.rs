//! Traces of service times measured on real disks.

use core::fmt;
use platter_block::bio::Op;
use platter_block::text::{excerpt, printable};
use std::path::{Path, PathBuf};

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Read or write.
    pub op: Op,
    /// First sector.
    pub sector: u64,
    /// Sectors.
    pub sectors: u32,
    /// Service time of the real disk in nanoseconds.
    pub measured: u64,
    /// From its end to the next request, in nanoseconds.
    pub gap: u64,
}

/// A line of a trace that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u32,
    /// The expected contents.
    pub expected: String,
    /// The contents found.
    pub found: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", printable(&self.file.display().to_string()))?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": expected {}, found {}", printable(&self.expected), excerpt(&self.found, 500))
    }
}

impl std::error::Error for TraceError {}

/// Most time that a trace may take, in nanoseconds: 40 years, far below the end of the clock.
const LONGEST: u64 = 40 * 365 * 86_400 * 1_000_000_000;

/// Reads a trace: lines `R|W WORD SECTOR SECTORS MEASURED_US GAP_US`. The word describes what the measured
/// disk's buffer did; it is not used. `sectors` is the size of the disk.
///
/// # Errors
/// A file that cannot be read or has no requests, a line that is not of this form or is past the end of the
/// disk, and times that add up to more than 40 years.
pub fn load_trace(path: &Path, sectors: u64) -> Result<Vec<Traced>, TraceError> {
    let bytes = std::fs::read(path).map_err(|error| TraceError {
        file: path.to_path_buf(),
        line: 0,
        expected: "a file that can be read".into(),
        found: error.to_string(),
    })?;
    // A line that is not UTF-8 is reported like any other invalid line.
    parse_trace(&String::from_utf8_lossy(&bytes), path, sectors)
}

/// Parses the text of a trace; `path` is for messages. See [`load_trace`].
///
/// # Errors
/// See [`load_trace`].
pub fn parse_trace(text: &str, path: &Path, sectors: u64) -> Result<Vec<Traced>, TraceError> {
    let mut trace = Vec::new();
    let error = |line: usize, expected: &str, found: &str| TraceError {
        file: path.to_path_buf(),
        line: line as u32,
        expected: expected.into(),
        found: if found.is_empty() { "none".into() } else { format!("`{found}`") },
    };
    let mut all = 0u64;
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let request = parse_line(line).map_err(|(expected, found)| error(number + 1, &expected, &found))?;
        let end = request.sector.checked_add(u64::from(request.sectors));
        if end.is_none_or(|end| end > sectors) {
            let expected = format!("sectors of the disk, which ends at {sectors}");
            return Err(error(number + 1, &expected, line.trim()));
        }
        all = all.saturating_add(request.measured).saturating_add(request.gap);
        if all > LONGEST {
            return Err(error(number + 1, "times that add up to at most 40 years", line.trim()));
        }
        trace.push(request);
    }
    if trace.is_empty() {
        return Err(error(0, "requests", ""));
    }
    Ok(trace)
}

fn parse_line(line: &str) -> Result<Traced, (String, String)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let &[op, _, sector, sectors, measured, gap] = fields.as_slice() else {
        return Err((
            "six fields, `R|W WORD SECTOR SECTORS MEASURED_US GAP_US`".into(),
            line.trim().to_string(),
        ));
    };
    let op = match op {
        "R" => Op::Read,
        "W" => Op::Write,
        _ => return Err(("`R` or `W` as the first field".into(), op.to_string())),
    };
    let time = |what: &str, field: &str| {
        let time = field.parse::<f64>().ok().filter(|time| (0.0..1e12).contains(time));
        time.map(|time| (time * 1000.0).round() as u64)
            .ok_or_else(|| (format!("microseconds of at least 0 as the {what}"), field.to_string()))
    };
    Ok(Traced {
        op,
        sector: sector
            .parse()
            .map_err(|_| ("a sector number as the third field".into(), sector.to_string()))?,
        sectors: sectors
            .parse()
            .ok()
            .filter(|&sectors| sectors > 0)
            .ok_or_else(|| ("a number of sectors from 1 as the fourth field".into(), sectors.to_string()))?,
        measured: time("fifth field", measured)?,
        gap: time("sixth field", gap)?,
    })
}
