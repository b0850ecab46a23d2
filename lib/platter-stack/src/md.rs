//! Arrays of Linux' md, to read: every level, complete or degraded.
//!
//! [`platter_md::assembly`] decides which devices form the array and [`platter_md::sources`] how each range is read. Here that
//! meets devices: what lies on a member goes there as a part of the bio; what does not, or fails, is read from another copy or
//! computed from parity. Logs are sources too: a journal has blocks in place of those of members, and a log of partial parity has
//! terms of sums. Nothing is written.

use crate::LayerError;
use crate::distributed::name_of;
use crate::kit::{Below, Buffer, Frame, Layer, Permits, Stateful, Task};
use crate::members;
use platter_block::backend::Backend;
use platter_block::bio::Op;
use platter_block::driver::Geometry as Shape;
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::params::{ParamError, Unit};
use platter_block::status::Item;
use platter_md::assembly::Array;
use platter_md::geometry::Geometry;
use platter_md::gf;
use platter_md::journal::BLOCK_BYTES;
use platter_md::sources::{Extent, Source, Sources, Way};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest transfer.
const MAX_TRANSFER: u32 = 1 << 20;
/// Most parts of a bio that are in flight.
const PARTS: usize = 64;
/// Most bytes that are read from each member to compute a range, and from all of them.
const WINDOW: u64 = 128 << 10;
const ALL_WINDOWS: u64 = 4 << 20;
/// Most ranges that are computed at the same time.
const COMPUTED: u32 = 4;

/// The layer.
struct Md {
    geometry: Geometry,
    sources: Sources,
    permits: Arc<Permits>,
    block: u64,
    window: u64,
    /// What was assembled, for operators.
    facts: Vec<Item>,
    computed: AtomicU64,
    errors: AtomicU64,
}

/// A range that no member gives as it is.
struct Hard {
    pos: u64,
    len: u64,
    failed: Vec<Extent>,
}

/// The device of an array. `devices` are those that were candidates, in the same order; those that the array does not use are
/// dropped.
///
/// # Errors
/// Members on the same disk; an array whose parts are not multiples of the logical block.
pub fn new(array: &Array, devices: &[Arc<dyn Backend>]) -> Result<Arc<dyn Backend>, LayerError> {
    let mut sources = array.sources.clone();
    let mut used: Vec<usize> = sources.members.iter().flatten().map(|source| source.device).collect();
    used.extend(sources.journal.as_ref().map(|journal| journal.device));
    used.sort_unstable();
    used.dedup();
    let renumber = |device: &mut usize| *device = used.partition_point(|&own| own < *device);
    sources.members.iter_mut().flatten().for_each(|source| renumber(&mut source.device));
    sources.partial.iter_mut().flat_map(|partial| partial.devices_mut()).for_each(renumber);
    sources.journal.iter_mut().for_each(|journal| renumber(&mut journal.device));
    let members: Vec<Arc<dyn Backend>> =
        used.iter().filter_map(|&at| devices.get(at)).map(Arc::clone).collect();
    members::check("md", &members)?;
    let Some(stacked) = members::stack(&members) else {
        return Err(LayerError::Members("md needs at least one device".to_owned()));
    };
    let block = stacked.limits.logical_block.max(array.logical_block);
    check_blocks(array, &sources, &members, u64::from(block))?;
    let size = array.geometry.size() / u64::from(block) * u64::from(block);
    let limits = stacked
        .limits
        .with_logical_block(block)
        .with_max_transfer(stacked.limits.max_transfer.min(MAX_TRANSFER))
        .with_chunk(0)
        .with_atomic_write(0)
        .with_optimal_io(u32::try_from(array.geometry.chunk()).unwrap_or(0));
    let features = stacked.features.with_read_only(true).with_write_cache(false).with_fua(false);
    let shape = Shape::new(size, limits).with_features(features);
    let below = Below::default();
    let most = (ALL_WINDOWS / u64::from(array.geometry.members())).clamp(4096, WINDOW);
    let layer = Arc::new(Md {
        geometry: array.geometry.clone(),
        sources,
        permits: Permits::new(&below, COMPUTED),
        block: u64::from(block),
        window: most.next_multiple_of(u64::from(block)),
        facts: facts(array, devices),
        computed: AtomicU64::new(0),
        errors: AtomicU64::new(0),
    });
    let name = name_of("md", "", &members);
    let frame = Frame::new(members, 1, below, layer)?;
    Ok(Arc::new(Stateful::new(&frame, 0, name, shape)))
}

