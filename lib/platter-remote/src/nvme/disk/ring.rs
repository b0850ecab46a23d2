//! A ring of io_uring whose entries have room for commands, and whose completions have room for their results (Linux 5.19).

#![allow(unsafe_code)]

use super::entry::{operation, ring_command};
use super::protocol::{Answer, Message, Nvme};
use crate::passed::Carrier;
use io_uring::cqueue::Entry32;
use io_uring::squeue::Entry128;
use io_uring::types::{Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use platter_block::segment::{Region, RegionId};
use platter_block::time::Span;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Regions that can be registered with a ring.
const REGIONS: usize = 64;
/// The most that the kernel registers as one (1 GiB).
const LARGEST: u32 = 1 << 30;
/// Most commands of a ring at once.
const ENTRIES: u32 = 256;
/// User data of an entry that only makes the descriptor readable.
const NOTE: u64 = u64::MAX;
/// Set in the user data of a command that uses registered memory.
const FIXED: u64 = 1 << 32;

/// A ring with its registered files: the namespace, and the controller if there is access to it.
pub(super) struct Ring {
    ring: IoUring<Entry128, Entry32>,
    has_controller: bool,
    regions: [RegionId; REGIONS],
    takes_regions: bool,
    sent: usize,
}

impl Ring {
    pub(super) fn new(namespace: &File, controller: Option<&File>) -> io::Result<Ring> {
        let ring = IoUring::<Entry128, Entry32>::builder().build(ENTRIES)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::UringCmd80::CODE) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let files = [namespace.as_raw_fd(), controller.map_or(-1, File::as_raw_fd)];
        ring.submitter().register_files(&files)?;
        let takes_regions = ring.submitter().register_buffers_sparse(REGIONS as u32).is_ok();
        let regions = [RegionId::NONE; REGIONS];
        Ok(Ring { ring, has_controller: controller.is_some(), regions, takes_regions, sent: 0 })
    }

    fn place_of(&self, region: RegionId) -> Option<u16> {
        if region == RegionId::NONE {
            return None;
        }
        self.regions.iter().position(|place| *place == region).map(|place| place as u16)
    }

    fn enter(&mut self, wanted: usize, timeout: Option<Span>) {
        let time = timeout
            .map(|span| Timespec::new().sec(span.0 / 1_000_000_000).nsec((span.0 % 1_000_000_000) as u32));
        // What the kernel does not take now stays on the ring and is handed over next time; a signal ends a wait.
        let _ = match &time {
            Some(time) => self.ring.submitter().submit_with_args(wanted, &SubmitArgs::new().timespec(time)),
            None => self.ring.submit_and_wait(wanted),
        };
    }
}

impl Carrier<Nvme> for Ring {
    fn room(&self) -> usize {
        ENTRIES as usize
    }

    fn sent(&self) -> usize {
        self.sent
    }

    // SAFETY: the caller keeps the memory until it has collected the answer, as the trait says.
    unsafe fn start(&mut self, message: Message) -> Result<(), (Message, i32)> {
        if message.is_admin && !self.has_controller {
            return Err((message, libc::EAGAIN));
        }
        let data = message.place;
        let place = self.place_of(message.region).filter(|_| data.len > 0 && !data.is_list);
        let operation = match (message.is_admin, data.is_list) {
            (false, false) => operation::IO,
            (false, true) => operation::IO_VEC,
            (true, false) => operation::ADMIN,
            (true, true) => operation::ADMIN_VEC,
        };
        let command = ring_command(&message.entry, data.addr as u64, data.len as u32, message.timeout_ms);
        let entry = opcode::UringCmd80::new(Fixed(u32::from(message.is_admin)), operation);
        let entry = entry.cmd(command).buf_index(place).build();
        let fixed = if place.is_some() { FIXED } else { 0 };
        let entry = entry.user_data(u64::from(message.index) | fixed);
        // SAFETY: the memory that the command names is valid until its answer was collected, by this function's contract, and
        // dropping the ring waits for all answers.
        let pushed = unsafe { self.ring.submission().push(&entry).is_ok() };
        self.sent += usize::from(pushed);
        if pushed { Ok(()) } else { Err((message, libc::EAGAIN)) }
    }

    fn submit(&mut self) {
        if !self.ring.submission().is_empty() {
            self.enter(0, None);
        }
    }

    fn collect(&mut self, _is_watched: bool, answers: &mut Vec<Answer>) {
        for completion in self.ring.completion() {
            let data = completion.user_data();
            if data == NOTE {
                continue;
            }
            self.sent -= 1;
            let (index, mut result) = (data as u32, completion.result());
            if data & FIXED != 0 && result == -libc::EINVAL {
                // Linux 6.0 and older: no registered memory for commands. The queue sends it again, as plain memory.
                (self.takes_regions, self.regions) = (false, [RegionId::NONE; REGIONS]);
                result = -libc::EAGAIN;
            }
            answers.push(Answer { index, result, value: completion.big_cqe()[0] });
        }
    }

    fn wait(&mut self, timeout: Option<Span>) {
        if self.ring.completion().is_empty() {
            self.enter(1, timeout);
        }
    }

    fn watch(&self, _is_known: bool) -> i32 {
        self.ring.as_raw_fd()
    }

    fn ring(&mut self) {
        let note = opcode::Nop::new().build().user_data(NOTE);
        // SAFETY: names no memory.
        let _ = unsafe { self.ring.submission().push(&Entry128::from(note)) };
        self.submit();
    }

    fn register(&mut self, region: &Region) -> bool {
        let memory = region.memory;
        if !self.takes_regions || memory.is_empty() || memory.len() > LARGEST {
            return false;
        }
        let Some(place) = self.regions.iter().position(|place| *place == RegionId::NONE) else {
            return false;
        };
        let piece = libc::iovec { iov_base: memory.addr().cast(), iov_len: memory.len() as usize };
        // SAFETY: the region's memory lives until it has been withdrawn; the kernel also pins its pages.
        let registered =
            unsafe { self.ring.submitter().register_buffers_update(place as u32, &[piece], None) };
        if registered.is_ok() {
            self.regions[place] = region.id;
        }
        registered.is_ok()
    }

    fn unregister(&mut self, region: RegionId) {
        let Some(place) = self.place_of(region) else { return };
        self.regions[usize::from(place)] = RegionId::NONE;
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: names no memory.
        let _ = unsafe { self.ring.submitter().register_buffers_update(place.into(), &[none], None) };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut answers = Vec::new();
        while self.sent > 0 {
            self.wait(None);
            self.collect(false, &mut answers);
            answers.clear();
        }
    }
}
