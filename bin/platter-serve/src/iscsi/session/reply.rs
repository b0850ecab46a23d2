//! Responses: data, status and sense data.

use super::Session;
use super::outbox::Body;
use crate::clients::add_alone;
use platter_block::bio::Op;
use platter_remote::iscsi::wire::{Header, NO_TAG, at, flag, opcode};
use platter_scsi::unit::{Response, Status};
use std::sync::atomic::Ordering;

/// What a transfer has left over, as flags and count.
#[derive(Clone, Copy)]
struct Residual {
    flags: u8,
    count: u32,
}

impl Residual {
    /// Of `actual` bytes where `expected` were.
    fn new(actual: u64, expected: u32) -> Residual {
        let expected = u64::from(expected);
        let count = actual.abs_diff(expected).min(u64::from(u32::MAX)) as u32;
        let flags = match actual.cmp(&expected) {
            std::cmp::Ordering::Less => flag::UNDERFLOW,
            std::cmp::Ordering::Equal => 0,
            std::cmp::Ordering::Greater => flag::OVERFLOW,
        };
        Residual { flags, count }
    }
}

impl Session<'_> {
    /// Sends the response of a command, with its data; frees its slot then. `moved`: bytes of the medium that its slot has.
    pub(super) fn respond(&mut self, index: u16, response: Response, moved: u32) {
        self.count(index, &response);
        self.close(index);
        let slot = self.slots.get(index);
        let (tag, expected, reads) = (slot.tag, slot.expected, slot.flags & flag::READ != 0);
        let good = response.status == Status::Good;
        let from_slot = moved > 0;
        let available = if from_slot { u64::from(moved) } else { response.data_in.len() as u64 };
        // Data from the initiator counts as far as the command takes it.
        let actual = if reads || slot.needed == 0 { available } else { slot.needed };
        let actual = if good || reads { actual } else { actual.min(u64::from(expected)) };
        let residual = Residual::new(actual, expected);
        let sent = if reads { available.min(u64::from(expected)) as u32 } else { 0 };
        let mut data = response.data_in;
        let (mut offset, mut data_sn) = (0, self.slots.get(index).r2ts);
        while offset < sent {
            let burst_left = self.params.max_burst - offset % self.params.max_burst;
            let length = (sent - offset).min(self.params.max_send).min(burst_left);
            let end = offset + length;
            let last = end == sent;
            let flags = if last || length == burst_left { flag::FINAL } else { 0 };
            let mut header = Header::new(opcode::DATA_IN, flags)
                .with(at::TASK_TAG, tag)
                .with(at::TRANSFER_TAG, NO_TAG)
                .with(at::DATA_SN, data_sn)
                .with(at::BUFFER_OFFSET, offset);
            let body = match from_slot {
                true => Body::Slot(index, offset..end),
                false => Body::Bytes(data.drain(..length as usize).collect()),
            };
            if last && good {
                header.0[1] |= flag::STATUS | residual.flags;
                header = header.with_byte(3, response.status.code()).with(at::RESIDUAL, residual.count);
                return self.push(header, body, Some(index));
            }
            self.push_data(header, body);
            (offset, data_sn) = (end, data_sn + 1);
        }
        let header = Header::new(opcode::RESPONSE, flag::FINAL | residual.flags)
            .with_byte(3, response.status.code())
            .with(at::TASK_TAG, tag)
            .with(at::DATA_SN, data_sn)
            .with(at::RESIDUAL, residual.count);
        let sense = match response.sense.len() {
            0 => Body::Nothing,
            len => Body::Bytes([&(len as u16).to_be_bytes()[..], &response.sense].concat()),
        };
        self.push(header, sense, Some(index));
    }

    fn count(&mut self, index: u16, response: &Response) {
        let counts = &self.client.counts;
        if response.status != Status::Good {
            return add_alone(&counts.errors, 1);
        }
        let slot = self.slots.get(index);
        let bytes = slot.data.as_ref().map(|data| data.len() as u64);
        let op = match slot.cdb[0] {
            _ if bytes.is_some() && slot.flags & flag::READ != 0 => Op::Read,
            0x41 | 0x42 | 0x93 => Op::Discard,
            _ if bytes.is_some() => Op::Write,
            0x35 | 0x91 => Op::Flush,
            _ => return,
        };
        counts.completed(op, bytes.unwrap_or(0), add_alone);
    }

    /// A command is over: it counts no longer as unanswered.
    fn close(&mut self, index: u16) {
        if let Some(mark) = self.slots.get(index).mark.take() {
            self.admission.answered(mark, self.channel.now());
        }
        self.slots.answered(index);
    }

    /// Forgets a command without a response.
    pub(super) fn drop_slot(&mut self, index: u16) {
        if self.asks.take_if(|asking| *asking == index).is_some() {
            // While it counts as waiting nothing is received, and a place that it was given is not free for others.
            self.admission.withdraw(self.channel.now());
        }
        self.arrived.retain(|other| *other != index);
        self.close(index);
        if let Some(buffer) = self.slots.get(index).data.take() {
            self.buffers.put(buffer);
        }
        self.slots.put(index);
    }

    /// Adds a unit with a StatSN of its own.
    pub(super) fn push(&mut self, header: Header, body: Body, frees: Option<u16>) {
        let header = header.with(at::STAT_SN, self.stat_sn);
        self.stat_sn = self.stat_sn.wrapping_add(1);
        self.push_with(header, body, frees);
    }

    /// Adds a unit that says which StatSN is next.
    pub(super) fn push_unnumbered(&mut self, header: Header, body: Body) {
        self.push_with(header.with(at::STAT_SN, self.stat_sn), body, None);
    }

    /// Adds data without a status, which has no StatSN.
    fn push_data(&mut self, header: Header, body: Body) {
        self.push_with(header, body, None);
    }

    fn push_with(&mut self, header: Header, body: Body, frees: Option<u16>) {
        let room = self.window.saturating_sub(self.slots.open() as u32);
        let max = self.exp_cmd_sn.wrapping_add(room).wrapping_sub(1);
        // Never smaller than before, although immediate commands make the room smaller: what was promised stays.
        if max.wrapping_sub(self.max_cmd_sn) as i32 > 0 {
            self.max_cmd_sn = max;
        }
        let header = header.with(at::EXP_CMD_SN, self.exp_cmd_sn).with(at::MAX_CMD_SN, self.max_cmd_sn);
        self.outbox.push(header, body, frees, self.digests, &self.slots);
        self.client.counts.in_flight.store(self.slots.open() as u64, Ordering::Relaxed);
    }
}