/// I/O of whole blocks must be I/O of whole blocks of every member.
fn check_blocks(
    array: &Array,
    sources: &Sources,
    members: &[Arc<dyn Backend>],
    block: u64,
) -> Result<(), LayerError> {
    let unfit = |what: String| Err(LayerError::Unfit(ParamError(what)));
    let chunk = array.geometry.chunk();
    let is_mirror = array.geometry.level() == platter_md::superblock::Level::Raid1;
    if !is_mirror && !chunk.is_multiple_of(block) && chunk != platter_md::superblock::SECTOR {
        return unfit(format!(
            "md: the chunk of {chunk} bytes is no multiple of the logical block, {block} bytes"
        ));
    }
    check_logs(sources, members, block)?;
    for source in sources.members.iter().flatten() {
        let own = u64::from(members[source.device].geometry().limits.logical_block);
        if !source.data_offset.is_multiple_of(own) {
            return unfit(format!(
                "md: the data of {} begins at byte {}, which is no multiple of its logical block, {own} bytes",
                members[source.device].name(),
                source.data_offset
            ));
        }
    }
    Ok(())
}

/// The blocks of logs must be whole blocks too.
fn check_logs(sources: &Sources, members: &[Arc<dyn Backend>], block: u64) -> Result<(), LayerError> {
    let unfit = |what: String| Err(LayerError::Unfit(ParamError(what)));
    if (sources.partial.is_some() || sources.journal.is_some()) && block > BLOCK_BYTES as u64 {
        return unfit(format!(
            "md: the array has a log of blocks of 4096 bytes to be applied, and its logical block has {block}"
        ));
    }
    let of_partial = sources.partial.iter().flat_map(|partial| partial.places());
    let of_journal = sources.journal.iter().map(|journal| (journal.device, journal.begin));
    for (device, begin) in of_partial.chain(of_journal) {
        let own = u64::from(members[device].geometry().limits.logical_block);
        if !begin.is_multiple_of(own) {
            return unfit(format!(
                "md: the log of {} begins at byte {begin}, which is no multiple of its logical block, {own} bytes",
                members[device].name()
            ));
        }
    }
    Ok(())
}

fn facts(array: &Array, devices: &[Arc<dyn Backend>]) -> Vec<Item> {
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let mut items = vec![
        Item::text("level", array.geometry.level().to_string(), "level of the array"),
        Item::text("array", array.name.clone(), "name of the array"),
        Item::text("uuid", array.uuid.to_string(), "number of the array"),
        Item::number("events", Unit::Count, array.events, "event count of the newest superblock"),
        Item::switch("clean", !array.is_dirty, "whether the array was stopped cleanly"),
        Item::text("missing members", list(&array.missing), "members that are not there or not rebuilt"),
    ];
    let name =
        |device: usize| devices.get(device).map_or_else(String::new, |device| device.name().to_string());
    let left: Vec<String> =
        array.left_out.iter().map(|left| format!("{}: {}", name(left.device), left.why)).collect();
    items.push(Item::text("left out", left.join("; "), "devices that are not used, and why"));
    items.push(Item::text(
        "logs",
        array.logs.join("; "),
        "what was applied of the array's logs, and what was not",
    ));
    items.push(Item::text(
        "doubts",
        array.doubts.join("; "),
        "what may be wrong, of an array that was forced",
    ));
    items
}

/// Whether a failure is that of the bio, not of a member.
fn is_final(task: &Task, fault: Fault) -> bool {
    task.is_taken_back() || matches!(fault.kind, Kind::Cancelled | Kind::Contract | Kind::Broken)
}

impl Md {
    async fn read(&self, task: &Task) -> Status {
        let (mut at, end) = (task.pos(), task.pos() + task.len());
        let mut hard = Vec::new();
        while at < end {
            let mut parts = Vec::new();
            while at < end && parts.len() < PARTS {
                let (way, len) = self.way(at, end - at, &[]);
                match way {
                    Way::Any(extents) => {
                        let extent = extents[0];
                        let part = task.part(at - task.pos(), len, extent.device, extent.pos);
                        parts.push((at, len, extent, part));
                    }
                    _ => hard.push(Hard { pos: at, len, failed: Vec::new() }),
                }
                at += len;
            }
            for (pos, len, extent, part) in parts {
                match part.await {
                    Ok(()) => {}
                    Err(fault) if is_final(task, fault) => return Err(fault),
                    Err(_) => {
                        self.errors.fetch_add(1, Ordering::Relaxed);
                        hard.push(Hard { pos, len, failed: vec![extent] });
                    }
                }
            }
        }
        if hard.is_empty() {
            return Ok(());
        }
        task.forget_failure();
        for range in hard {
            self.read_hard(task, range).await?;
        }
        Ok(())
    }

    /// As [`Sources::way`], for whole blocks.
    fn way(&self, pos: u64, most: u64, failed: &[Extent]) -> (Way, u64) {
        let (way, len) = self.sources.way(&self.geometry, pos, most, failed);
        // Within a block that is usable in part only, a sector at a time would be shorter than the members take.
        let whole = len / self.block * self.block;
        if whole > 0 { (way, whole) } else { (self.way_of_block(pos, failed), self.block.min(most)) }
    }

