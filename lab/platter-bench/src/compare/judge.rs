//! What two sides differ in.

use super::run::{Figures, Metric};
use super::side::{CompareError, Key, Side};
use crate::report::units::{change, fixed};
use crate::stats::blocks::{block_means, drift};
use crate::stats::{Interval, Permutation, Sample, runs_needed};
use serde_json::{Value, json};

/// How sides are compared.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The figures.
    pub metrics: Vec<Metric>,
    /// Run `i` of both sides was measured under the same circumstances, one after the other.
    pub paired: bool,
    /// With this probability all intervals of a comparison cover their ratios.
    pub confidence: f64,
}

impl Default for Plan {
    /// Rate, median and 99 % of the latencies, processor time; unpaired, at 95 %.
    fn default() -> Plan {
        let metrics = vec![Metric::Iops, Metric::LatP50, Metric::LatP99, Metric::CpuPerIo];
        Plan { metrics, paired: false, confidence: 0.95 }
    }
}

/// What an interval comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Runs.
    Runs,
    /// Blocks of the runs over time: noise between runs is not in it.
    Blocks,
    /// There is no interval.
    None,
}

impl Evidence {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Evidence::Runs => "runs",
            Evidence::Blocks => "blocks",
            Evidence::None => "none",
        }
    }
}

/// What is known of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The new side is better.
    Better,
    /// The new side is worse.
    Worse,
    /// The interval includes no change.
    NoDifference,
    /// There is no interval, for this reason.
    Unknown(String),
}

impl Verdict {
    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NoDifference => "no difference",
            Verdict::Unknown(_) => "unknown",
        }
    }
}

/// A figure of a job on both sides.
#[derive(Debug, Clone)]
pub struct Row {
    /// Job and direction.
    pub job: String,
    /// The figure.
    pub metric: Metric,
    /// The values of the runs of the base.
    pub base: Vec<f64>,
    /// Those of the new side.
    pub new: Vec<f64>,
    /// New over base; `None` without an interval.
    pub ratio: Option<Interval>,
    /// What the interval comes from.
    pub evidence: Evidence,
    /// What follows.
    pub verdict: Verdict,
}

/// The median of values; they are never empty.
pub(super) fn median(values: &[f64]) -> f64 {
    Sample::new(values).map_or(f64::NAN, |sample| sample.median())
}

impl Row {
    /// New over base: of the interval or, without one, of the medians.
    pub fn estimate(&self) -> f64 {
        self.ratio.map_or_else(|| median(&self.new) / median(&self.base), |ratio| ratio.estimate)
    }

    /// By how much the new side is worse, as a share of the base; below 0 if it is better.
    pub fn loss(&self) -> f64 {
        match self.metric.higher_is_better() {
            true => 1.0 - self.estimate(),
            false => self.estimate() - 1.0,
        }
    }

    /// The verdict in words.
    pub fn words(&self) -> String {
        let percent = |ratio: f64| change((ratio - 1.0) * 100.0);
        let range = self.ratio.map(|ratio| format!("({} to {})", percent(ratio.low), percent(ratio.high)));
        let range = range.unwrap_or_default();
        match &self.verdict {
            Verdict::Unknown(why) => format!("not known: {why}"),
            Verdict::NoDifference => format!("no difference found {range}"),
            verdict => format!("{}: {} {range}", verdict.name(), percent(self.estimate())),
        }
    }

    fn to_json(&self) -> Value {
        let reason = match &self.verdict {
            Verdict::Unknown(why) => Some(why),
            _ => None,
        };
        json!({
            "job": self.job,
            "metric": self.metric.name(),
            "higher_is_better": self.metric.higher_is_better(),
            "base": self.base,
            "new": self.new,
            "base_median": median(&self.base),
            "new_median": median(&self.new),
            "ratio": self.estimate(),
            "ratio_low": self.ratio.map(|ratio| ratio.low),
            "ratio_high": self.ratio.map(|ratio| ratio.high),
            "evidence": self.evidence.name(),
            "verdict": self.verdict.name(),
            "reason": reason,
        })
    }
}

/// Two sides compared.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The base.
    pub base: Side,
    /// The other side.
    pub new: Side,
    /// The figures.
    pub rows: Vec<Row>,
    /// The confidence of each interval.
    pub of_each: f64,
    /// What to know before one believes it.
    pub notes: Vec<String>,
}

