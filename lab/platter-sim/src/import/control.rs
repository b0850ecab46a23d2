//! The controller: `disksim_disk`.

use super::error::ImportError;
use super::text::Block;
use crate::disk::params::{
    After, CacheParams, ControlParams, ExtraDisconnect, Keep, Preseek, ReadAhead, WriteBack,
};

/// Times of a `disksim_disk`, scaled as its own parameter says.
struct Times<'a> {
    block: &'a Block,
    scale: f64,
}

impl Times<'_> {
    fn get(&self, key: &str) -> Result<u64, ImportError> {
        self.block.get(key)?.nanoseconds(key, self.scale)
    }

    fn after(&self, key: &str) -> Result<After, ImportError> {
        Ok(After {
            read: self.get(&format!("{key} over. after read"))?,
            write: self.get(&format!("{key} over. after write"))?,
        })
    }
}

pub(super) fn control(block: &Block) -> Result<ControlParams, ImportError> {
    let scale = block.get("Time scale for overheads")?;
    let Some(scale) = scale.float().filter(|scale| (0.0..=1e6).contains(scale)) else {
        return Err(scale.error("a number from 0 to 1000000 as `Time scale for overheads`"));
    };
    let times = Times { block, scale };
    Ok(ControlParams {
        per_request: times.get("Per-request overhead time")?,
        read_hit: times.after("Read hit")?,
        read_miss: times.after("Read miss")?,
        write_hit: times.after("Write hit")?,
        write_miss: times.after("Write miss")?,
        read_complete: times.get("Read completion overhead")?,
        write_complete: times.get("Write completion overhead")?,
        data_preparation: times.get("Data preparation overhead")?,
        reselect_first: times.get("First reselect overhead")?,
        reselect_other: times.get("Other reselect overhead")?,
        read_disconnect: After {
            read: times.get("Read disconnect afterread")?,
            write: times.get("Read disconnect afterwrite")?,
        },
        write_disconnect: times.get("Write disconnect overhead")?,
        extra_disconnect: extra_disconnect(block, &times)?,
        minimum_seek: block.time("Minimum seek delay")?,
        hold_bus_read: block.flag("Hold bus entire read xfer")?,
        hold_bus_write: block.flag("Hold bus entire write xfer")?,
        never_disconnect: block.flag("Never disconnect")?,
        preseek: match block.number("Preseeking level", 0, 2)? {
            0 => Preseek::AfterCompletion,
            1 => Preseek::DuringCompletion,
            _ => Preseek::AfterMedium,
        },
        most_sectors: None,
    })
}

fn extra_disconnect(block: &Block, times: &Times<'_>) -> Result<Option<ExtraDisconnect>, ImportError> {
    if !block.flag("Extra write disconnect")? {
        return Ok(None);
    }
    Ok(Some(ExtraDisconnect {
        command: times.get("Extradisc command overhead")?,
        disconnect: times.get("Extradisc disconnect overhead")?,
        between: block.time("Extradisc inter-disconnect delay")?,
        second_disconnect: times.get("Extradisc 2nd disconnect overhead")?,
        seek_delay: times.get("Extradisc seek delta")?,
    }))
}

pub(super) fn cache(block: &Block) -> Result<CacheParams, ImportError> {
    let segments = block.number("Number of buffer segments", 1, 65_535)?;
    let segment_size = block.number("Segment size (in blks)", 1, 1 << 30)?;
    let enabled = block.number("Enable caching in buffer", 0, 2)? > 0;
    let read_ahead = match block.number("Buffer continuous read", 0, 4)? {
        0 => ReadAhead::Off,
        1 => ReadAhead::TrackEnd,
        2 => ReadAhead::CylinderEnd,
        3 => ReadAhead::Segment,
        _ => ReadAhead::NextTrack,
    };
    let write_back = match block.number("Fast write level", 0, 2)? {
        0 => WriteBack::Off,
        1 => WriteBack::Sequential,
        _ => WriteBack::On,
    };
    for (key, needs) in [
        ("Buffer continuous read", read_ahead != ReadAhead::Off),
        ("Fast write level", write_back != WriteBack::Off),
    ] {
        if needs && !enabled {
            return Err(block
                .get(key)?
                .error(format!("0 as `{key}`, since `Enable caching in buffer` is 0")));
        }
    }
    let ahead =
        |key: &str| Ok(if read_ahead == ReadAhead::Off { 0 } else { block.number(key, 0, 1 << 30)? });
    let least = ahead("Minimum read-ahead (blks)")?;
    Ok(CacheParams {
        enabled,
        segments,
        segment_size,
        write_segments: block.number("Maximum number of write segments", 1, segments)?,
        dedicated_write_segment: dedicated(block, segments)?,
        read_ahead,
        read_ahead_minimum: least,
        read_ahead_maximum: ahead("Maximum read-ahead (blks)")?.max(least),
        keep: keep(block)?,
        read_ahead_on_hit: block.flag("Read-ahead on idle hit")?,
        read_free_blocks: block.flag("Read any free blocks")?,
        stop_in_sector: block.flag("Stop prefetch in sector")?,
        write_stops_read_ahead: block.flag("Write hit stop prefetch")?,
        read_hits_on_writes: block.flag("Allow read hits on write data")?,
        almost_hits: block.flag("Allow almost read hits")?,
        sneaky_full_hits: block.flag("Allow sneaky full read hits")?,
        partial_hits_at_once: block.flag("Immed transfer partial hit")?,
        write_back,
        combine_writes: block.flag("Combine seq writes")?,
        write_prebuffering: block.flag("Allow write prebuffering")?,
        zero_latency_read: block.number("Immediate buffer read", 0, 2)? > 0,
        zero_latency_write: block.number("Immediate buffer write", 0, 2)? > 0,
        read_directly: block.flag("Read directly to buffer")?,
        read_watermark: watermark(block, "High (read) water mark")?,
        write_watermark: watermark(block, "Low (write) water mark")?,
        watermark_by_request: block.flag("Set watermark by reqsize")?,
    })
}

fn dedicated(block: &Block, segments: u32) -> Result<bool, ImportError> {
    let key = "Use separate write segment";
    let dedicated = block.flag(key)?;
    if dedicated && segments < 2 {
        return Err(block.get(key)?.error(format!("0 as `{key}`, since there is only one segment")));
    }
    Ok(dedicated)
}

fn keep(block: &Block) -> Result<Keep, ImportError> {
    let key = "Read-ahead over requested";
    let value = block.get(key)?;
    match value.float() {
        Some(-1.0) => Ok(Keep::Discard),
        Some(0.0) => Ok(Keep::Request),
        Some(1.0) => Ok(Keep::Nothing),
        _ => Err(value.error(format!("-1, 0 or 1 as `{key}`"))),
    }
}

fn watermark(block: &Block, key: &str) -> Result<u32, ImportError> {
    let value = block.get(key)?;
    match value.float() {
        Some(share) if (0.0..=1.0).contains(&share) => Ok((share * 1e6).round() as u32),
        _ => Err(value.error(format!("a number from 0 to 1 as `{key}`"))),
    }
}