    /// How to read a block whose sectors differ in that.
    fn way_of_block(&self, pos: u64, failed: &[Extent]) -> Way {
        let mut failed = failed.to_vec();
        loop {
            // Everything that is used must be usable to the end of the block.
            let (way, _) = self.sources.way(&self.geometry, pos, self.block, &failed);
            let used: Vec<Extent> = match &way {
                Way::Any(extents) => extents[..1].to_vec(),
                Way::Sum(terms) => terms.iter().map(|(extent, _)| *extent).collect(),
                Way::Lost(_) | Way::Doubtful => return way,
            };
            let is_short = |extent: &&Extent| {
                let sources = self.sources.members.get(extent.member as usize).into_iter().flatten();
                let mut of = sources.filter(|source| source.device == extent.device);
                // Blocks of logs are whole.
                let at = |source: &Source| extent.pos.checked_sub(source.data_offset);
                of.any(|source| at(source).is_some_and(|at| source.at(at).1 < self.block))
            };
            match used.iter().find(is_short) {
                Some(extent) => failed.push(*extent),
                None => return way,
            }
        }
    }

    /// Reads a range that no member gave, in smaller and smaller pieces if it must be.
    async fn read_hard(&self, task: &Task, range: Hard) -> Status {
        let _permit = self.permits.take().await;
        let mut left = vec![range];
        while let Some(Hard { pos, len, failed }) = left.pop() {
            let some = len.min(self.window);
            match self.attempt(task, pos, some, failed).await {
                Ok(buffer) => {
                    let done = buffer.bytes().len() as u64;
                    task.copy_in(pos - task.pos(), buffer.bytes())?;
                    if done < len {
                        left.push(Hard { pos: pos + done, len: len - done, failed: Vec::new() });
                    }
                }
                Err(fault) if some <= self.block || is_final(task, fault) => return Err(fault),
                Err(_) => {
                    // Members may have failed at different places of it.
                    let half = (some / 2).next_multiple_of(self.block);
                    let rest = (pos + half, len - half);
                    if rest.1 > 0 {
                        left.push(Hard { pos: rest.0, len: rest.1, failed: Vec::new() });
                    }
                    left.push(Hard { pos, len: half, failed: Vec::new() });
                }
            }
        }
        Ok(())
    }

    /// Reads a range or a beginning of it in any way there is, without what has failed.
    async fn attempt(
        &self,
        task: &Task,
        pos: u64,
        len: u64,
        mut failed: Vec<Extent>,
    ) -> Result<Buffer, Fault> {
        let mut last = Fault::new(Kind::Io, Stage::Layer);
        loop {
            let (way, len) = self.way(pos, len, &failed);
            let terms = match way {
                Way::Any(extents) => vec![(extents[0], 1)],
                Way::Sum(terms) => terms,
                Way::Lost(_) | Way::Doubtful => return Err(last),
            };
            let before = failed.len();
            let is_computed = terms.len() > 1;
            let reads: Vec<_> = terms
                .iter()
                .map(|&(extent, factor)| {
                    (extent, factor, task.read(extent.device, extent.pos, Buffer::new(len as usize)))
                })
                .collect();
            let mut sum = Buffer::new(len as usize);
            for (extent, factor, read) in reads {
                match read.await {
                    Ok(buffer) => gf::add_multiple(sum.bytes_mut(), factor, buffer.bytes()),
                    Err(fault) if is_final(task, fault) => return Err(fault),
                    Err(fault) => {
                        self.errors.fetch_add(1, Ordering::Relaxed);
                        failed.push(extent);
                        last = fault;
                    }
                }
            }
            if failed.len() == before {
                if is_computed {
                    self.computed.fetch_add(len, Ordering::Relaxed);
                }
                return Ok(sum);
            }
        }
    }
}

impl Layer for Md {
    async fn run(self: Arc<Self>, task: Task) -> Status {
        match task.op() {
            Op::Read => self.read(&task).await,
            _ => Err(Fault::new(Kind::ReadOnly, Stage::Layer)),
        }
    }

    async fn flush(self: Arc<Self>, _below: Below, _port: usize) -> Status {
        Ok(())
    }

    fn locate(&self, _port: usize, pos: u64) -> Option<(usize, u64, u64)> {
        match self.way(pos, self.geometry.size() - pos, &[]) {
            (Way::Any(extents), len) => Some((extents[0].device, extents[0].pos, len)),
            _ => None,
        }
    }

    fn status(&self, _port: usize) -> Vec<Item> {
        let mut items = self.facts.clone();
        let (computed, errors) = (self.computed.load(Ordering::Relaxed), self.errors.load(Ordering::Relaxed));
        items.push(Item::number("computed", Unit::Bytes, computed, "bytes computed from parity"));
        items.push(Item::number("read errors", Unit::Count, errors, "reads of members that failed"));
        items
    }

    fn explain(&self, _port: usize, fault: Fault) -> Option<String> {
        let own = fault.stage == Stage::Layer && fault.kind == Kind::Io;
        own.then(|| {
            "the array has lost this place: its members are missing, bad or not rebuilt there, or its parity is not known to be \
             right because it was being written when the array stopped"
                .to_owned()
        })
    }
}