impl Comparison {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let side = |side: &Side| {
            let sources: Vec<&str> = side.runs.iter().map(|run| run.source.as_str()).collect();
            json!({ "name": side.name, "runs": sources })
        };
        json!({
            "base": side(&self.base),
            "new": side(&self.new),
            "confidence_of_each_pct": self.of_each * 100.0,
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }

    /// The rows by which the new side is worse by more than this share, or of which that is not known.
    pub fn losses(&self, more_than: f64) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| match row.verdict {
            Verdict::Worse => row.loss() > more_than,
            Verdict::Unknown(_) => true,
            Verdict::Better | Verdict::NoDifference => false,
        })
    }
}

/// Compares a side with a base.
///
/// # Errors
/// They have no figure in common, or not as many runs although they are paired.
pub fn compare(base: &Side, new: &Side, plan: &Plan) -> Result<Comparison, CompareError> {
    let (base_runs, new_runs) = (base.runs.len(), new.runs.len());
    if plan.paired && base_runs != new_runs {
        let (base, new) = (base.name.clone(), new.name.clone());
        return Err(CompareError::Unpaired { base, new, base_runs, new_runs });
    }
    let mut found: Vec<Found<'_>> = Vec::new();
    for (of_base, of_new) in pairs(base, new) {
        for &metric in &plan.metrics {
            let figures = |side: &'_ Side, key: &Key| side.of(key).cloned().collect::<Vec<Figures>>();
            let has = |figures: &Figures| figures.values.contains_key(&metric);
            let (base, new) = (figures(base, &of_base), figures(new, &of_new));
            if !base.is_empty() && !new.is_empty() && base.iter().chain(&new).all(has) {
                found.push(Found { job: of_new.text(), metric, base, new, plan });
            }
        }
    }
    if found.is_empty() {
        let has = |side: &Side| side.keys().iter().map(Key::text).collect::<Vec<_>>().join(", ");
        let (base_has, new_has) = (has(base), has(new));
        return Err(CompareError::Nothing {
            base: base.name.clone(),
            new: new.name.clone(),
            base_has,
            new_has,
        });
    }
    let of_each = 1.0 - (1.0 - plan.confidence) / found.len() as f64;
    let rows: Vec<Row> = found.iter().map(|found| found.row(of_each)).collect();
    let notes = notes(base, new, &rows);
    Ok(Comparison { base: base.clone(), new: new.clone(), rows, of_each, notes })
}

/// The jobs that both sides have: those of one name; if each has only one, these.
fn pairs(base: &Side, new: &Side) -> Vec<(Key, Key)> {
    let (of_base, of_new) = (base.keys(), new.keys());
    let jobs = |keys: &[Key]| {
        let mut jobs: Vec<String> = keys.iter().map(|key| key.job.clone()).collect();
        jobs.dedup();
        jobs.len()
    };
    let by_direction = jobs(&of_base) == 1 && jobs(&of_new) == 1;
    let is_same = |a: &Key, b: &Key| a.direction == b.direction && (by_direction || a.job == b.job);
    let pair = |new: Key| Some((of_base.iter().find(|base| is_same(base, &new))?.clone(), new));
    of_new.into_iter().filter_map(pair).collect()
}

/// A figure that both sides have.
struct Found<'p> {
    job: String,
    metric: Metric,
    base: Vec<Figures>,
    new: Vec<Figures>,
    plan: &'p Plan,
}

