//! How the work of an elevator grows with the number of requests that wait: looks and comparisons, counted.

use super::engine::{BLOCK, Engine, SIZE};
use super::{Figures, Stage, elevator};
use crate::ReproError;
use platter_block::bio::{Context, IoPrio, Op};
use platter_block::driver::Features;
use platter_block::elevator::{Deadline, Dir, Elevator, RequestId, RequestInfo};
use platter_block::queue::Settings;
use platter_block::time::Time;
use platter_elevators::Linus;
use platter_sim::rng::Rng;

/// Requests that wait, and the names of the figures.
type Sizes = [(u32, &'static str); 3];

/// Probes of each size.
const PROBES: u32 = 256;

fn info(rng: &mut Rng) -> RequestInfo {
    RequestInfo {
        pos: rng.below(SIZE / BLOCK) * BLOCK,
        len: BLOCK,
        dir: Dir::Read,
        op: Op::Read,
        sync: true,
        ioprio: IoPrio::NONE,
        context: Context::new(1),
    }
}

fn id(index: u32) -> RequestId {
    RequestId { index, generation: 0 }
}

/// Mean number of requests that linus, as in a kernel, looks at to insert one more behind `waiting`; and how many it looks
/// at to take them all out.
fn looks(kernel: &'static str, waiting: u32, rng: &mut Rng) -> Result<(f64, f64), ReproError> {
    let mut linus = Linus::default();
    let words = linus.params()[0].words.iter().position(|word| *word == kernel);
    let word = words.ok_or(ReproError::NoPreset { kernel, elevator: "linus" })?;
    linus.set("kernel", word as i64).map_err(|error| ReproError::Stack(error.to_string()))?;
    (0..waiting).for_each(|index| linus.insert(Time(0), id(index), &info(rng)));
    let before = linus.scanned();
    for index in 0..PROBES {
        linus.insert(Time(0), id(waiting + index), &info(rng));
        linus.dispatch(Time(0), false);
    }
    let of_one = (linus.scanned() - before) as f64 / f64::from(PROBES);
    let before = linus.scanned();
    while linus.dispatch(Time(0), false).is_some() {}
    Ok((of_one, (linus.scanned() - before) as f64))
}

/// Mean number of comparisons with which deadline finds the place of one more behind `waiting`, and with which it takes
/// the next one out.
fn compared(waiting: u32, rng: &mut Rng) -> (f64, f64) {
    let mut deadline = Deadline::default();
    let mut infos = Vec::new();
    for index in 0..waiting {
        infos.push(info(rng));
        deadline.insert(Time(0), id(index), &infos[index as usize]);
    }
    let probes = (0..PROBES).map(|_| deadline.comparisons(id(waiting), &info(rng)));
    let insert = probes.sum::<usize>() as f64 / f64::from(PROBES);
    let mut taken = 0;
    let mut next = || {
        let copy = deadline.clone();
        let id = deadline.dispatch(Time(0), false)?;
        taken += copy.comparisons(id, &infos[id.index as usize]);
        Some(())
    };
    let served = (0..16).map_while(|_| next()).count();
    (insert, taken as f64 / served as f64)
}

/// The mean of several fillings: that of few requests is spread over a number of leaves that varies.
fn mean_compared(waiting: u32, fillings: u32, rng: &mut Rng) -> (f64, f64) {
    let mut sum = (0.0, 0.0);
    for _ in 0..fillings {
        let (insert, next) = compared(waiting, rng);
        sum = (sum.0 + insert, sum.1 + next);
    }
    (sum.0 / f64::from(fillings), sum.1 / f64::from(fillings))
}

/// The slope of `y` over `x` between two points on logarithmic scales.
fn exponent((x0, y0): (f64, f64), (x1, y1): (f64, f64)) -> f64 {
    (y1 / y0).ln() / (x1 / x0).ln()
}

/// O(n) against O(log n) sorting.
pub(super) fn sorting(stage: &Stage<'_>) -> Result<Figures, ReproError> {
    const LINUS: Sizes = [(128, "looks-128"), (1024, "looks-1024"), (8192, "looks-8192")];
    const AGED: Sizes = [(128, "aged-128"), (1024, "aged-1024"), (8192, "aged-8192")];
    const DEADLINE: Sizes = [(128, "compared-128"), (1024, "compared-1024"), (8192, "compared-8192")];
    let mut rng = Rng::new(stage.seed);
    let mut figures = Figures::new();
    let mut taken = 0.0;
    for (waiting, name) in LINUS {
        let (inserted, out) = looks("2.4.0", waiting, &mut rng)?;
        figures.insert(name, inserted);
        taken += out;
    }
    for (waiting, name) in AGED {
        figures.insert(name, looks("2.4.20", waiting, &mut rng)?.0);
    }
    figures.insert("next-2.4", taken);
    let of = |figures: &Figures, name| figures.get(name).copied().unwrap_or(f64::NAN);
    let ends = ["looks-128", "looks-8192"].map(|name| of(&figures, name));
    figures.insert("sort-2.4", exponent((128.0, ends[0]), (8192.0, ends[1])));
    for (waiting, name) in DEADLINE {
        figures.insert(name, compared(waiting, &mut rng).0);
    }
    let few = mean_compared(128, 32, &mut rng);
    let many = mean_compared(65_536, 1, &mut rng);
    figures.insert("sort-2.6", many.0 / few.0);
    figures.insert("next-2.6", many.1 / few.1);
    let ends = ["looks-8192", "compared-8192"].map(|name| of(&figures, name));
    figures.insert("sort-both", ends[0] / ends[1]);
    Ok(figures)
}

/// O(1) merging.
pub(super) fn merging(stage: &Stage<'_>) -> Result<Figures, ReproError> {
    const SIZES: Sizes = [(128, "merge-128"), (1024, "merge-1024"), (8192, "merge-8192")];
    let mut rng = Rng::new(stage.seed);
    let mut figures = Figures::new();
    for (waiting, name) in SIZES {
        let settings = Settings { nr_requests: waiting, plug: None, ..Settings::default() };
        let mut engine = Engine::with(elevator("2.6.7", "deadline")?, settings, Features::NONE);
        for _ in 0..waiting {
            engine.submit(Dir::Read, rng.below(SIZE / BLOCK) * BLOCK, 1)?;
        }
        let probes = (0..PROBES).map(|_| engine.queue.merge_looks(rng.below(SIZE / BLOCK) * BLOCK, BLOCK));
        figures.insert(name, probes.sum::<usize>() as f64 / f64::from(PROBES));
    }
    let most = figures.values().copied().fold(0.0, f64::max);
    figures.insert("merge-2.6", most);
    Ok(figures)
}
