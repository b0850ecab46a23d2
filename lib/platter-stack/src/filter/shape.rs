//! Where the bios of a filtered device lie on the device below.

use super::CommandRule;
use platter_block::bio::{Bio, Op};
use platter_block::driver::Geometry;
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::limits::Limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of the device below, which lanes that are open follow.
pub(super) struct Size {
    now: AtomicU64,
    /// The largest size so far.
    largest: AtomicU64,
}

impl Size {
    pub(super) fn new(size: u64) -> Size {
        Size { now: AtomicU64::new(size), largest: AtomicU64::new(size) }
    }

    fn get(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn largest(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }
}

impl Watcher for Size {
    fn event(&self, event: &DeviceEvent) {
        if let DeviceEvent::Resized { to, .. } = event {
            self.now.store(*to, Ordering::Relaxed);
            self.largest.fetch_max(*to, Ordering::Relaxed);
        }
    }
}

/// Where the bios of a layer lie on the device below, and which of them the layer refuses.
pub(super) struct Shape {
    limits: Limits,
    size: Arc<Size>,
    /// The device below cannot tell that a bio is outside the layer, or that a layer refuses it.
    checks_range: bool,
    refuses_changes: bool,
    commands: CommandRule,
    offset: u64,
}

/// Whether the range of a bio has a position. A flush may cover the whole device; the positions of a command are in the
/// command.
fn has_place(bio: &Bio) -> bool {
    match bio.op() {
        Op::Flush => bio.len() + bio.done() > 0,
        op => op != Op::Command,
    }
}

impl Shape {
    /// Of a layer with the geometry `own`, whose first byte is at `offset` of the device below; `is_part`: which does not
    /// cover all of that device.
    pub(super) fn new(
        own: Geometry,
        below: Geometry,
        size: &Arc<Size>,
        is_part: bool,
        offset: u64,
        commands: CommandRule,
    ) -> Shape {
        Shape {
            limits: own.limits,
            size: Arc::clone(size),
            checks_range: is_part || own.limits.logical_block != below.limits.logical_block,
            refuses_changes: own.features.read_only && !below.features.read_only,
            commands,
            offset,
        }
    }

    /// Refuses bios whose range was never on the layer. A range that the device below has lost is not refused here:
    /// the device fails it, measures itself because of that, and may meanwhile have grown again.
    pub(super) fn check_range(&self, bio: &Bio) -> Result<(), Fault> {
        let of_now = self.check_size(bio, self.size.get());
        of_now.or_else(|_| self.check_size(bio, self.size.largest()))
    }

    fn check_size(&self, bio: &Bio, size: u64) -> Result<(), Fault> {
        if matches!(bio.op(), Op::Flush | Op::Command) {
            return Ok(());
        }
        let checked = self.limits.check_range(bio.pos(), bio.len(), size);
        checked.map_err(|fault| Fault { stage: Stage::Layer, ..fault })
    }

    /// Refuses bios that the device below would accept although the layer must not.
    #[inline]
    pub(super) fn check(&self, bio: &Bio) -> Result<(), Fault> {
        let fault = |kind| Err(Fault::new(kind, Stage::Layer));
        if self.checks_range && has_place(bio) {
            let size = self.size.get();
            if bio.pos().checked_add(bio.len()).is_none_or(|end| end > size) {
                return fault(Kind::OutOfRange);
            }
            if self.limits.is_misplaced(bio.pos(), bio.len(), size) {
                return fault(Kind::Misaligned);
            }
        }
        if self.refuses_changes && bio.changes() {
            return fault(Kind::ReadOnly);
        }
        if bio.op() == Op::Command && !bio.command().is_some_and(|command| self.commands.allows(command)) {
            return fault(Kind::Unsupported);
        }
        Ok(())
    }

    /// Moves a bio to its position on the device below.
    #[inline]
    pub(super) fn enter(&self, bio: &mut Bio) {
        if self.offset > 0 && has_place(bio) {
            bio.remap(bio.pos().saturating_add(self.offset));
        }
    }

    /// Moves a bio back to its position on the layer.
    #[inline]
    pub(super) fn leave(&self, bio: &mut Bio) {
        if self.offset > 0 && has_place(bio) {
            // A flush may report a write-back error at a position before the part.
            bio.remap(bio.pos().saturating_sub(self.offset));
        }
    }
}