impl Found<'_> {
    fn values(&self, side: &[Figures]) -> Vec<f64> {
        side.iter().filter_map(|figures| figures.values.get(&self.metric).copied()).collect()
    }

    /// The means of blocks of all runs; `None` if a run has no series that is long enough.
    fn blocks(&self, side: &[Figures]) -> Option<Vec<f64>> {
        let means = side.iter().map(|figures| block_means(figures.series.get(&self.metric)?));
        Some(means.collect::<Option<Vec<_>>>()?.concat())
    }

    fn row(&self, confidence: f64) -> Row {
        let (base, new) = (self.values(&self.base), self.values(&self.new));
        let how = Permutation { confidence, ..Permutation::default() };
        let (ratio, evidence) = match self.of_runs(how, &new, &base) {
            Some(ratio) => (Some(ratio), Evidence::Runs),
            None => match self.of_blocks(how) {
                Some(ratio) => (Some(ratio), Evidence::Blocks),
                None => (None, Evidence::None),
            },
        };
        let verdict = match ratio {
            None => Verdict::Unknown(self.why_not(confidence, &base, &new)),
            Some(ratio) if ratio.low <= 1.0 && ratio.high >= 1.0 => Verdict::NoDifference,
            Some(ratio) if (ratio.low > 1.0) == self.metric.higher_is_better() => Verdict::Better,
            Some(_) => Verdict::Worse,
        };
        Row { job: self.job.clone(), metric: self.metric, base, new, ratio, evidence, verdict }
    }

    fn of_runs(&self, how: Permutation, new: &[f64], base: &[f64]) -> Option<Interval> {
        let ratio = match self.plan.paired {
            true => how.paired_ratio(new, base),
            false => how.ratio(new, base),
        };
        ratio.ok().flatten()
    }

    fn of_blocks(&self, how: Permutation) -> Option<Interval> {
        let (new, base) = (self.blocks(&self.new)?, self.blocks(&self.base)?);
        how.ratio(&new, &base).ok().flatten()
    }

    fn why_not(&self, confidence: f64, base: &[f64], new: &[f64]) -> String {
        if base.iter().chain(new).any(|&value| value <= 0.0) {
            return "a value is 0".to_owned();
        }
        let needed = runs_needed(confidence, self.plan.paired);
        format!("{} and {} runs; {needed} of each are needed", base.len(), new.len())
    }
}

/// Options that differ.
fn option_notes(base: &Side, new: &Side, notes: &mut Vec<String>) {
    let programs = |side: &Side| side.runs.iter().map(|run| run.program).collect::<Vec<_>>();
    if let (Some(ours), Some(theirs)) =
        (programs(base).first(), programs(new).iter().find(|one| !programs(base).contains(one)))
    {
        return notes.push(format!(
            "results of {ours} and of {theirs}: latencies are measured at other places, and options are not compared"
        ));
    }
    let options: Vec<&String> =
        base.runs.iter().chain(&new.runs).flat_map(|run| run.options.keys()).collect();
    let mut names: Vec<&String> = options;
    names.sort();
    names.dedup();
    for name in names {
        let values = |side: &Side| {
            let mut values: Vec<String> = side
                .runs
                .iter()
                .map(|run| run.options.get(name).cloned().unwrap_or_else(|| "-".into()))
                .collect();
            values.sort();
            values.dedup();
            values
        };
        let (ours, theirs) = (values(base), values(new));
        if ours != theirs {
            notes.push(format!("{name} differs: {} against {}", ours.join(", "), theirs.join(", ")));
        } else if ours.len() > 1 {
            notes.push(format!("{name} differs between runs of one side: {}", ours.join(", ")));
        }
    }
}

fn notes(base: &Side, new: &Side, rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    option_notes(base, new, &mut notes);
    for run in base.runs.iter().chain(&new.runs) {
        for figures in &run.figures {
            let over_time = figures.series.get(&Metric::Iops).and_then(|series| drift(series));
            if let Some(over_time) = over_time {
                let by = change(over_time * 100.0);
                notes.push(format!(
                    "{}: not steady: its rate changes by {by} from the start to the end",
                    run.source
                ));
            }
        }
    }
    let (runs, blocks) = (Evidence::Runs, Evidence::Blocks);
    if rows.iter().any(|row| row.evidence == blocks) {
        notes.push(
            "intervals come from blocks of the runs over time: what differs from run to run is not in them"
                .to_owned(),
        );
    }
    let spread = |row: &Row| row.ratio.map_or(0.0, |ratio| ratio.high / ratio.low - 1.0);
    let widest =
        rows.iter().filter(|row| row.evidence == runs).max_by(|a, b| spread(a).total_cmp(&spread(b)));
    if let Some(widest) = widest.filter(|row| spread(row) > 0.2 && row.verdict == Verdict::NoDifference) {
        let percent = fixed(spread(widest) * 100.0, 0);
        notes.push(format!(
            "{}: the interval is {percent} % wide; more runs make it narrower",
            widest.metric.name()
        ));
    }
    notes
}
