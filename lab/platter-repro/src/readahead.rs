//! Published results about readahead from 2.6.0 to 3.12: its rules, exactly, and the gains of changes.

mod exact;
mod pai;
mod speed;
mod timed;

use super::claim::{Claim, Rule};
use super::kind::Kind;
use super::{Experiment, Hooks, Options, Report, ReproError};

/// The row of the table.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "readahead",
    summary: "readahead from Linux 2.4 to 3.12: its I/Os, and the gains of changes",
    elevators: super::no_elevators,
    run,
};

/// Changes to mm/readahead.c, with their texts.
const CHANGES: &str = "Linux, changelogs of mm/readahead.c";
const EUROSYS: &str = "Li, Papathanasiou and Shen, Competitive prefetching, EuroSys 2007";

fn claim(
    id: &'static str,
    from: (&'static str, &str),
    says: &'static str,
    unit: &'static str,
    rule: Rule,
) -> Claim {
    Claim::new(id, Kind::Prediction, from, (says, unit), rule)
}

fn run(options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
    let speeds = speed::run(options, hooks)?;
    let mut claims = exact::claims();
    claims.extend(pai::claims());
    claims.extend(speed::claims(&speeds));
    Ok(Report {
        name: EXPERIMENT.name,
        summary: EXPERIMENT.summary,
        method: method(options.scale),
        tables: vec![("Programs in virtual time".to_owned(), speed::table(&speeds[0]))],
        charts: Vec::new(),
        claims,
        scale: options.scale,
    })
}

fn method(scale: u64) -> Vec<String> {
    [
        "I/Os: policies on a model of a page cache in which threads take turns, a page each, and an I/O takes a \
         turn. Windows of 32 pages, nothing cached at first. Claims with a number of I/Os hold if all I/Os are \
         as stated.",
        "Speed: the cache of Platter over models of disks and of a server, in virtual time. The published figures \
         are seconds and rates on machines about which little is known; claims are about ratios, and hold within \
         30 %, or a factor of 2 from a ratio of 2 on, and within narrower ranges that were set after the first runs. Processor time is not modelled.",
        &format!("Sizes of programs are divided by {scale}, on both sides of a comparison."),
    ]
    .map(str::to_owned)
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_exact() {
        for claim in exact::claims() {
            assert_eq!(claim.holds(), Some(true), "{claim:?}");
        }
        let holds =
            |id: &str| pai::claims().into_iter().find(|claim| claim.id == id).and_then(|claim| claim.holds());
        for id in ["four-in-turn", "stays-off", "size-whole", "lookups-size"] {
            assert_eq!(holds(id), Some(true), "{id}");
        }
    }
}
