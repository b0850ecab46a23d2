//! Compares two sets of service times.

/// Means, and the distance of two distributions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compared {
    /// Requests.
    pub requests: usize,
    /// Mean of the real disk in milliseconds.
    pub real_mean_ms: f64,
    /// Mean of the model in milliseconds.
    pub sim_mean_ms: f64,
    /// Root mean square of the horizontal distance between the two distributions, in milliseconds.
    pub rms_ms: f64,
    /// The same divided by the real mean: the demerit figure of Ruemmler and Wilkes (1994).
    pub demerit: f64,
}

impl Compared {
    /// The error of the model's mean in percent of the real mean; positive: the model is slower.
    pub fn mean_error_pct(&self) -> f64 {
        if self.real_mean_ms == 0.0 { 0.0 } else { (self.sim_mean_ms / self.real_mean_ms - 1.0) * 100.0 }
    }
}

/// Compares service times in nanoseconds, pair by pair of two equally long lists. Both are sorted.
pub fn compare(real: &mut [u64], sim: &mut [u64]) -> Compared {
    let requests = real.len().min(sim.len());
    if requests == 0 {
        return Compared::default();
    }
    real.sort_unstable();
    sim.sort_unstable();
    let mean = |times: &[u64]| times.iter().map(|&time| time as f64).sum::<f64>() / requests as f64;
    let (real_mean, sim_mean) = (mean(real), mean(sim));
    let square = |(&real, &sim): (&u64, &u64)| {
        let distance = real as f64 - sim as f64;
        distance * distance
    };
    let squares: f64 = real.iter().zip(sim.iter()).map(square).sum();
    let rms = (squares / requests as f64).sqrt();
    Compared {
        requests,
        real_mean_ms: real_mean / 1e6,
        sim_mean_ms: sim_mean / 1e6,
        rms_ms: rms / 1e6,
        demerit: if real_mean == 0.0 { 0.0 } else { rms / real_mean },
    }
}

/// Pearson's correlation of two equally long lists; 0 if one of them is constant.
pub fn correlation(real: &[u64], sim: &[u64]) -> f64 {
    let count = real.len().min(sim.len()) as f64;
    if count == 0.0 {
        return 0.0;
    }
    let mean = |times: &[u64]| times.iter().map(|&time| time as f64).sum::<f64>() / count;
    let (real_mean, sim_mean) = (mean(real), mean(sim));
    let (mut both, mut of_real, mut of_sim) = (0.0, 0.0, 0.0);
    for (&real, &sim) in real.iter().zip(sim) {
        let (real, sim) = (real as f64 - real_mean, sim as f64 - sim_mean);
        both += real * sim;
        of_real += real * real;
        of_sim += sim * sim;
    }
    if of_real == 0.0 || of_sim == 0.0 { 0.0 } else { both / (of_real * of_sim).sqrt() }
}

/// DiskSim's own figures for a trace of its validation suite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskSim {
    /// The disk of the trace.
    pub disk: &'static str,
    /// Requests of the trace.
    pub requests: usize,
    /// Mean service time of the real disk in milliseconds, to three places: with the requests it tells the trace.
    pub real_mean_ms: f64,
    /// Mean of DiskSim in milliseconds.
    pub mean_ms: f64,
    /// Root mean square of the horizontal distance between the distributions in milliseconds: of all requests, the reads
    /// and the writes.
    pub rms_ms: [f64; 3],
}

/// Figures of DiskSim 4.0 (Bucy, Schindler, Schlosser and Ganger, CMU-PDL-08-101), run on the traces of its validation
/// suite with the parameters that come with them.
static DISKSIM: [DiskSim; 3] = [
    DiskSim {
        disk: "HP C2247A",
        requests: 9_999,
        real_mean_ms: 15.298,
        mean_ms: 15.312,
        rms_ms: [0.089, 0.150, 0.129],
    },
    DiskSim {
        disk: "Seagate Cheetah 9LP",
        requests: 10_000,
        real_mean_ms: 4.273,
        mean_ms: 4.231,
        rms_ms: [0.107, 0.123, 0.162],
    },
    DiskSim {
        disk: "IBM Ultrastar 18ES",
        requests: 10_000,
        real_mean_ms: 5.261,
        mean_ms: 5.236,
        rms_ms: [0.136, 0.165, 0.062],
    },
];

/// DiskSim's figures for a trace, if it is one of its validation suite and they are known.
pub fn disksim(all: &Compared) -> Option<&'static DiskSim> {
    let same = |row: &&DiskSim| {
        row.requests == all.requests && (row.real_mean_ms - all.real_mean_ms).abs() < 0.000_5
    };
    DISKSIM.iter().find(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_disksim_belong_to_their_traces_only() {
        let all = |requests, real_mean_ms| Compared { requests, real_mean_ms, ..Compared::default() };
        let hp = disksim(&all(9_999, 15.298_224)).unwrap();
        assert_eq!((hp.disk, hp.rms_ms[0]), ("HP C2247A", 0.089));
        assert_eq!(disksim(&all(10_000, 5.260_517)).unwrap().disk, "IBM Ultrastar 18ES");
        for (requests, mean) in [(10_000, 15.298), (10_000, 5.262), (3, 4.273)] {
            assert_eq!(disksim(&all(requests, mean)), None, "{requests}, {mean}");
        }
    }
}
