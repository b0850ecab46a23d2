//! The three ways to call a device behind one interface.

use crate::memory::{Memory, bytes};
use crate::rig::block_on;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::Fault;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::sync_io::IoOptions;
use std::io::{IoSlice, IoSliceMut};

pub(crate) type Outcome = Result<(), Fault>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Synchronous,
    Futures,
    Polled,
}

impl Style {
    pub(crate) const ALL: [Style; 3] = [Style::Synchronous, Style::Futures, Style::Polled];

    pub(crate) fn caller(self, device: &Device) -> Caller {
        let channel = (self == Style::Polled).then(|| device.channel(8).unwrap());
        Caller { style: self, device: device.clone(), channel }
    }
}

pub(crate) struct Caller {
    pub(crate) style: Style,
    device: Device,
    channel: Option<Channel>,
}

impl Caller {
    pub(crate) fn read(&mut self, pos: u64, memory: Memory) -> (Outcome, Option<Memory>) {
        self.transfer(Op::Read, pos, memory, Flags::NONE)
    }

    pub(crate) fn write(&mut self, pos: u64, memory: Memory) -> (Outcome, Option<Memory>) {
        self.transfer(Op::Write, pos, memory, Flags::NONE)
    }

    /// A transfer. The memory is missing if the device may still use it.
    pub(crate) fn transfer(
        &mut self,
        op: Op,
        pos: u64,
        memory: Memory,
        flags: Flags,
    ) -> (Outcome, Option<Memory>) {
        if self.style == Style::Synchronous {
            return self.call(op, pos, memory, flags);
        }
        let mut bio = match op {
            Op::Read => Bio::read(pos, memory).unwrap(),
            _ => Bio::write(pos, memory).unwrap(),
        };
        bio.add_flags(flags);
        self.submit(bio)
    }

    fn call(&mut self, op: Op, pos: u64, mut memory: Memory, flags: Flags) -> (Outcome, Option<Memory>) {
        let device = &self.device;
        let result = match (op, memory.as_mut_slice()) {
            (Op::Read, [part]) => device.read_at(part, pos),
            (Op::Read, parts) => {
                let mut parts: Vec<_> = parts.iter_mut().map(|part| IoSliceMut::new(part)).collect();
                device.read_vectored_at(&mut parts, pos)
            }
            (_, [part]) => device.write_at_with(part, pos, IoOptions::flags(flags)),
            (_, parts) if flags == Flags::NONE => {
                let parts: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
                device.write_vectored_at(&parts, pos)
            }
            // Vectored calls take no flags.
            _ => device.write_at_with(&bytes(&memory), pos, IoOptions::flags(flags)),
        };
        (result.map_err(|error| error.fault), Some(memory))
    }

    /// An operation without data.
    pub(crate) fn operate(&mut self, op: Op, pos: u64, len: u64) -> Outcome {
        let result = match (self.style, op) {
            (Style::Synchronous, Op::Flush) => self.device.flush(),
            (Style::Synchronous, Op::Discard) => self.device.discard(pos, len),
            (Style::Synchronous, _) => self.device.write_zeroes(pos, len),
            _ => return self.submit(Bio::new(op, pos, len)).0,
        };
        result.map_err(|error| error.fault)
    }

    /// Submits a bio; only for calls that are not synchronous.
    pub(crate) fn submit(&mut self, mut bio: Bio) -> (Outcome, Option<Memory>) {
        let Some(channel) = &mut self.channel else {
            let (result, memory) = block_on(self.device.submit::<Memory>(bio));
            return (result.map_err(|error| error.fault), memory);
        };
        bio.set_token(77);
        assert!(channel.submit(bio).is_ok());
        let mut done = Vec::new();
        while channel.outstanding() > 0 {
            channel.wait(&mut done, None);
        }
        let [bio] = done.as_mut_slice() else { panic!("one bio went, {} came back", done.len()) };
        assert_eq!(bio.token(), 77);
        (bio.status(), bio.take_buffer())
    }
}
