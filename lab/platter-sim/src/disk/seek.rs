//! Seek times: one table of all distances, made once with integers.

use super::error::ParamsError;
use super::params::{Hpl, SeekCurve, ThreePoint};

/// Longest seek, in nanoseconds.
const LONGEST: u64 = 1_000_000_000_000;

/// Time of a seek of each distance from 0 to `cylinders - 1`, in nanoseconds.
///
/// # Errors
/// A measured table that is empty or whose distances do not rise; a seek of more than 1000 seconds.
pub fn seek_table(curve: &SeekCurve, cylinders: u32) -> Result<Vec<u64>, ParamsError> {
    let table = times(curve, cylinders)?;
    match table.iter().position(|&time| time > LONGEST) {
        Some(distance) => {
            let what = format!("time of a seek over {distance} cylinders");
            Err(ParamsError::new(what, format!("{} ns", table[distance]), "at most 1000 seconds"))
        }
        None => Ok(table),
    }
}

fn times(curve: &SeekCurve, cylinders: u32) -> Result<Vec<u64>, ParamsError> {
    if let SeekCurve::Table(points) = curve {
        return from_points(points, cylinders);
    }
    if let SeekCurve::Settling(points) = curve {
        return Ok(settling(points, cylinders));
    }
    Ok((0..cylinders)
        .map(|distance| match (distance, curve) {
            (0, _) => 0,
            (_, SeekCurve::Constant(time)) => *time,
            (_, SeekCurve::Linear(points)) => linear(points, distance, cylinders),
            (_, SeekCurve::Curve(points)) => curved(points, distance, cylinders),
            (_, SeekCurve::Hpl(hpl)) => ruemmler(hpl, distance),
            (1..=10, SeekCurve::FirstTenHpl(first, _)) => first[distance as usize - 1],
            (_, SeekCurve::FirstTenHpl(_, hpl)) => ruemmler(hpl, distance),
            // Answered above.
            (_, SeekCurve::Table(_) | SeekCurve::Settling(_)) => 0,
        })
        .collect())
}

fn linear(points: &ThreePoint, distance: u32, cylinders: u32) -> u64 {
    let (d, n) = (i128::from(distance), i128::from(cylinders));
    let (one, average, full) = signed(points);
    let time = if 3 * d <= n {
        one + 3 * (d - 1) * (average - one) / n
    } else {
        average + (3 * d - n) * (full - average) / (2 * n)
    };
    u64::try_from(time).unwrap_or(0)
}

/// The curve of Lee and Katz through the three points; straight lines where it would have to fall.
fn curved(points: &ThreePoint, distance: u32, cylinders: u32) -> u64 {
    let (one, average, full) = signed(points);
    let n = i128::from(cylinders);
    // a = (-10·one + 15·average - 5·full) / (3·√n), b = (7·one - 15·average + 8·full) / (3·n).
    let root = -10 * one + 15 * average - 5 * full;
    let line = 7 * one - 15 * average + 8 * full;
    if root < 0 || line < 0 {
        return linear(points, distance, cylinders);
    }
    let d = i128::from(distance - 1);
    let roots = i128::from(root_32(u64::from(distance - 1)));
    let root_n = i128::from(root_32(u64::from(cylinders)));
    let time = one + root * roots / (3 * root_n.max(1)) + line * d / (3 * n);
    u64::try_from(time).unwrap_or(0)
}

/// With the end of acceleration at `u` of the cylinders and `s` the constant part, the speed is
/// `m = (full - s) / (n·(1 + u))`, and the mean over random pairs of cylinders
/// `s + m·n·(1/3 + u - u²/3 + u³/15)`: `u` follows from the mean by halving intervals.
fn settling(points: &ThreePoint, cylinders: u32) -> Vec<u64> {
    const ONE: i128 = 1 << 20;
    let (one, average, full) = signed(points);
    let settle = (one * 6 / 5).min(average).min(full);
    let n = i128::from(cylinders.max(1));
    // The mean above `settle`, times (1 + u), both as multiples of the full seek above it.
    let too_low = |u: i128| {
        let mean = ONE / 3 + u - u * u / (3 * ONE) + u * u / ONE * u / (15 * ONE);
        mean * (full - settle) < (average - settle) * (ONE + u)
    };
    let (mut low, mut high) = (0, ONE);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if too_low(middle) { low = middle } else { high = middle }
    }
    let divide = low * n / ONE;
    let speed = |distance: i128| (full - settle) * distance / (n + divide);
    let root_divide = i128::from(root_32(divide as u64));
    let time = |distance: u32| match distance {
        0 => 0,
        1 => one,
        _ if i128::from(distance) < divide => {
            // 2·m·√D·√d
            settle + speed(2 * root_divide * i128::from(root_32(u64::from(distance)))) / (1 << 32)
        }
        _ => settle + speed(divide + i128::from(distance)),
    };
    (0..cylinders).map(|distance| u64::try_from(time(distance)).unwrap_or(0)).collect()
}

fn ruemmler(hpl: &Hpl, distance: u32) -> u64 {
    let d = u64::from(distance);
    let picoseconds = match hpl.one {
        Some(one) if distance == 1 => return one,
        _ if distance < hpl.divide => {
            let root = u128::from(hpl.root_factor) * u128::from(root_32(d));
            u128::from(hpl.root_base) + (root >> 16)
        }
        _ => u128::from(hpl.line_base) + u128::from(hpl.line_factor) * u128::from(d),
    };
    u64::try_from((picoseconds + 500) / 1000).unwrap_or(u64::MAX)
}

/// Square root of a 32-bit number, with 16 fraction bits.
fn root_32(value: u64) -> u64 {
    (value << 32).isqrt()
}

fn signed(points: &ThreePoint) -> (i128, i128, i128) {
    (i128::from(points.one), i128::from(points.average), i128::from(points.full))
}

fn from_points(points: &[(u32, u64)], cylinders: u32) -> Result<Vec<u64>, ParamsError> {
    let mut before = 0;
    for &(distance, _) in points {
        if distance <= before {
            let expected = format!("more than {before}, the distance before it");
            return Err(ParamsError::new("distance of the seek table", distance, expected));
        }
        before = distance;
    }
    let Some(&last) = points.last() else {
        return Err(ParamsError::new("seek table", "empty", "at least one distance with its time"));
    };
    let mut all = vec![(0, 0)];
    all.extend_from_slice(points);
    let mut table = Vec::with_capacity(cylinders as usize);
    let mut at = 1;
    for distance in 0..cylinders {
        while distance > all[at].0 && distance < last.0 {
            at += 1;
        }
        at = if distance >= last.0 { all.len() - 1 } else { at };
        let ((d1, t1), (d2, t2)) = (all[at - 1], all[at]);
        let rise = i128::from(t2) - i128::from(t1);
        let time = i128::from(t1) + i128::from(distance - d1) * rise / i128::from(d2 - d1);
        table.push(u64::try_from(time).unwrap_or(0));
    }
    Ok(table)
}
