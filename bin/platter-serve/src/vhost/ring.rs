//! A split virtqueue in the memory of a guest, as seen by the device.
//!
//! Virtual I/O Device (VIRTIO) Version 1.2, section 2.7. The driver may write anything anywhere at any time: each index is
//! checked when it has been copied out, and each walk is bounded.

use super::memory::{Memory, Place};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use vm_memory::Bytes;

/// Largest size of a queue.
pub const MAX_SIZE: u16 = 1024;

/// A driver that breaks the rules of the ring: it cannot be served any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A descriptor as it stands in memory.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Descriptor {
    address: u64,
    len: u32,
    flags: u16,
    next: u16,
}

/// An entry of the used ring.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Used {
    head: u32,
    len: u32,
}

mod plain {
    #![allow(unsafe_code)]

    // SAFETY: integers without padding, for which any bytes are a value.
    unsafe impl vm_memory::ByteValued for super::Descriptor {}
    // SAFETY: as above.
    unsafe impl vm_memory::ByteValued for super::Used {}
}

const DESCRIPTOR: usize = size_of::<Descriptor>();
const USED: usize = size_of::<Used>();

/// Flags of a descriptor.
mod flag {
    pub(super) const NEXT: u16 = 1;
    pub(super) const WRITE: u16 = 2;
    pub(super) const INDIRECT: u16 = 4;
}

/// Bytes before the entries of the available ring and of the used ring: flags and index.
const HEADER: usize = 4;
const INDEX: usize = 2;

/// Flag of the available ring: the driver needs no interrupt.
const NO_INTERRUPT: u16 = 1;
/// Flag of the used ring: the device needs no notification.
const NO_NOTIFY: u16 = 1;

/// Memory that a descriptor names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    pub(super) guest: u64,
    pub(super) len: u32,
    /// The device may write to it, and not read it.
    pub(super) is_writable: bool,
}

/// Where a front end has put a queue: addresses of its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Of the table of descriptors.
    pub descriptors: u64,
    /// Of the available ring.
    pub available: u64,
    /// Of the used ring.
    pub used: u64,
}

/// A queue.
pub struct Ring {
    memory: Arc<Memory>,
    size: u16,
    descriptors: Place,
    available: Place,
    used: Place,
    /// Notifications are asked for by index, not by flag.
    by_index: bool,
    /// Index of the next available entry that is taken.
    next: u16,
    /// The available index when it was last read.
    seen: u16,
    /// Index of the next used entry.
    done: u16,
    /// The used index when the driver was last notified; `None`: it has not been.
    told: Option<u16>,
}

impl Ring {
    /// A queue of `size` entries. `by_index`: `VIRTIO_F_EVENT_IDX` was negotiated.
    ///
    /// # Errors
    /// A sentence: the size is not possible, or the queue does not lie in the memory.
    pub fn new(memory: Arc<Memory>, size: u16, at: Addresses, by_index: bool) -> Result<Ring, String> {
        if !size.is_power_of_two() || size > MAX_SIZE {
            return Err(format!(
                "a queue of {size} entries: a power of two from 1 to {MAX_SIZE} is possible"
            ));
        }
        let count = usize::from(size);
        let part = |name: &str, user: u64, align: u64, len: usize| {
            let place = memory.place_of_user(user, len).filter(|_| user.is_multiple_of(align));
            place.ok_or_else(|| {
                format!("the {name} of a queue, {len} bytes at {user:#x}, is not in the memory")
            })
        };
        let descriptors = part("table", at.descriptors, 16, count * DESCRIPTOR)?;
        let available = part("available ring", at.available, 2, HEADER + count * 2 + 2)?;
        let used = part("used ring", at.used, 4, HEADER + count * USED + 2)?;
        let mut ring = Ring {
            memory,
            size,
            descriptors,
            available,
            used,
            by_index,
            next: 0,
            seen: 0,
            done: 0,
            told: None,
        };
        ring.done = ring.used_index();
        ring.start_at(ring.done);
        Ok(ring)
    }

    /// Number of entries.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// The used index that stands in memory.
    pub(super) fn used_index(&self) -> u16 {
        self.load(self.used, INDEX)
    }

    /// Index of the next available entry that will be taken.
    pub(super) fn next_index(&self) -> u16 {
        self.next
    }

    /// Takes available entries from this index on.
    pub fn start_at(&mut self, index: u16) {
        (self.next, self.seen) = (index, index);
    }

    /// The memory that it lies in.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    #[inline]
    fn load(&self, place: Place, offset: usize) -> u16 {
        // The places were checked, so there is such a word, and it is aligned.
        u16::from_le(self.memory.slice(place).load(offset, Ordering::Acquire).unwrap_or(0))
    }

    #[inline]
    fn store(&self, place: Place, offset: usize, value: u16) {
        let _ = self.memory.slice(place).store(value.to_le(), offset, Ordering::Release);
    }

