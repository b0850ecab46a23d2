//! Values derived from the parameters of a disk.

use platter_bench::report::units::{bytes, fixed, percent, thousands};
use platter_bench::report::{Column, Table};
use platter_sim::disk::DiskParams;
use platter_sim::disk::layout::Layout;
use platter_sim::disk::params::{Skew, ZoneParams};
use platter_sim::disk::seek::seek_table;
use platter_sim::flash::SsdParams;
use serde_json::{Value, json};

/// A zone of a mechanical disk.
pub(super) struct ZoneRates {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) sectors_per_track: u32,
    /// While the head is on a track, in MB/s (millions).
    pub(super) media: f64,
    /// Over whole cylinders, with the changes of head and cylinder.
    pub(super) sustained: f64,
}

/// Derived values.
#[derive(Default)]
pub(super) struct Derived {
    pub(super) sectors: u64,
    pub(super) rotation_ms: f64,
    /// Mean over all pairs of cylinders.
    pub(super) average_seek_ms: f64,
    pub(super) full_seek_ms: f64,
    /// Rate of the disk's own interface in MB/s; `None` if it takes no time.
    pub(super) interface: Option<f64>,
    pub(super) zones: Vec<ZoneRates>,
    /// Milliseconds by distance in cylinders.
    pub(super) seek_ms: Vec<f64>,
    /// Bytes of flash, and percent more than the size.
    pub(super) raw: Option<(u64, f64)>,
}

impl Derived {
    pub(super) fn mechanical(params: &DiskParams) -> Result<Derived, String> {
        let rpm = params.mechanics.rpm;
        let layout = Layout::new(&params.layout, rpm).map_err(|error| error.to_string())?;
        let seeks =
            seek_table(&params.mechanics.seek, params.layout.cylinders).map_err(|error| error.to_string())?;
        let seek_ms: Vec<f64> = seeks.iter().map(|&nanos| nanos as f64 / 1e6).collect();
        // Of all pairs of n cylinders, 2 (n - d) are d apart.
        let n = seek_ms.len() as f64;
        let weighted = seek_ms.iter().enumerate().map(|(d, ms)| 2.0 * (n - d as f64) * ms);
        let rotation_ms = 60_000.0 / f64::from(rpm);
        let rates = |zone: &ZoneParams| rates(zone, params.layout.heads, rotation_ms);
        Ok(Derived {
            sectors: layout.sectors(),
            rotation_ms,
            average_seek_ms: weighted.sum::<f64>() / (n * n),
            full_seek_ms: seek_ms.last().copied().unwrap_or(0.0),
            // A sector in picoseconds.
            interface: (params.bus.read_sector > 0).then(|| 512e6 / params.bus.read_sector as f64),
            zones: params.layout.zones.iter().map(rates).collect(),
            seek_ms,
            raw: None,
        })
    }

    pub(super) fn flash(params: &SsdParams) -> Result<Derived, String> {
        let raw = params.raw_bytes().map_err(|error| error.to_string())?;
        let more = (raw - params.size) as f64 * 100.0 / params.size as f64;
        Ok(Derived { raw: Some((raw, more)), ..Derived::default() })
    }

    pub(super) fn json(&self) -> Value {
        if let Some((raw, more)) = self.raw {
            return json!({ "raw_bytes": raw, "over_provisioning_pct": more });
        }
        if self.zones.is_empty() {
            return json!({});
        }
        let zone = |zone: &ZoneRates| {
            json!({
                "first_cylinder": zone.first,
                "last_cylinder": zone.last,
                "sectors_per_track": zone.sectors_per_track,
                "media_mb_per_s": zone.media,
                "sustained_mb_per_s": zone.sustained,
            })
        };
        json!({
            "sectors": self.sectors,
            "rotation_ms": self.rotation_ms,
            "average_seek_ms": self.average_seek_ms,
            "full_seek_ms": self.full_seek_ms,
            "interface_mb_per_s": self.interface,
            "zones": self.zones.iter().map(zone).collect::<Vec<_>>(),
        })
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        if let Some((raw, more)) = self.raw {
            return vec![("flash", format!("{}, {} more than the size", bytes(raw), percent(more)))];
        }
        let (Some(outer), Some(inner)) = (self.zones.first(), self.zones.last()) else { return Vec::new() };
        vec![
            ("sectors", thousands(self.sectors)),
            ("one rotation", format!("{} ms", fixed(self.rotation_ms, 3))),
            ("average seek", format!("{} ms between any two cylinders", fixed(self.average_seek_ms, 3))),
            ("full seek", format!("{} ms", fixed(self.full_seek_ms, 3))),
            ("media rate", format!("{} to {} MB/s", fixed(outer.media, 1), fixed(inner.media, 1))),
            (
                "sustained rate",
                format!("{} to {} MB/s", fixed(outer.sustained, 1), fixed(inner.sustained, 1)),
            ),
        ]
    }

    pub(super) fn zone_table(&self) -> Table {
        let mut table = Table::new([
            Column::text("cylinders"),
            Column::number("track", "sectors"),
            Column::number("media", "MB/s"),
            Column::number("sustained", "MB/s"),
        ]);
        for zone in &self.zones {
            table.row([
                format!("{} to {}", zone.first, zone.last),
                zone.sectors_per_track.to_string(),
                fixed(zone.media, 1),
                fixed(zone.sustained, 1),
            ]);
        }
        table
    }
}

fn rates(zone: &ZoneParams, heads: u32, rotation_ms: f64) -> ZoneRates {
    let track = f64::from(zone.sectors_per_track);
    let turns = |skew: Skew| match skew {
        Skew::Sectors(sectors) => f64::from(sectors) / track,
        Skew::Revolution(part) => f64::from(part) / f64::from(u32::MAX),
    };
    let heads = f64::from(heads);
    let changes = turns(zone.track_skew) * (heads - 1.0) + turns(zone.cylinder_skew);
    let media = track * 512.0 / (rotation_ms * 1000.0);
    ZoneRates {
        first: zone.first_cylinder,
        last: zone.last_cylinder,
        sectors_per_track: zone.sectors_per_track,
        media,
        sustained: media * heads / (heads + changes),
    }
}
