//! Facts about a simulated disk that results depend on and that its name does not show.

use super::describe::state;
use super::{Choices, DiskModel, Kind, source_of};
use crate::disk::DiskParams;

impl DiskModel {
    /// Names and facts of a disk made with `choices`: the initial state of a flash disk, and the rate of an
    /// interface that is slower than the medium. Empty if there are none.
    pub fn facts(&self, choices: &Choices) -> Vec<(&'static str, String)> {
        match self.kind {
            Kind::Flash(params) => vec![("start", state(choices.start.unwrap_or(params().start)).to_owned())],
            Kind::Mechanical(params) if !choices.on_bus => {
                let source = source_of(self.sources, "interface", "reads").unwrap_or("not given");
                interface(&params(), source).into_iter().collect()
            }
            Kind::Mechanical(_) | Kind::Cloud(_) | Kind::Ideal(_) => Vec::new(),
        }
    }
}

/// The rate of a disk's own interface, with its source, if the medium is faster on any track. Such a disk
/// reads no faster than this, whatever the rates of its zones.
pub fn interface(params: &DiskParams, source: &str) -> Option<(&'static str, String)> {
    // A sector in picoseconds; 0 stands for an interface that takes no time.
    let sector = params.bus.read_sector;
    let track = params.layout.zones.iter().map(|zone| zone.sectors_per_track).max()?;
    let rotation = 60_000_000_000_000 / u64::from(params.mechanics.rpm.max(1));
    let under_the_head = rotation / u64::from(track.max(1));
    (sector > under_the_head).then(|| {
        let rate = 512e12 / sector as f64;
        let fact = format!(
            "at most {:.2} MB/s ({:.2} MiB/s), less than the medium: {source}",
            rate / 1e6,
            rate / 1_048_576.0
        );
        ("interface", fact)
    })
}