    /// Takes the next chain that the driver has made available: the index of its first descriptor.
    ///
    /// # Errors
    /// An index is impossible.
    #[inline]
    pub fn take(&mut self) -> Result<Option<u16>, Malformed> {
        if self.seen == self.next {
            self.seen = self.load(self.available, INDEX);
            let waiting = self.seen.wrapping_sub(self.next);
            if waiting > self.size {
                let (seen, size) = (self.seen, self.size);
                self.seen = self.next;
                let why = format!("the available index {seen} is {waiting} ahead in a queue of {size}");
                return Err(Malformed(why));
            }
            if waiting == 0 {
                return Ok(None);
            }
        }
        let entry = usize::from(self.next % self.size);
        let head = self.load(self.available, HEADER + 2 * entry);
        if head >= self.size {
            return Err(Malformed(format!("the available ring names descriptor {head} of {}", self.size)));
        }
        self.next = self.next.wrapping_add(1);
        Ok(Some(head))
    }

    /// The buffers of the chain that begins with descriptor `head`, in order, into `out`.
    ///
    /// # Errors
    /// The chain is longer than its table, or names a descriptor that there is not.
    #[inline]
    pub(super) fn chain(&self, head: u16, out: &mut Vec<Buffer>) -> Result<(), Malformed> {
        out.clear();
        let (mut table, mut count, mut is_indirect) = (self.descriptors, u32::from(self.size), false);
        let (mut index, mut steps) = (u32::from(head), 0);
        loop {
            if index >= count {
                return Err(Malformed(format!("a chain goes on at descriptor {index} of {count}")));
            }
            steps += 1;
            if steps > count {
                return Err(Malformed(format!("a chain is longer than its table of {count} descriptors")));
            }
            let entry: Descriptor =
                self.memory.slice(table).read_obj(index as usize * DESCRIPTOR).unwrap_or_default();
            let (len, flags) = (u32::from_le(entry.len), u16::from_le(entry.flags));
            let guest = u64::from_le(entry.address);
            if flags & flag::INDIRECT != 0 {
                if is_indirect || flags & flag::NEXT != 0 {
                    return Err(Malformed("an indirect table inside a chain or another one".to_owned()));
                }
                count = len / DESCRIPTOR as u32;
                if count == 0 || count > u32::from(MAX_SIZE) || !len.is_multiple_of(DESCRIPTOR as u32) {
                    return Err(Malformed(format!("an indirect table of {len} bytes")));
                }
                let place = self.memory.place_of_guest(guest, len as usize);
                table = place.ok_or_else(|| outside("an indirect table", guest, len))?;
                (is_indirect, index, steps) = (true, 0, 0);
                continue;
            }
            out.push(Buffer { guest, len, is_writable: flags & flag::WRITE != 0 });
            if flags & flag::NEXT == 0 {
                return Ok(());
            }
            index = u32::from(u16::from_le(entry.next));
        }
    }

    /// Gives a chain back to the driver; `len` bytes were written to it.
    #[inline]
    pub(super) fn complete(&mut self, head: u16, len: u32) {
        let entry = HEADER + USED * usize::from(self.done % self.size);
        let element = Used { head: u32::from(head).to_le(), len: len.to_le() };
        let _ = self.memory.slice(self.used).write_obj(element, entry);
        self.done = self.done.wrapping_add(1);
        self.store(self.used, INDEX, self.done);
    }

    /// Whether the driver is to be notified of what was completed since the last time.
    #[inline]
    pub(super) fn is_to_notify(&mut self) -> bool {
        if self.told == Some(self.done) {
            return false;
        }
        // The used index must be visible before the driver's wish is read, and the other way around there.
        fence(Ordering::SeqCst);
        let before = self.told.replace(self.done);
        if !self.by_index {
            return self.load(self.available, 0) & NO_INTERRUPT == 0;
        }
        let event = self.load(self.available, HEADER + 2 * usize::from(self.size));
        before.is_none_or(|before| crosses(event, before, self.done))
    }

    /// Whether the driver must notify the device of new chains. Chains that are available already are not reported.
    pub(super) fn set_notified(&mut self, wanted: bool) {
        match (self.by_index, wanted) {
            (true, true) => self.store(self.used, HEADER + USED * usize::from(self.size), self.next),
            // The driver notifies when an index is passed, which has happened already.
            (true, false) => {}
            (false, _) => self.store(self.used, 0, if wanted { 0 } else { NO_NOTIFY }),
        }
        fence(Ordering::SeqCst);
    }

    /// The index at which the driver was last asked for a notification.
    #[cfg(test)]
    pub(super) fn notified_at(&self) -> u16 {
        self.load(self.used, HEADER + USED * usize::from(self.size))
    }

    /// Whether there is a chain to take.
    pub(super) fn has_next(&self) -> bool {
        self.load(self.available, INDEX) != self.next
    }
}

/// Whether index `event` lies in what was completed from `before` on until `after`.
fn crosses(event: u16, before: u16, after: u16) -> bool {
    after.wrapping_sub(event).wrapping_sub(1) < after.wrapping_sub(before)
}

/// The error for memory that the guest does not have.
pub(super) fn outside(what: &str, guest: u64, len: u32) -> Malformed {
    Malformed(format!("{what}, {len} bytes at {guest:#x}, is not in the guest's memory"))
}

// The sizes that the specification gives.
const _: () = assert!(DESCRIPTOR == 16 && USED == 8);
